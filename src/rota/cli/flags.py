"""The coordinator's settings as flags, spelled and explained as in `rota.config`."""

from collections.abc import Callable
from inspect import Parameter, signature
from typing import Annotated, Any, TypeVar

import typer

from rota.config import OPTIONS

F = TypeVar("F", bound=Callable[..., None])

DATABASE = ("database_url", "home")


def setting_flags(*keys: str) -> Callable[[F], F]:
    """Gives a command, whose function takes `**flags`, one flag for each key; unset ones arrive as None.

    All are texts: `Settings.load` reads and refuses a flag as it does the environment's spelling of the same key.
    """

    def extend(command: F) -> F:
        own = signature(command)
        kept = [p for p in own.parameters.values() if p.kind is not Parameter.VAR_KEYWORD]
        flags = [Parameter(key, Parameter.KEYWORD_ONLY, default=None, annotation=_annotation(key)) for key in keys]
        parameters = kept + flags
        command.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": None}
        return command

    return extend


def _annotation(key: str) -> Any:
    option = OPTIONS[key]
    about = option.help[:1].upper() + option.help[1:]
    # The default is told and not set, so that a flag that was not given leaves the other sources in force.
    default = f" [default: {option.text(option.default)}]" if option.default not in (None, False) else ""
    text = f"{about}.{default}"
    if isinstance(option.default, bool):
        return Annotated[bool | None, typer.Option(f"{option.flag}/--no-{option.flag[2:]}", help=text)]
    return Annotated[str | None, typer.Option(option.flag, metavar=_metavar(option.field, key), help=text)]


def _metavar(field: str, key: str) -> str:
    if field.endswith("_s"):
        return "DURATION"
    if key.endswith(("listen", "advertise")):
        return "HOST:PORT"
    if key.endswith("_name"):
        return "NAME"
    if key.endswith(("_url", "_endpoint")):
        return "URL"
    return "PATH" if key.startswith("tls_") or key == "home" else "VALUE"
