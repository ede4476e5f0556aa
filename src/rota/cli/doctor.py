"""`rota doctor`: looks at everything that tends to be wrong and says what to do."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import typer

from rota.cli.context import Globals, JsonFlag, client, output, settings
from rota.cli.devhome import database
from rota.cli.errors import Exit, explain
from rota.cli.flags import DATABASE, setting_flags

if TYPE_CHECKING:
    from rota.diagnosis import Finding

T = TypeVar("T")


class _Own(NamedTuple):
    """A finding of the command line's own."""

    name: str
    level: str
    text: str
    remedy: str


@setting_flags(*DATABASE)
def doctor(
    context: typer.Context,
    invariants: Annotated[
        bool, typer.Option("--invariants", help="Look through all rows for what must never be. Takes its time.")
    ] = False,
    repair: Annotated[bool, typer.Option("--repair", help="With --invariants: repair what is safe to repair.")] = False,
    json: JsonFlag = False,
    **flags: str | None,
) -> None:
    """Check the configuration, the database, the coordinators and the connection. Exit 1 when something is broken."""
    out = output(context, json)
    if repair and not invariants:
        raise typer.BadParameter("belongs to --invariants, which says what there is to repair", param_hint="--repair")
    details: dict[str, Any] = {}
    findings: list[_Own | Finding] = []
    given = _look("configuration", lambda: settings(context, flags), findings)
    if given is not None:
        from rota import bootstrap, diagnosis

        def look_at_database() -> None:
            with database(given) as url:
                findings.extend(bootstrap.diagnose(url))
                if invariants:
                    checked = bootstrap.check_invariants(url, repair=repair)
                    findings.extend(map(diagnosis.of_invariant, checked))
                    details["invariants"] = [diagnosis.document(each) for each in checked]

        _look("database", look_at_database, findings)
    _look("address", lambda: _call_coordinator(context, findings), findings)
    broken = any(f.level == "error" for f in findings)
    if out.json:
        shown = [{"name": f.name, "level": f.level, "text": f.text, "remedy": f.remedy} for f in findings]
        out.document({"ok": not broken, "findings": shown, **details})
    else:
        out.table(("", "CHECK", "FOUND"), [(f.level, f.name, _sentence(f)) for f in findings], fold="FOUND")
    if broken:
        raise typer.Exit(Exit.REFUSED)


def _look(name: str, look: Callable[[], T], findings: "list[_Own | Finding]") -> T | None:
    try:
        return look()
    except Exception as error:
        problem = explain(error)
        if problem is None:
            raise
        findings.append(_Own(name, "error", problem.message, problem.hint))
        return None


def _call_coordinator(context: typer.Context, findings: "list[_Own | Finding]") -> None:
    with client(context) as rota:
        rota.list_jobs(page_size=1)
        key = "--api-key" if Globals.of(context).api_key else "the key found"
        findings.append(_Own("address", "ok", f"a coordinator answers at {rota.address}, and takes {key}", ""))


def _sentence(finding: "_Own | Finding") -> str:
    return f"{finding.text}; {finding.remedy}" if finding.remedy else finding.text
