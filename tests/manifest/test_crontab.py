"""Crontabs are read as cron reads them."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from rota.domain.jitter import JitterMode
from rota.domain.schedule import MissedMode, OverlapMode
from rota.manifest import crontab, imported, naming
from rota.manifest.crontab import Options
from rota.manifest.imported import Imported, Status
from rota.targets.command import Command, parse_command

DATA = Path(__file__).parent / "data"
DEBIAN: dict[str, Any] = json.loads((DATA / "crontabs.json").read_text())
NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)


def read(text: str, *, system: bool = False, zone: str = "Europe/Berlin", **more: str) -> Imported:
    return crontab.read(text, "tab", "tab", Options(system, zone, **more), NOW)


def commands(found: Imported) -> list[Command]:
    """What the exec runner makes of the payloads."""
    assert not found.refused, found.refused
    return [parse_command(item.definition.job.payload.data) for item in found.document("set", NOW).schedules]


def reason(text: str, **more: Any) -> str:
    [row] = read(text, **more).refused
    return row.notes[0]


@pytest.mark.parametrize("name", list(DEBIAN["files"]))
def test_the_crontabs_of_debian_run_at_the_right_times(name: str) -> None:
    expected = DEBIAN["files"][name]
    text = (DATA / "crontabs" / name).read_text()
    found = crontab.read(text, name, name, Options(True, DEBIAN["timezone"]), NOW)
    by_status = {status: [row.line for row in found.rows if row.status is status] for status in Status}
    assert by_status[Status.TAKEN] == [int(line) for line in expected["next"]]
    assert by_status[Status.REFUSED] == expected.get("refused", [])
    assert by_status[Status.NOTED] == expected.get("noted", [])
    items = {item.id: item for item in found.document("set", NOW).schedules}
    after = datetime.fromisoformat(DEBIAN["from"])
    for row in found.rows:
        if row.status is Status.TAKEN:
            rule = items[row.id].rule
            times = [line.local for line in rule.preview(after, 3)]
            assert times == [f"{time}:00+01:00" for time in expected["next"][str(row.line)]], row
            *_, user, command = row.what.split(maxsplit=6)
            ran = parse_command(items[row.id].definition.job.payload.data)
            assert ran.user == user
            assert ran.argv == ("/bin/sh", "-c", command.replace("\\%", "%"))


def test_every_file_of_debian_is_of_a_known_package() -> None:
    assert sorted(DEBIAN["files"]) == sorted(path.name for path in (DATA / "crontabs").iterdir())
    assert len(DEBIAN["files"]) >= 12


def test_a_line_becomes_a_schedule_that_does_as_cron_does() -> None:
    found = read("# Nightly.\n30 2 * * *  /usr/local/bin/backup --all\n")
    [item] = found.document("set", NOW).schedules
    timing, definition = item.definition.timing, item.definition
    assert (item.id, timing.expression, timing.time_zone) == ("tab-backup-all", "30 2 * * *", "Europe/Berlin")
    assert (definition.missed.mode, definition.overlap.mode) == (MissedMode.COALESCE, OverlapMode.ALLOW)
    assert (definition.job.type, definition.job.queue) == ("rota.exec", "commands")
    assert (definition.job.retry.max_attempts, definition.job.timeouts.run_s) == (1, 7 * 86_400)
    assert definition.notes == "Nightly."
    assert commands(found) == [Command(("/bin/sh", "-c", "/usr/local/bin/backup --all"), dir="~")]


def test_the_clock_changes() -> None:
    [item] = read("30 2 * * * run").document("set", NOW).schedules
    times = [line.local for line in item.rule.preview(datetime(2027, 3, 27, 12, tzinfo=UTC), 2)]
    assert times == ["2027-03-28T03:00:00+02:00", "2027-03-29T02:30:00+02:00"]


def test_environment_holds_for_the_lines_below() -> None:
    found = read(
        "* * * * * a\nSHELL=/bin/bash\n PATH = /opt/bin:/bin \nEMPTY=\nQ1=\"  kept  \"\n'Q2' = 'a=b'\n"
        "* * * * * b\nHOME=/srv\nMAILTO=ops@example.org\nPATH=$HOME/bin\n* * * * * c\n"
    )
    first, second, third = commands(found)
    assert (first.argv[0], first.env) == ("/bin/sh", {})
    shared = {"SHELL": "/bin/bash", "EMPTY": "", "Q1": "  kept  ", "Q2": "a=b"}
    assert second == Command(("/bin/bash", "-c", "b"), shared | {"PATH": "/opt/bin:/bin"}, dir="~")
    more = {"HOME": "/srv", "MAILTO": "ops@example.org", "PATH": "$HOME/bin"}
    assert third == Command(("/bin/bash", "-c", "c"), shared | more, dir="/srv")
    noted = {row.what: row.notes[0] for row in found.rows if row.status is Status.NOTED}
    assert "nothing is mailed" in noted["MAILTO=ops@example.org"]
    assert "cron does not expand $" in noted["PATH=$HOME/bin"]


def test_zones_and_delays() -> None:
    found = read(
        "0 5 * * * a\nCRON_TZ=America/New_York\nRANDOM_DELAY=15\n0 5 * * * b\nTZ=Asia/Tokyo\n0 5 * * * c\nLOGNAME=x\n"
    )
    first, second, third = (item.definition.timing for item in found.document("set", NOW).schedules)
    assert (first.time_zone, first.jitter_s) == ("Europe/Berlin", 0)
    assert (second.time_zone, second.jitter_s, second.jitter_mode) == ("America/New_York", 900, JitterMode.HASH)
    assert third.time_zone == "America/New_York"
    assert commands(found)[2].env == {"TZ": "Asia/Tokyo"}
    assert [row.line for row in found.rows if row.status is Status.NOTED] == [2, 3, 5, 7]


def test_a_zone_that_does_not_exist_takes_the_lines_below_with_it() -> None:
    found = read("CRON_TZ=PST\n0 5 * * * a\nCRON_TZ=UTC\n0 5 * * * b\n")
    assert [(row.line, row.status) for row in found.rows] == [
        (1, Status.REFUSED),
        (2, Status.REFUSED),
        (3, Status.NOTED),
        (4, Status.TAKEN),
    ]
    assert "timezone: expected" in found.rows[1].notes[0]


@pytest.mark.parametrize(
    ("text", "command", "stdin"),
    [
        ("date +\\%F", "date +%F", None),
        ("mail -s x ada%Hello,%%Bye", "mail -s x ada", "Hello,\n\nBye\n"),
        ("cat%", "cat", ""),
        ("cat%a\\%b%c\\d\\", "cat", "a%b\nc\\d\\\n"),
        (r"echo \\%x", r"echo \\", "x\n"),
        (r"sed 's/\(a\)/\\1/'", r"sed 's/\(a\)/\\1/'", None),
        ("cat%a\\\\%b", "cat", "a\\%b\n"),
    ],
)
def test_percent_signs(text: str, command: str, stdin: str | None) -> None:
    assert crontab.split(text) == (command, stdin)
    [ran] = commands(read(f"@daily {text}"))
    assert (ran.argv[2], ran.stdin) == (command, stdin)


def test_what_else_lines_may_look_like() -> None:
    found = read("\ufeff-*/15 * * * *\tquiet\n@hourly A=1 B=2 run\n\t0\t0  1 jan,JUL  mon-fri x=y z\r\n@weekly last")
    assert [item.definition.timing.expression for item in found.document("set", NOW).schedules] == [
        "*/15 * * * *",
        "@hourly",
        "0 0 1 jan,JUL mon-fri",
        "@weekly",
    ]
    assert [command.argv[2] for command in commands(found)] == ["quiet", "A=1 B=2 run", "x=y z", "last"]
    assert "the - before it" in found.rows[0].notes[0]
    assert "carriage return" in found.rows[2].notes[0]


def test_users() -> None:
    found = read("0 5 * * * www-data run it\n@daily nobody y\n", system=True)
    assert [(command.user, command.dir, command.argv[2]) for command in commands(found)] == [
        ("www-data", "~", "run it"),
        ("nobody", "/", "y"),
    ]
    assert commands(read("0 5 * * * run", user="ada", queue="here"))[0].user == "ada"
    [item] = read("0 5 * * * run", queue="here").document("set", NOW).schedules
    assert item.definition.job.queue == "here"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("@reboot run", "expected a time, found '@reboot'"),
        ("@fortnightly run", "cron: expected one of @hourly"),
        ("0 5 * *", "expected five fields and a command, found '0 5 * *'"),
        ("0 5 * * *", "expected five fields and a command"),
        ("@daily", "expected a time and a command"),
        ("0 5 31 2 * run", "cron: expected a date that comes in some year"),
        ("0 22-2 * * * run", "write 22-23,0-2"),
        ("*/90 * * * * run", "cron: minute: expected a step within the range"),
        ("0~59 * * * * run", "cron: minute: expected"),
        ("60 * * * * run", "cron: minute: expected 0 to 59"),
        ("0 5 * * * root run", "if the lines name users, say --system"),
        ("0 5 * * * %in", "expected a command, found none; write it before the first %"),
        ("A='x", "expected a value in quotes, found"),
        ('A="x" y', "expected a value in quotes, found"),
        ("RANDOM_DELAY=soon", "RANDOM_DELAY: expected minutes from 0 to 1440, found 'soon'"),
        ("0 5 * * * caf\ufffd", "expected UTF-8 text"),
        ("hello", "expected five fields and a command, found 'hello'"),
    ],
)
def test_lines_that_are_not_taken(text: str, words: str) -> None:
    assert words in reason(text)


def test_lines_of_system_crontabs_that_are_not_taken() -> None:
    assert "expected five fields, a user and a command" in reason("0 5 * * * run", system=True)
    assert "--no-system" in reason("0 5 * * * run", system=True)


def test_nothing_is_silent() -> None:
    text = "# comment\n\nA=1\n0 5 * * * a\nnonsense\n"
    assert [(row.line, row.status) for row in read(text).rows] == [(4, Status.TAKEN), (5, Status.REFUSED)]


def test_ids_stay_when_lines_move() -> None:
    lines = ["0 5 * * * /a/b.sh daily", "0 6 * * * /a/b.sh weekly", "@daily [ -x /z ] && /z --now >/dev/null 2>&1"]
    forward, backward = read("\n".join(lines)), read("\n".join(reversed(lines)))
    assert list(forward.schedules) == ["tab-b.sh-daily", "tab-b.sh-weekly", "tab-z-now"]
    assert set(forward.schedules) == set(backward.schedules)
    assert forward.schedules == backward.schedules
    twice = read("0 5 * * * a\n0 6 * * * a\n0 7 * * * a")
    assert list(twice.schedules) == ["tab-a", "tab-a-2", "tab-a-3"]


@pytest.mark.parametrize(
    ("command", "slug"),
    [
        ("/usr/sbin/dma -q", "dma-q"),
        ("cd /srv && nice -n10 ./report.py --all > out", "report.py-all"),
        ("if [ -x /a/b ]; then /a/b; fi", "b"),
        ("A=$(date +%s | tail -1); find /tmp -delete", "find-tmp-delete"),
        ("curl -fsS https://example.org/ping", "curl-fss-https-example.org-ping"),
        ("[ -f x ]", "f-x"),
    ],
)
def test_slugs(command: str, slug: str) -> None:
    assert naming.slug(command) == slug


def test_long_and_wordless_commands_have_slugs_of_their_own() -> None:
    one, two = naming.slug("run " + "x" * 100), naming.slug("run " + "x" * 101)
    assert one != two
    assert len(one) <= naming.SLUG_CHARS_MAX
    assert len(naming.slug("!!")) == 8


def test_the_yaml_written_is_read_back_as_it_was() -> None:
    text = 'A=no\n*/5 * * * * printf "%s" yes: # {not} \\% & *x%1%2\n@daily true\n'
    found = read(text)
    written = imported.text(found.schedules, "set", "From tab.\nTwice.")
    assert written.startswith("# From tab.\n# Twice.\nset: set\n")
    from rota.manifest import document

    again = document.read(written, "tab", "", NOW)
    assert [item.definition for item in again.schedules] == [
        item.definition for item in found.document("set", NOW).schedules
    ]


@pytest.mark.parametrize(
    ("above", "notes"),
    [
        ("# One.\n#  Two.\n", "One.\nTwo."),
        ("# Of the file.\n\n", None),
        ("# m h  dom mon dow   command\n", None),
        ("# .---- minute\n# |  |\n# *  *  *  *  * user-name command\n# Real.\n", "Real."),
        ("# About a line that is off.\n#*/15 * * * * off\n", None),
        ("A=1\n", None),
    ],
)
def test_comments_right_above_are_notes(above: str, notes: str | None) -> None:
    assert next(iter(read(f"{above}@daily run").schedules.values())).get("notes") == notes


def test_limits() -> None:
    many = read("".join(f"* * * * * run {n}\n" for n in range(1001)))
    assert [row.line for row in many.refused] == [1001]
    assert "expected at most 1048576 characters" in reason("#" * (1024 * 1024 + 1))
