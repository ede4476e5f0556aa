"""The command as a whole: help, cost of start, errors and exit codes."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from rota_sdk.gen.rota.v1 import jobs_pb2

from rota.cli import errors
from rota.cli.errors import Exit
from rota.domain.errors import FailedPrecondition, FieldViolation, InvalidArgument, NotFound, Unavailable
from tests.cli.script import job

HEAVY = {
    "grpc",
    "google",
    "yaml",
    "sqlalchemy",
    "alembic",
    "psycopg",
    "rich",
    "rota_sdk",
    "rota.bootstrap",
    "opentelemetry",
    "h11",
    "idna",
}


def run(*arguments: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "rota", *arguments], capture_output=True, text=True, env={**os.environ, **environ}
    )


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["job", "--help"], ["serve", "--help"], ["schedule", "preview", "--help"], ["--version"]]
    + [[command, "--help"] for command in ("dev", "exec", "http", "apply", "import", "calendar")],
)
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    code = f"import sys\nfrom rota.cli.main import main\nprint(main({arguments!r}))\nprint('\\0', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    said, _, loaded = done.stdout.partition("\0")
    assert said.endswith("\n0\n")
    assert not HEAVY & set(loaded.split())


def test_help_lists_every_command_and_the_exit_codes() -> None:
    done = run("--help", COLUMNS="100")
    assert done.returncode == 0
    commands = ["dev", "serve", "migrate", "doctor", "exec", "http", "apply"]
    for command in [*commands, "key", "job", "schedule", "calendar", "import", "worker"]:
        assert f"\n  {command} " in done.stdout
    assert "Exit codes: 0 done; 1 refused" in " ".join(done.stdout.split())
    assert "--install-completion" in done.stdout


@pytest.mark.parametrize(
    "command", ["dev", "serve", "migrate", "doctor", "exec", "http", "apply", "worker list"]
    + ["import crontab", "import k8s"]
    + [f"key {name}" for name in ("create", "list", "revoke")]
    + [f"job {name}" for name in ("create", "get", "list", "cancel", "retry", "reschedule", "attempts", "watch")]
    + [f"calendar {name}" for name in ("create", "get", "list", "edit", "delete")]
    + [f"schedule {name}" for name in ("preview", "create", "get", "list", "edit", "pause", "resume", "trigger")]
    + [f"schedule {name}" for name in ("backfill", "backfills", "cancel-backfill", "history", "delete")],
)  # fmt: skip
def test_each_command_explains_itself(command: str, rota: Any) -> None:
    ran = rota(*command.split(), "--help")
    assert ran.code == 0
    assert ran.out.startswith(f"Usage: rota {command} [OPTIONS]")
    assert "--json" in ran.out


def test_the_version_is_that_of_the_distribution(rota: Any) -> None:
    assert rota("--version").out == "rota 0.1.0\n"


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["job", "gett"], "No such command 'gett'", "see rota job --help"),
        (["job", "get"], "Missing argument 'JOB'", "see rota job get --help"),
        (["job", "list", "--address", "x"], "No such option: --address", "--address stands before the command"),
        (["job", "create", "x", "--priority", "10"], "Invalid value for '--priority'", "see rota job create --help"),
        (["job", "get", "7"], "JOB: expected jobs/<uuid> or a uuid, found '7'", ""),
        (["--address", "a:b:c", "job", "list"], "address: expected", ""),
        (["dev", "--for", "5s"], "--for: expected together with --examples, found alone", ""),
        (["dev", "--examples", "/nowhere"], "--examples: expected a readable /nowhere/jobs.json", ""),
        (["serve", "--session-ttl", "soon"], "--session-ttl: expected a duration such as", ""),
    ],
)
def test_usage_errors_are_a_line_and_a_hint(arguments: list[str], message: str, hint: str, rota: Any) -> None:
    ran = rota(*arguments)
    assert (ran.code, ran.out) == (Exit.USAGE, "")
    lines = ran.err.splitlines()
    assert lines[0].startswith(f"error: {message}")
    assert len(lines) <= 2
    assert hint in ran.err
    told = rota("--json", *arguments).error
    assert set(told) == {"reason", "message", "details"}
    assert told["message"].startswith(message)


def test_no_arguments_show_the_help(rota: Any) -> None:
    assert rota().err.startswith("Usage: rota [OPTIONS] COMMAND")
    assert rota("job").code == Exit.USAGE


def test_a_coordinator_that_is_not_there_is_exit_3_with_a_remedy(rota: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_ADDRESS", "127.0.0.1:1")
    ran = rota("job", "list")
    assert (ran.code, ran.out) == (Exit.UNREACHABLE, "")
    assert "error: expected a Rota server at 127.0.0.1:1" in ran.err
    assert "hint: `rota dev` starts one here" in ran.err


@pytest.mark.parametrize(
    ("code", "reason", "exit_code", "hint"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, "VALIDATION_FAILED", Exit.USAGE, "shorten it"),
        (grpc.StatusCode.NOT_FOUND, "RESOURCE_NOT_FOUND", Exit.NOT_FOUND, "check the id"),
        (grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED", Exit.REFUSED, "rota key create"),
        (grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_DENIED", Exit.REFUSED, "role"),
        (grpc.StatusCode.FAILED_PRECONDITION, "INVALID_STATE", Exit.REFUSED, "shorten it"),
        (grpc.StatusCode.ALREADY_EXISTS, "REQUEST_ID_REUSED", Exit.REFUSED, "shorten it"),
        (grpc.StatusCode.UNIMPLEMENTED, "NOT_IMPLEMENTED", Exit.REFUSED, "not of the server's release"),
        (grpc.StatusCode.UNAVAILABLE, "STORE_UNAVAILABLE", Exit.UNREACHABLE, "shorten it"),
    ],
)
def test_the_coordinator_s_refusals_map_to_exit_codes(
    code: grpc.StatusCode, reason: str, exit_code: Exit, hint: str, rota: Any, coordinator: Any
) -> None:
    coordinator.refuse(code, reason, "what was found; shorten it", limit="3")
    ran = rota("job", "list")
    assert (ran.code, ran.out) == (exit_code, "")
    error, told_hint = ran.err.splitlines()
    assert error.startswith("error: what was found")
    assert told_hint.startswith("hint: ")
    assert hint in told_hint
    told = rota("job", "list", "--json").error
    assert (told["reason"], told["details"]) == (reason, {"limit": "3"})


@pytest.mark.parametrize(
    ("error", "exit_code", "message", "hint"),
    [
        (Unavailable("no database; start it"), Exit.UNREACHABLE, "no database", "start it"),
        (FailedPrecondition("port taken; a; stop it"), Exit.REFUSED, "port taken; a", "stop it"),
        (NotFound("gone", reason="X"), Exit.NOT_FOUND, "gone", ""),
        (InvalidArgument.field("listen", "bad"), Exit.USAGE, "listen: bad", ""),
        (FileNotFoundError(2, "No such file", "x.pem"), Exit.REFUSED, "x.pem: No such file", ""),
        (
            InvalidArgument("a: b; c: d", violations=(FieldViolation("a", "b"), FieldViolation("c", "d"))),
            Exit.USAGE,
            "a: b; c: d",
            "",
        ),
    ],
)
def test_errors_of_this_process_are_explained_too(error: Exception, exit_code: Exit, message: str, hint: str) -> None:
    problem = errors.explain(error)
    assert problem is not None
    assert (problem.exit, problem.message, problem.hint) == (exit_code, message, hint)


def test_a_bug_stays_a_traceback() -> None:
    assert errors.explain(KeyError("x")) is None


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_leaves_early_is_no_traceback(unbuffered: str, coordinator: Any) -> None:
    # The read end is closed before anything is written, as `head` does a little later.
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "rota", "job", "get", "019ad0b2-7c1e-7aaa-8bbb-0123456789ab"],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "ROTA_ADDRESS": coordinator.address, "PYTHONUNBUFFERED": unbuffered},
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (Exit.REFUSED, "")


def on_a_terminal(columns: int, *arguments: str, **environ: str) -> str:
    """What a terminal of that width is sent."""
    screen, terminal = os.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "rota", *arguments],
        stdin=terminal,
        stdout=terminal,
        stderr=subprocess.PIPE,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": str(columns), **environ},
    )
    os.close(terminal)
    assert (done.returncode, done.stderr) == (0, b"")
    said = b""
    with suppress(OSError):  # the end of a terminal without a program
        while more := os.read(screen, 65536):
            said += more
    os.close(screen)
    return said.decode().replace("\r\n", "\n")


def test_a_narrow_terminal_loses_the_least_columns_first(coordinator: Any) -> None:
    coordinator.jobs = [job(state=jobs_pb2.JOB_STATE_DEAD)]
    environ = {"ROTA_ADDRESS": coordinator.address}
    heads = {
        columns: on_a_terminal(columns, "--no-color", "job", "list", **environ).splitlines()[0].split()
        for columns in (120, 80, 70)
    }
    assert heads == {
        120: ["JOB", "TYPE", "QUEUE", "STATE", "TRIES", "CREATED"],
        80: ["JOB", "TYPE", "QUEUE", "STATE", "TRIES"],
        70: ["JOB", "TYPE", "STATE", "TRIES"],
    }
    assert coordinator.jobs[0].name in on_a_terminal(60, "job", "list", **environ)


def test_colours_are_for_terminals_that_want_them(coordinator: Any) -> None:
    coordinator.jobs = [job(state=jobs_pb2.JOB_STATE_DEAD)]
    environ = {"ROTA_ADDRESS": coordinator.address, "NO_COLOR": ""}
    red = "\x1b[31mDEAD"
    assert red in on_a_terminal(120, "job", "list", **environ)
    assert red not in on_a_terminal(120, "--no-color", "job", "list", **environ)
    assert red not in on_a_terminal(120, "job", "list", **environ | {"NO_COLOR": "1"})


def test_the_terminal_is_not_driven_by_texts_of_others(rota: Any, coordinator: Any) -> None:
    coordinator.refuse(grpc.StatusCode.FAILED_PRECONDITION, "INVALID_STATE", "\x1b[2J\x07 [bold]x[/bold]")
    assert rota("job", "list").err == "error: \\x1b[2J\\x07 [bold]x[/bold]\n"


def test_the_exit_codes_of_the_readme_are_those_of_the_code() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    for code in Exit:
        assert f"| {code.value} | " in readme
