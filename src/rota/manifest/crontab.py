"""Crontabs, of users and of the system (/etc/crontab, /etc/cron.d), read as cron reads them.

    NAME=value lines       hold for the lines below; a value in quotes keeps its blanks; nothing is expanded
    SHELL                  runs the commands; HOME is where they run
    CRON_TZ                the zone of the lines below (cronie); TZ goes to the commands and moves no time
    RANDOM_DELAY           jitter, in minutes (cronie)
    MAILTO, MAILFROM       go to the commands; nothing is mailed, the output is kept with the job
    % in a command         ends it, what follows is its standard input with further ones as new lines; \\% is a %
    @daily and the like    as in cron; @reboot is not taken

A run that fails is not repeated, runs may overlap and nothing bounds their time but Rota's own longest bound, as with
cron. Unlike cron, runs missed in downtime are made up for by one run (`missed: coalesce`).
"""

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from rota.domain import limits, zones
from rota.domain.errors import InvalidArgument
from rota.domain.text import shown
from rota.manifest import naming
from rota.manifest.imported import NOT_REPEATED, RUN_MOST, Imported, unique

FILE_BYTES_MAX: Final = 1024 * 1024
COMMENT_CHARS_MAX: Final = 1_000
_NAME: Final = r"""(?:"([^"]+)"|'([^']+)'|([^\s="'#]+))"""
_ASSIGNMENT: Final = re.compile(rf"\s*{_NAME}\s*=\s*(.*?)\s*")
_HEADING: Final = re.compile(
    r"#\s*(m(in(ute)?)?\s+h(our)?\b.*|.*-{4,}.*|[|\s]*\|[|\s]*|(\*\s+){4}.*|([0-9*/,-]+\s+){4}\S.*|@[a-z]+\s.*)",
    re.IGNORECASE,
)
"""Drawings of the fields, and entries that are commented out: they say nothing about the line below."""

