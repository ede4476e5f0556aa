"""The payload of a command: what is read, and every refusal by its field."""

import json
from typing import Any

import pytest

from rota.domain.errors import InvalidArgument
from rota.domain.limits import PAYLOAD_BYTES_MAX
from rota.targets.command import ARGUMENT_BYTES_MAX, Command, parse_command


def parse(**document: Any) -> Command:
    return parse_command(json.dumps(document).encode())


def refused(data: bytes) -> dict[str, str]:
    with pytest.raises(InvalidArgument) as caught:
        parse_command(data)
    return {v.field: v.description for v in caught.value.violations}


def test_a_text_is_for_the_shell() -> None:
    assert parse(command="date; id") == Command(("/bin/sh", "-c", "date; id"))
    assert parse(command="date", shell="/bin/bash").argv == ("/bin/bash", "-c", "date")


def test_a_list_is_run_as_it_is() -> None:
    command = parse(argv=["echo", "", "$HOME"], env={"A": "", "B.C": "x=y"}, dir="~/data", user="ada", stdin="")
    assert command == Command(("echo", "", "$HOME"), {"A": "", "B.C": "x=y"}, "~/data", "ada", "")


@pytest.mark.parametrize("folder", ["/", "/srv/data", "~", "~/x"])
def test_directories(folder: str) -> None:
    assert parse(command="ls", dir=folder).dir == folder


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "found nothing"),
        (b"\xff", "found otherwise"),
        (b"{", "found otherwise"),
        (b"[" * 100_000, "found otherwise"),
        (b'"ls"', "found a text"),
        (b"[]", "found a list"),
        (b"null", "found null"),
        (b" " * (PAYLOAD_BYTES_MAX + 1), "over the limit"),
    ],
)
def test_what_is_no_object_is_refused(data: bytes, words: str) -> None:
    assert words in refused(data)["payload"]


@pytest.mark.parametrize(
    ("document", "field", "words"),
    [
        ({}, "command", "found neither"),
        ({"command": "ls", "argv": ["ls"]}, "command", "found both"),
        ({"command": " \n"}, "command", "found blanks alone"),
        ({"command": ""}, "command", "found an empty one"),
        ({"command": ["ls"]}, "command", "found a list"),
        ({"command": "a\0b"}, "command", "NUL"),
        ({"command": "\ud800"}, "command", "surrogates"),
        ({"command": "x" * (ARGUMENT_BYTES_MAX + 1)}, "command", "stdin"),
        ({"argv": []}, "argv", "found an empty one"),
        ({"argv": "ls -l"}, "argv", "found a text"),
        ({"argv": ["sleep", 5]}, "argv[1]", "expected a text, found a number; put it in quotes"),
        ({"argv": [""]}, "argv[0]", "name what to run"),
        ({"argv": ["ls"], "shell": "/bin/sh"}, "shell", "together with command"),
        ({"command": "ls", "env": []}, "env", "found a list"),
        ({"command": "ls", "env": {"A": True}}, "env['A']", "found true or false"),
        ({"command": "ls", "env": {"A=B": ""}}, "env['A=B']", "no '='"),
        ({"command": "ls", "env": {"": ""}}, "env['']", "not empty"),
        ({"command": "ls", "env": {"ROTA_JOB": "x"}}, "env['ROTA_JOB']", "does not set itself"),
        ({"command": "ls", "env": {"A": "x" * ARGUMENT_BYTES_MAX}}, "env['A']", "at most"),
        ({"command": "ls", "dir": "data"}, "dir", "absolute path"),
        ({"command": "ls", "dir": "~ada/x"}, "dir", "absolute path"),
        ({"command": "ls", "user": 1000}, "user", "found a number"),
        ({"command": "ls", "stdin": None}, "stdin", "found null"),
        ({"command": "ls", "comand": "ls"}, "comand", "did you mean command?"),
        ({"command": "ls", "zzz": "ls"}, "zzz", "known are command, argv"),
    ],
)
def test_each_refusal_names_its_field(document: dict[str, Any], field: str, words: str) -> None:
    violations = refused(json.dumps(document).encode())
    assert words in violations.pop(field)
    assert violations == {}


def test_all_that_is_wrong_is_told_at_once() -> None:
    assert list(refused(b'{"cmd": "ls", "dir": 1, "env": {"A": 1}}')) == ["cmd", "command", "env['A']", "dir"]


def test_a_key_that_comes_twice_is_refused() -> None:
    assert refused(b'{"command": "ls", "command": "rm"}') == {
        "command": "expected each key once, found it twice; remove one of them"
    }
