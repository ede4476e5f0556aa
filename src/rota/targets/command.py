"""What a job of type `rota.exec` runs: its payload, read and checked.

{"command": "text for the shell"} or {"argv": ["program", "argument", …]}, and optionally
{"shell": "/bin/sh", "env": {"NAME": "value"}, "dir": "/absolute or ~", "user": "name", "stdin": "text"}
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from rota.domain.limits import PAYLOAD_BYTES_MAX
from rota.domain.text import Problems, shown
from rota.domain.wording import json_kind, suggestion
from rota.targets.document import read_object

JOB_TYPE: Final = "rota.exec"
QUEUE_DEFAULT: Final = "commands"
CONTENT_TYPE: Final = "application/json"
SHELL_DEFAULT: Final = "/bin/sh"

ARGUMENT_BYTES_MAX: Final = 128 * 1024 - 1
"""Linux takes no longer single argument or NAME=value."""

ATTEMPT_VARIABLES: Final = (
    "ROTA_JOB",
    "ROTA_ATTEMPT",
    "ROTA_FENCE",
    "ROTA_EFFECT_KEY",
    "ROTA_SCHEDULE",
    "ROTA_NOMINAL_TIME",
    "ROTA_DUE_TIME",
    "ROTA_DEADLINE_S",
    "TRACEPARENT",
)
"""Set by the runner, so not by the payload."""

KEYS: Final = ("command", "argv", "shell", "env", "dir", "user", "stdin")
_EXAMPLE: Final = '{"command": "./backup.sh --all"}'


@dataclass(frozen=True, slots=True)
class Command:
    """A program with its arguments, or a text for a shell, and what it runs with.

    `env` is added to the runner's own environment. None: the runner's own `dir` and `user`, and an empty `stdin`.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    dir: str | None = None
    user: str | None = None
    stdin: str | None = None


def parse_command(data: bytes) -> Command:
    """Reads a payload. Raises InvalidArgument, with a violation for each field that is wrong."""
    given = read_object(data, "a command", _EXAMPLE)
    problems = Problems()
    for key in given:
        if key not in KEYS:
            problems.add(key[:80], f"no such key; {suggestion(key, KEYS)}")
    argv = _program(given, problems)
    command = Command(
        argv,
        _environment(given, problems),
        _dir(given, problems),
        _text(given, "user", problems),
        _text(given, "stdin", problems, empty=True),
    )
    problems.raise_any()
    return command


def _program(given: Mapping[str, Any], problems: Problems) -> tuple[str, ...]:
    if ("command" in given) == ("argv" in given):
        found = "both" if "command" in given else "neither"
        problems.add(
            "command", f"expected either command (a text for the shell) or argv (a list), found {found}; give one"
        )
        return ()
    if "command" in given:
        text = _text(given, "command", problems)
        if text and not text.strip():
            problems.add("command", "expected a text for the shell, found blanks alone; say what to run")
        shell = _text(given, "shell", problems) or SHELL_DEFAULT
        _check_length("command", text or "", problems, '{"argv": ["/bin/sh"], "stdin": "…"}')
        return shell, "-c", text or ""
    if "shell" in given:
        problems.add("shell", "expected together with command, found with argv, which needs no shell; leave it out")
    argv = given["argv"]
    if not isinstance(argv, list) or not argv:
        found = "an empty one" if argv == [] else json_kind(argv)
        problems.add("argv", f'expected a list of texts, found {found}; write ["program", "argument"]')
        return ()
    for index, argument in enumerate(argv):
        at = f"argv[{index}]"
        if _is_text(at, argument, problems):
            _check_length(at, argument, problems, "stdin or a file")
    if argv[0] == "":
        problems.add("argv[0]", "expected a program, found an empty text; name what to run")
    return tuple(argv)


def _environment(given: Mapping[str, Any], problems: Problems) -> dict[str, str]:
    if "env" not in given:
        return {}
    env = given["env"]
    if not isinstance(env, dict):
        problems.add("env", f'expected an object of texts, found {json_kind(env)}; write {{"NAME": "value"}}')
        return {}
    for name, value in env.items():
        at = f"env[{name[:40]!r}]"
        if not name or "=" in name:
            problems.add(at, "expected a name that is not empty and has no '=', found otherwise; correct the name")
        elif name in ATTEMPT_VARIABLES:
            problems.add(at, "expected a name that the runner does not set itself, found one of those; choose another")
        problems.text(f"{at} (name)", name, PAYLOAD_BYTES_MAX)
        if _is_text(at, value, problems):
            _check_length(at, f"{name}={value}", problems, "stdin or a file")
    return env


def _dir(given: Mapping[str, Any], problems: Problems) -> str | None:
    folder = _text(given, "dir", problems)
    if folder and not (folder.startswith(("/", "~/")) or folder == "~"):
        problems.add("dir", f"expected an absolute path, ~ or ~/…, found {shown(folder)}; write it from the root on")
    return folder


def _text(given: Mapping[str, Any], key: str, problems: Problems, *, empty: bool = False) -> str | None:
    """A text by its key; None when it is not there or is none."""
    if key not in given or not _is_text(key, given[key], problems):
        return None
    text: str = given[key]
    if not text and not empty:
        problems.add(key, "expected a text, found an empty one; leave it out or fill it")
    return text


def _is_text(at: str, value: Any, problems: Problems) -> bool:
    if not isinstance(value, str):
        problems.add(at, f"expected a text, found {json_kind(value)}; put it in quotes")
        return False
    problems.text(at, value, PAYLOAD_BYTES_MAX)
    return True


def _check_length(at: str, text: str, problems: Problems, instead: str) -> None:
    size = len(text.encode("utf-8", "replace"))
    if size > ARGUMENT_BYTES_MAX:
        problems.add(
            at,
            f"expected at most {ARGUMENT_BYTES_MAX} bytes, which is what a program takes, found {size}; use {instead}",
        )
