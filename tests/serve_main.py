"""A coordinator as tests start it: settings from the environment, and one line once it answers."""

from rota import bootstrap
from rota.bootstrap import Ready
from rota.config import Settings


def main() -> None:
    settings = Settings.load()
    assert settings.database_url is not None

    def ready(found: Ready) -> None:
        print(f"listening {found.address}", flush=True)

    raise SystemExit(bootstrap.serve(settings, settings.database_url, on_ready=ready))


main()
