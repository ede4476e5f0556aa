"""What the harness tells its systems: all of it is in the environment."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Self

FAST = {"ROTA_SESSION_TTL": "2s", "ROTA_SHARD_TERM": "2s", "ROTA_DELIVERY_TTL": "1s"}
"""What the profile `fast` sets: short times until a crash is noticed."""


class Killed(Enum):
    """Who is in the process group that the harness may kill; its value ends the name of the peer's folder."""

    BOTH = ""
    WORKER = "-worker"
    COORDINATOR = "-coordinator"


@dataclass(frozen=True, slots=True)
class Scene:
    """`folder` is this run's own: key and address lie there, beside the harness's files."""

    database_url: str
    events: Path
    slots: int
    handler_s: float
    fast: bool
    second: bool
    """A worker that is started after the first was killed or stopped."""

    killed: Killed

    @classmethod
    def of(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """Whatever is not told is as by default."""
        name = Path(environ.get("BENCH_DIR", "")).name
        ends = [end for end in Killed if end.value and name.endswith(end.value)]
        return cls(
            environ["DATABASE_URL"],
            Path(environ["BENCH_EVENTS"]),
            int(environ.get("BENCH_CONC") or 0) or 500,
            float(environ.get("BENCH_HANDLER_S") or 0),
            environ.get("BENCH_PROFILE") == "fast",
            bool(environ.get("BENCH_SECOND")),
            ends[0] if ends else Killed.BOTH,
        )

    @property
    def folder(self) -> Path:
        return self.events.parent

    def settings(self, listen: str) -> dict[str, str]:
        """The environment of a coordinator."""
        own = {"ROTA_DATABASE_URL": self.database_url, "ROTA_LISTEN": listen, "ROTA_HOME": str(self.folder)}
        return {**os.environ, **own, **(FAST if self.fast else {})}


def forget_outside() -> None:
    """What would steer Rota from outside the benchmark is for none of its processes."""
    for name in list(os.environ):
        if name.startswith(("ROTA_", "OTEL_")):
            del os.environ[name]
