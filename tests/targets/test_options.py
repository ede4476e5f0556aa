"""The command line of `rota exec`."""

import subprocess
import sys

import pytest

from rota.cli import exec as command
from rota.domain.duration import parse_duration
from rota.targets import exec as target

from ..harness import clean_environment


def rota(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "rota", *arguments],
        env=clean_environment() | {"COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_help_shows_a_payload_and_every_option() -> None:
    done = rota("exec", "--help")
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: rota exec [OPTIONS]")
    text = " ".join(done.stdout.split())
    for words in ('{"command": "', '{"argv": ["', "[default: commands]", "at most 8", "[default: 10s]", "ROTA_FENCE"):
        assert words in text
    for option in ("--queue", "--slots", "--name", "--grace", "--drain-timeout", "--json"):
        assert f"\n  {option} " in done.stdout


def test_the_defaults_are_those_of_the_runner() -> None:
    assert (parse_duration(command.GRACE), parse_duration(command.DRAIN)) == (target.GRACE_S, target.DRAIN_TIMEOUT_S)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["exec", "--grace", "soon"], "--grace: expected a duration such as"),
        (["exec", "--drain-timeout", "-1"], "--drain-timeout: expected a duration such as"),
        (["exec", "--slots", "0"], "Invalid value for '--slots'"),
        (["exec", *["--queue", "q"] * 65], "queues: expected a list of 1 to 64 names"),
        (["--address", "ftp://x", "exec"], "address"),
    ],
)
def test_bad_options_are_a_line_and_the_usage_code(arguments: list[str], words: str) -> None:
    done = rota(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert words in done.stderr