_MAIL: Final = frozenset({"MAILTO", "MAILFROM", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING"})
_FIXED: Final = frozenset({"LOGNAME", "USER"})
_HOMELESS: Final = "nobody"


@dataclass(frozen=True, slots=True)
class Options:
    """How a crontab is meant. `zone`: of lines that no CRON_TZ stands above."""

    system: bool
    zone: str
    queue: str = ""
    user: str = ""


def read(text: str, source: str, name: str, options: Options, now: datetime) -> Imported:
    """Reads a crontab. `source` names it in messages, `name` begins the ids."""
    return _Reader(source, name, options, now).read(text)


@dataclass(slots=True)
class _Reader:
    source: str
    name: str
    options: Options
    now: datetime
    env: dict[str, str] = field(default_factory=dict)
    zone: str = ""
    jitter_minutes: int = 0
    comment: list[str] = field(default_factory=list)
    result: Imported = field(init=False)

    def read(self, text: str) -> Imported:
        self.result = Imported(self.source)
        self.zone = self.options.zone
        if len(text) > FILE_BYTES_MAX:
            self.result.refuse(
                0, "", f"expected at most {FILE_BYTES_MAX} characters, found {len(text)}; split the file"
            )
            return self.result
        for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
            self._line(number, line)
        return self.result

    def _line(self, number: int, line: str) -> None:
        stripped = line.strip()
        if not stripped:
            self.comment = []
        elif stripped.startswith("#"):
            self.comment.append(stripped)
        elif "\0" in line or "\ufffd" in line:
            self.result.refuse(number, stripped, "expected UTF-8 text without NUL, found other bytes; convert the file")
        elif len(self.result.schedules) >= limits.SCHEDULE_BATCH_MAX:
            most = limits.SCHEDULE_BATCH_MAX
            self.result.refuse(number, stripped, f"expected at most {most} entries, found more; split the file")
        elif assignment := _ASSIGNMENT.fullmatch(line):
            self._assign(number, stripped, assignment)
        else:
            self._entry(number, stripped, returned=line.endswith("\r"))
            self.comment = []

    def _assign(self, number: int, line: str, found: re.Match[str]) -> None:
        name, value = found[1] or found[2] or found[3], found[4]
        self.comment = []
        if value[:1] in ("'", '"'):
            if len(value) < 2 or value[-1] != value[0] or value[0] in value[1:-1]:
                remedy = "close the quotes at its end, and write no more behind them"
                self.result.refuse(number, line, f"expected a value in quotes, found {shown(value)}; {remedy}")
                return
            value = value[1:-1]
        if name == "CRON_TZ":
            self._set_zone(number, line, value)
        elif name == "RANDOM_DELAY":
            if not value.isdigit() or int(value) * 60 > limits.JITTER_MAX_S:
                expected = f"minutes from 0 to {limits.JITTER_MAX_S / 60:.0f}"
                self.result.refuse(number, line, f"RANDOM_DELAY: expected {expected}, found {shown(value)}; correct it")
                return
            self.jitter_minutes = int(value)
            self.result.note(number, line, "lines below get this jitter: one delay for each schedule, below that span")
        elif name in _FIXED:
            self.result.note(number, line, f"cron does not let {name} be set, and neither is it here")
        else:
            self.env[name] = value
            self._remark(number, line, name, value)

    def _set_zone(self, number: int, line: str, value: str) -> None:
        try:
            zones.find(value, "CRON_TZ")
        except InvalidArgument as error:
            self.result.refuse(number, line, error.message)
            # Lines below must not run at times of another zone than their writer meant.
            self.zone = value
            return
        self.zone = value
        self.result.note(number, line, f"times of the lines below are those of {value}")

    def _remark(self, number: int, line: str, name: str, value: str) -> None:
        notes = []
        if name in _MAIL and value:
            notes.append("nothing is mailed: output is kept with the job; commands get the variable")
        if name == "TZ":
            notes.append("commands get it, and no time follows it, as with cron; CRON_TZ or --timezone say the zone")
        if "$" in value:
            notes.append("passed as it is written: cron does not expand $ either")
        if name == "HOME" and not value.startswith("/"):
            notes.append("commands run in the user's own home: this is no absolute path")
        if notes:
            self.result.note(number, line, *notes)

    def _entry(self, number: int, line: str, *, returned: bool) -> None:
        notes = ["the carriage return at its end was left out"] if returned else []
        if line.startswith("-"):
            line = line[1:].lstrip()
            notes.append("the - before it, which keeps it out of the system's log, has no meaning here")
        count = 1 if line.startswith("@") else 5
        parts = line.split(maxsplit=count)
        when, rest = " ".join(parts[:count]), parts[count] if len(parts) > count else ""
        if when == "@reboot":
            remedy = "have the machine start it, for example by a unit of systemd"
            self.result.refuse(number, line, f"expected a time, found '@reboot', which is no time of a clock; {remedy}")
            return
        user = self.options.user
        if self.options.system:
            parts = rest.split(maxsplit=1)
            user, rest = (parts[0], parts[1] if len(parts) > 1 else "") if parts else ("", "")
        if not rest:
            expected = f"{'a time' if count == 1 else 'five fields'}{', a user' * self.options.system} and a command"
            remedy = "complete the line"
            if self.options.system:
                remedy += "; a user's crontab, without users, is read with --no-system"
            self.result.refuse(number, line, f"expected {expected}, found {shown(line)}; {remedy}")
            return
        if not self.options.system and rest.split()[0] == "root":
            remedy = "if the lines name users, say --system"
            self.result.refuse(number, line, f"expected a command, found 'root'; {remedy}")
            return
        self._take(number, line, when, user, rest, notes)

    def _take(self, number: int, line: str, when: str, user: str, rest: str, notes: list[str]) -> None:
        command, stdin = split(rest)
        if not command.strip():
            remedy = "write it before the first %"
            self.result.refuse(number, line, f"expected a command, found none; {remedy}")
            return
        program: dict[str, Any] = {"command": command}
        env = {name: value for name, value in self.env.items() if name != "HOME"}
        if (shell := env.get("SHELL")) and shell != "/bin/sh":
            program["shell"] = shell
        home = self.env.get("HOME", "")
        program["dir"] = home if home.startswith("/") else "/" if user == _HOMELESS else "~"
        if home:
            env["HOME"] = home
        if env:
            program["env"] = env
        if user:
            program["user"] = user
        if stdin is not None:
            program["stdin"] = stdin
        schedule: dict[str, Any] = {"cron": when, "timezone": self.zone, "missed": "coalesce", "command": program}
        if self.jitter_minutes:
            schedule["jitter"] = f"{self.jitter_minutes}m"
        if about := self._about():
            schedule["notes"] = about
        schedule["job"] = {"retry": dict(NOT_REPEATED), "timeouts": {"run": RUN_MOST}}
        if self.options.queue:
            schedule["job"]["queue"] = self.options.queue
        id = unique(naming.id_of(self.name, command), self.result.schedules)
        self.result.add(number, line, id, schedule, notes, self.now)

    def _about(self) -> str:
        """The comment right above, if it is one about the line."""
        headings = [index for index, line in enumerate(self.comment) if _HEADING.fullmatch(line)]
        lines = self.comment[headings[-1] + 1 :] if headings else self.comment
        return "\n".join(text for line in lines if (text := line.lstrip("#").strip()))[:COMMENT_CHARS_MAX]


def split(text: str) -> tuple[str, str | None]:
    """A command and its standard input, as cron tells them apart: at the first % that no backslash stands before."""
    command: list[str] = []
    escaped = False
    for index, character in enumerate(text):
        if escaped and character == "%":
            command[-1] = "%"
            escaped = False
        elif character == "%":
            return "".join(command), _stdin(text[index + 1 :])
        else:
            command.append(character)
            escaped = character == "\\" and not escaped
    return "".join(command), None


def _stdin(text: str) -> str:
    """What follows the first %: further ones are new lines, and one ends it."""
    found: list[str] = []
    escaped = False
    for character in text:
        if escaped:
            if character != "%":
                found.append("\\")
            found.append(character) if character != "\\" else None
            escaped = character == "\\"
        elif character == "\\":
            escaped = True
        else:
            found.append("\n" if character == "%" else character)
    if escaped:
        found.append("\\")
    if found and found[-1] != "\n":
        found.append("\n")
    return "".join(found)
