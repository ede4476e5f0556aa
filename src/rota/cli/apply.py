"""`rota apply`: makes the schedules of files true."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli.context import JsonFlag, output
from rota.domain.errors import InvalidArgument

if TYPE_CHECKING:
    from rota.manifest.document import Document

DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")]
Prune = Annotated[bool, typer.Option("--prune", help="Delete the schedules of the set that are not given any more.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; only a terminal is asked anyway.")]
SetName = Annotated[
    str | None, typer.Option("--set", metavar="NAME", help="What is managed together, in place of the file's own.")
]


def apply(
    context: typer.Context,
    file: Annotated[
        str | None,
        typer.Option(
            "--file", "-f", metavar="FILE|DIR|-", help="YAML; of a folder its *.yaml and *.yml, each a set of its own."
        ),
    ] = None,
    dry_run: DryRun = False,
    prune: Prune = False,
    yes: Yes = False,
    set_name: SetName = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of such files, and do nothing.")] = (
        False
    ),
    json: JsonFlag = False,
) -> None:
    """Make the schedules and calendars of YAML files true: create, change and, with --prune, delete.

    What would change is shown first. A file is applied as a whole or not at all, and a second time changes nothing.
    `paused` holds for schedules that are there already, too: one that was paused by hand goes on unless its file says
    paused: true. Calendars are never deleted. The set of a file is its name without the ending, unless it has a line
    set: NAME.
    """
    if schema:
        from rota.manifest.schema import text

        print(text(), end="")
        return
    if file is None:
        raise InvalidArgument.field("--file", "expected a file, a folder or -, found none; name it with -f")

    from rota.cli import changes, sources
    from rota.cli.remote import remote
    from rota.manifest.problems import Refused

    out = output(context, json)
    how = changes.How(dry_run, prune, yes)
    try:
        documents = read(sources.files("--file", file), set_name)
        with remote(context, {}) as rota:
            plans = changes.apply(rota, out, documents, how)
    except Refused as error:
        raise changes.show_refusal(error, out) from None
    if out.json:
        for plan in plans:
            out.document(changes.document_of(plan, how))


def read(names: list[str], set_name: str | None = None) -> "list[Document]":
    """All files, each checked by itself and against the others. Raises InvalidArgument, or Refused."""
    from rota.cli import sources
    from rota.clock import SystemClock
    from rota.manifest import document
    from rota.manifest.nodes import FILE_BYTES_MAX

    if set_name is not None and len(names) > 1:
        raise InvalidArgument.field(
            "--set", f"expected one file, found {len(names)}, each of which is a set of its own; leave it out"
        )
    now = SystemClock().utc()
    found: list[Document] = []
    for name in names:
        default = "" if name == sources.STANDARD_INPUT else Path(name).stem
        content = sources.text("--file", name, FILE_BYTES_MAX)
        found.append(document.read(content, sources.shown(name), default, now, set_name=set_name or ""))
    _check_apart(found)
    return found


def _check_apart(documents: "list[Document]") -> None:
    """Refuses a set or an id that two files have: each would undo what the other did."""
    from rota.manifest.problems import Problem, Refused

    sets: dict[str, str] = {}
    ids: dict[str, str] = {}
    for document in documents:
        named = [(sets, "set", document.apply_set, "set")]
        named += [(ids, "id", item.id, item.path) for item in document.schedules]
        for seen, noun, key, path in named:
            if key in seen:
                what = f"expected each {noun} in one file, found {key!r} in {seen[key]} too; rename one of them"
                raise Refused(document.source, [Problem(document.lines.get(path, 0), path, what)])
            seen[key] = document.source
