"""The global options, and what commands make of them: an output, a client, settings."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli.output import Output
from rota.domain.errors import InvalidArgument

if TYPE_CHECKING:
    from rota_sdk import Client

    from rota.config import Settings

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON: one object, or one a line for lists.")]


@dataclass(slots=True)
class Globals:
    """The options that stand before the command."""

    address: str | None = None
    api_key: str | None = None
    config: Path | None = None
    output: Output = field(default_factory=Output)

    @classmethod
    def of(cls, context: typer.Context) -> "Globals":
        given = context.find_object(cls)
        assert given is not None
        return given


def output(context: typer.Context, json: bool) -> Output:
    """Where the command prints; `json` is its own flag."""
    out = Globals.of(context).output
    out.json = out.json or json
    return out


@contextmanager
def client(context: typer.Context) -> Iterator["Client"]:
    """A client of the coordinator at --address, or as the environment says."""
    from rota_sdk import Client

    given = Globals.of(context)
    try:
        made = Client(address=given.address, api_key=given.api_key)
    except ValueError as error:
        raise InvalidArgument(str(error)) from None
    with made as connected:
        yield connected


def settings(context: typer.Context, flags: Mapping[str, object]) -> "Settings":
    """The coordinator's settings, with `flags` over environment and file."""
    from rota.config import Settings

    return Settings.load(flags, config=Globals.of(context).config)
