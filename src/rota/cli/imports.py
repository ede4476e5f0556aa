"""`rota import`: schedules out of crontabs and Kubernetes CronJobs."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rota.cli.apply import DryRun, Prune, SetName, Yes
from rota.cli.context import JsonFlag, output
from rota.domain.errors import InvalidArgument

if TYPE_CHECKING:
    from rota.cli.output import Output
    from rota.manifest.imported import Imported

app = typer.Typer(
    name="import", help="Take schedules over from crontabs and Kubernetes CronJobs.", no_args_is_help=True
)

_SYSTEM: Final = ("/etc/crontab", "/etc/cron.d/")
_SPOOL: Final = ("/var/spool/cron/crontabs", "/var/spool/cron")
_LOCALTIME: Final = Path("/etc/localtime")
_TIMEZONE: Final = Path("/etc/timezone")

SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Take the rest of a file of which something cannot be taken.")
]
Target = Annotated[
    str | None, typer.Option("--output", "-o", metavar="FILE|-", help="Write YAML for `rota apply`, and apply nothing.")
]
Zone = Annotated[str | None, typer.Option("--timezone", metavar="ZONE", help="An IANA name such as Europe/Berlin.")]


@app.command()
def crontab(
    context: typer.Context,
    file: Annotated[
        str, typer.Argument(metavar="FILE|-", help="A crontab; `crontab -l | rota import crontab -` takes your own.")
    ],
    system: Annotated[
        bool | None,
        typer.Option(
            "--system/--no-system",
            help="The sixth field is a user. [default: so for /etc/crontab and files in /etc/cron.d]",
            show_default=False,
        ),
    ] = None,
    timezone: Zone = None,
    set_name: SetName = None,
    queue: Annotated[str, typer.Option(help="Of the exec runner; commands when not given.")] = "",
    user: Annotated[str, typer.Option(help="Whose crontab it is: commands run as this user.")] = "",
    prefix: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Begins the ids, in place of the file's name: for crontabs of several machines, "
            "whose runners take queues of their own (--queue).",
        ),
    ] = "",
    target: Target = None,
    skip_bad: SkipBad = False,
    dry_run: DryRun = False,
    prune: Prune = False,
    yes: Yes = False,
    json: JsonFlag = False,
) -> None:
    """Make schedules of the lines of a crontab, whose commands `rota exec` runs.

    Each line is taken, or reported with its number and the reason; then nothing is applied, unless --skip-bad says so.
    Times are those of CRON_TZ above a line, else of --timezone, else of this machine's time zone. Times, environment,
    user, %, overlapping runs and runs without a time limit are as with cron, and a failed run is not repeated. Unlike
    cron, one run makes up for those missed in downtime (missed: coalesce), and output is kept and not mailed.
    """
    out = output(context, json)
    found, apply_set, about = read_crontab(file, system, timezone, queue, user, prefix)
    _finish(context, out, found, set_name or apply_set, about, target, skip_bad, dry_run, prune, yes)


@app.command()
def k8s(
    context: typer.Context,
    file: Annotated[
        str, typer.Argument(metavar="FILE|DIR|-", help="Manifests; `kubectl get cronjob -o yaml | rota import k8s -`.")
    ],
    timezone: Zone = None,
    job_type: Annotated[
        str,
        typer.Option(
            metavar="TYPE", help="Make jobs of this type with the container as JSON payload, for workers of your own."
        ),
    ] = "",
    set_name: SetName = None,
    queue: Annotated[str, typer.Option(help="Where workers find the jobs; commands when not given.")] = "",
    target: Target = None,
    skip_bad: SkipBad = False,
    dry_run: DryRun = False,
    prune: Prune = False,
    yes: Yes = False,
    json: JsonFlag = False,
) -> None:
    """Make schedules of Kubernetes CronJobs, whose containers' commands `rota exec` runs.

    Each CronJob is taken, or reported with the reason; then nothing is applied, unless --skip-bad says so. What a
    command leaves behind, such as its image and its volumes, is noted. Times without timeZone are taken in UTC, or as
    --timezone says. concurrencyPolicy becomes allow, skip or replace; startingDeadlineSeconds bounds how late a missed
    run is made up for; suspend becomes paused; backoffLimit and activeDeadlineSeconds become attempts and timeouts.
    """
    from rota.cli import sources
    from rota.clock import SystemClock
    from rota.domain import zones
    from rota.manifest import cronjob as reader
    from rota.manifest import imported, naming
    from rota.manifest.nodes import FILE_BYTES_MAX

    out = output(context, json)
    zone = timezone or "UTC"
    zones.find(zone, "--timezone")
    found = imported.Imported(sources.shown(file))
    now = SystemClock().utc()
    for name in sources.files("FILE", file):
        content = sources.text("FILE", name, FILE_BYTES_MAX)
        reader.read(content, sources.shown(name), reader.Options(zone, queue, job_type), now, found)
    stem = naming.cleaned(Path(file).stem) if file != sources.STANDARD_INPUT else "import"
    about = f"times without timeZone are those of {zone}"
    _finish(context, out, found, set_name or f"k8s-{stem}", about, target, skip_bad, dry_run, prune, yes)


def read_crontab(
    file: str,
    system: bool | None = None,
    timezone: str | None = None,
    queue: str = "",
    user: str = "",
    prefix: str = "",
) -> "tuple[Imported, str, str]":
    """What is taken of a crontab, the set it makes, and words about its zone. Options are those of `crontab`.

    Raises InvalidArgument.
    """
    from rota.cli import sources
    from rota.clock import SystemClock
    from rota.domain import zones
    from rota.manifest import crontab as reader
    from rota.manifest import naming

    path = str(Path(file).absolute()) if file != sources.STANDARD_INPUT else ""
    if system is None:
        system = path.startswith(_SYSTEM)
    if system and user:
        raise InvalidArgument.field(
            "--user", "expected with a user's crontab, found with one whose lines name users; leave it out"
        )
    if not system and not user and path and str(Path(path).parent) in _SPOOL:
        user = Path(path).name
    zone, why = timezone, "as --timezone says"
    if zone is None:
        zone, why = _machine_zone(), "this machine's time zone; --timezone says otherwise"
    zones.find(zone, "--timezone")
    name = naming.cleaned(prefix or Path(path).name) if prefix or path else "crontab"
    found = reader.read(
        sources.text("FILE", file, reader.FILE_BYTES_MAX, lenient=True),
        sources.shown(file),
        name,
        reader.Options(system, zone, queue, user),
        SystemClock().utc(),
    )
    apply_set = name if name.startswith("crontab") else f"crontab-{name}"
    return found, apply_set, f"times are those of {zone}, {why}"


def _finish(
    context: typer.Context,
    out: "Output",
    found: "Imported",
    apply_set: str,
    about: str,
    target: str | None,
    skip_bad: bool,
    dry_run: bool,
    prune: bool,
    yes: bool,
) -> None:
    """Reports, and then writes or applies what was taken."""
    from rota.cli import changes
    from rota.cli.errors import Exit
    from rota.cli.remote import remote
    from rota.clock import SystemClock
    from rota.manifest.problems import Refused

    report = _document(found, apply_set, about)
    to_stdout = target == "-"
    if not out.json:
        _report(found, about, stderr=to_stdout)
    refused = found.refused
    stopped = bool(refused) and not skip_bad
    try:
        if not found.schedules and not stopped:
            _say(f"nothing to take was found in {found.source}")
        elif not stopped and target is not None:
            _write(found, apply_set, target)
        elif not stopped:
            how = changes.How(dry_run, prune, yes)
            document = found.document(apply_set, SystemClock().utc())
            with remote(context, {}) as rota:
                plans = changes.apply(rota, out, [document], how)
            report |= changes.document_of(plans[0], how)
    except Refused as error:
        raise changes.show_refusal(error, out) from None
    if out.json and not to_stdout:
        out.document(report)
    if stopped:
        many = f"{len(refused)} of {len(refused) + len(found.schedules)}"
        _say(f"error: {many} cannot be taken, and nothing was applied")
        _say("hint: correct them, or leave them out with --skip-bad")
        raise typer.Exit(Exit.USAGE)


def _document(found: "Imported", apply_set: str, about: str) -> dict[str, Any]:
    return {
        "file": found.source,
        "set": apply_set,
        "about": about,
        "applied": False,
        "taken": len(found.schedules),
        "refused": len(found.refused),
        "rows": [
            {"line": row.line, "status": row.status, "what": row.what, "id": row.id, "notes": list(row.notes)}
            for row in found.rows
        ],
    }


def _report(found: "Imported", about: str, *, stderr: bool) -> None:
    from rota.cli.output import one_line, printable

    stream = sys.stderr if stderr else sys.stdout
    print(f"{found.source}: {about}", file=stream)
    for row in found.rows:
        print(printable(f"{row.line:5}  {row.status:7}  {row.id or one_line(row.what)}"), file=stream)
        if row.id:
            print(printable(f"{'':16}{one_line(row.what)}"), file=stream)
        for note in row.notes:
            print(printable(f"{'':16}{' '.join(note.split())}"), file=stream)


def _write(found: "Imported", apply_set: str, target: str) -> None:
    from rota.manifest import imported

    text = imported.text(found.schedules, apply_set, f"Imported by `rota import` from {found.source}.")
    if target == "-":
        print(text, end="")
        return
    Path(target).write_text(text, encoding="utf-8")
    _say(f"{len(found.schedules)} schedules written to {target}: rota apply -f {target}")


def _machine_zone(localtime: Path = _LOCALTIME, timezone: Path = _TIMEZONE) -> str:
    """The IANA name of this machine's zone, as cron goes by it. Raises InvalidArgument where none is to be found."""
    from rota.domain import zones

    if localtime.is_symlink():
        _, _, name = str(localtime.readlink()).rpartition("zoneinfo/")
        if name in zones.names():
            return name
    if timezone.is_file() and (name := timezone.read_text().strip()) in zones.names():
        return name
    if not localtime.exists():
        return "UTC"
    raise InvalidArgument.field("--timezone", "expected this machine's time zone to have a name, found none; give one")


def _say(text: str) -> None:
    print(text, file=sys.stderr)
