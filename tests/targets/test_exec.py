"""Commands as real processes: results, failures, limits, and every way to be stopped."""

import asyncio
import os
import pwd
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from rota_sdk import Cancelled, Failed, Stop

from .conftest import GRACE_S, Bench, Lease, gone, pid_in, runs

IGNORING = "trap '' TERM; echo $$ > {file}; while :; do sleep 0.1; done"
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


async def test_the_output_is_the_result(bench: Bench) -> None:
    result = await bench.result(command="echo one; echo two >&2; echo three")
    assert result.pop("duration_s") > 0
    assert result == {"exit_code": 0, "output": "one\ntwo\nthree\n", "truncated": False}


async def test_arguments_reach_the_program_as_they_are(bench: Bench) -> None:
    assert await bench.output(argv=["printf", "[%s]", "a b", "", "$HOME", "ä"]) == "[a b][][$HOME][ä]"


async def test_another_shell(bench: Bench) -> None:
    assert await bench.output(command="echo ${BASH_VERSION:+bash}", shell="/bin/bash") == "bash\n"


@pytest.mark.parametrize(
    ("script", "type", "message"),
    [
        ("echo half; echo no space left >&2; exit 3", "ExitCode", "exit code 3: no space left"),
        ("exit 75", "ExitCode", "exit code 75"),
        ("no-such-program-here", "ExitCode", "exit code 127: "),
        ("echo bye; kill -9 $$", "Signal", "killed by SIGKILL: bye"),
        ("kill -TERM $$", "Signal", "killed by SIGTERM"),
    ],
)
async def test_what_is_not_exit_code_0_fails_and_the_policy_decides(
    script: str, type: str, message: str, bench: Bench
) -> None:
    error = await bench.failure(Failed, command=script)
    assert (error.type, error.retryable) == (type, None)
    assert str(error).startswith(message)
    if "half" in script:
        assert error.stack == "half\nno space left\n"


@pytest.mark.parametrize(
    ("document", "type", "words"),
    [
        ({"argv": ["no-such-program-here"]}, "CommandNotFound", "'no-such-program-here' on the PATH "),
        ({"argv": ["/nowhere/program"]}, "CommandNotFound", "'/nowhere/program', found none"),
        ({"argv": ["/etc/passwd"]}, "NotExecutable", "'/etc/passwd': Permission denied"),
        ({"command": "ls", "dir": "/nowhere"}, "DirectoryNotFound", "found none at '/nowhere'"),
        ({"command": "ls", "dir": "/etc/passwd"}, "DirectoryNotFound", "found none at '/etc/passwd'"),
        ({"command": "ls", "user": "nobody-by-this-name"}, "UserUnknown", "found 'nobody-by-this-name'"),
        ({"comand": "ls"}, "InvalidCommand", "comand: no such key; did you mean command?"),
    ],
)
async def test_what_cannot_start_fails_for_good(document: dict[str, Any], type: str, words: str, bench: Bench) -> None:
    error = await bench.failure(Failed, **document)
    assert (error.type, error.retryable, error.stack) == (type, False, "")
    assert words in str(error)


async def test_a_file_that_is_no_program(bench: Bench, tmp_path: Path) -> None:
    file = tmp_path / "program"
    file.write_bytes(b"\x00\x01\x02")
    file.chmod(0o755)
    error = await bench.failure(Failed, argv=[str(file)])
    assert (error.type, error.retryable) == ("NotExecutable", False)
    assert "a script begins with #!" in str(error)


async def test_the_environment_tells_of_the_attempt_and_nothing_of_the_runner(bench: Bench) -> None:
    lease = Lease(command="env", env={"MINE": "1", "INHERITED": "over"})
    variables = dict(line.split("=", 1) for line in (await bench.begin(lease)).json()["output"].splitlines())
    assert {name: value for name, value in variables.items() if name.startswith("ROTA_")} == {
        "ROTA_JOB": lease.job,
        "ROTA_ATTEMPT": "2",
        "ROTA_FENCE": "4294967298",
        "ROTA_EFFECT_KEY": "default/019ad0b2/0",
        "ROTA_DUE_TIME": "2026-11-30T08:15:00.000Z",
        "ROTA_DEADLINE_S": "60",
    }
    assert variables["TRACEPARENT"] == lease.traceparent
    assert (variables["MINE"], variables["INHERITED"]) == ("1", "over")


async def test_a_command_of_a_schedule_knows_it(bench: Bench) -> None:
    lease = Lease(command='echo "$ROTA_SCHEDULE $ROTA_NOMINAL_TIME ${ROTA_DEADLINE_S-unset}"')
    lease.schedule, lease.nominal_time, lease.remaining_s = "schedules/nightly", lease.due_time, float("inf")
    assert (await bench.begin(lease)).json()["output"] == "schedules/nightly 2026-11-30T08:15:00.000Z unset\n"


async def test_the_directory(bench: Bench, tmp_path: Path) -> None:
    assert await bench.output(command="pwd", dir=str(tmp_path)) == f"{tmp_path}\n"
    home = await bench.output(command="pwd", dir="~")
    assert Path(home.strip()).samefile(Path.home())


async def test_standard_input(bench: Bench) -> None:
    text = "line ä\n" * 20_000
    assert await bench.output(argv=["wc", "-c"], stdin=text) == f"{len(text.encode())}\n"
    assert await bench.output(argv=["wc", "-c"]) == "0\n"


@root_only
async def test_root_becomes_the_user(bench: Bench) -> None:
    account = pwd.getpwnam("nobody")
    said = await bench.output(command='id -u; id -g; id -G; echo "$USER $HOME"', user="nobody", dir="/")
    groups = " ".join(map(str, os.getgrouplist("nobody", account.pw_gid)))
    assert said == f"{account.pw_uid}\n{account.pw_gid}\n{groups}\nnobody {account.pw_dir}\n"


async def test_others_cannot_become_anybody_else(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    me = pwd.getpwuid(os.geteuid()).pw_name
    other = next(a.pw_name for a in pwd.getpwall() if a.pw_uid not in (0, 4321, os.geteuid()))
    if os.geteuid() == 0:
        monkeypatch.setattr(os, "geteuid", lambda: 4321)
        me = ""
    error = await bench.failure(Failed, command="id", user=other)
    assert (error.type, error.retryable) == ("UserNotAllowed", False)
    if me:
        assert await bench.output(command="id -un", user=me) == f"{me}\n"


async def test_ten_megabytes_are_cut_in_the_middle(bench: Bench) -> None:
    script = "import sys; sys.stdout.write('start\\n' + 'x' * 10_000_000 + '\\nend\\n')"
    result = await bench.result(argv=[sys.executable, "-c", script])
    assert result["truncated"] is True
    assert result["output"].startswith("start\nxxx")
    assert result["output"].endswith("xxx\nend\n")
    cut = int(result["output"].partition("[")[2].partition(" bytes cut]")[0])
    assert 9_900_000 < cut < 10_000_000


async def test_output_that_is_no_text(bench: Bench) -> None:
    assert await bench.output(command=r"printf 'a\000b\377c\n'") == "ab�c\n"


async def test_a_grandchild_that_holds_the_output_is_ended_and_not_waited_for(bench: Bench, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    began = time.monotonic()
    result = await bench.result(command=f"sleep 60 & echo $! > {file}; echo done")
    assert result["output"] == "done\n"
    assert time.monotonic() - began < 5
    assert not runs(await pid_in(file))


async def test_a_grandchild_in_a_session_of_its_own_is_not_waited_for(bench: Bench, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    began = time.monotonic()
    assert await bench.output(command=f"setsid sh -c 'echo $$ > {file}; sleep 60' & sleep 0.3; echo done") == "done\n"
    assert time.monotonic() - began < 5
    os.kill(await pid_in(file), 9)


async def test_a_cancelled_command_gets_sigterm_with_all_its_children(bench: Bench, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    lease = Lease(command=f"echo $$ > {file}; sleep 60 & sleep 60")
    running = bench.begin(lease)
    group = await pid_in(file)
    lease.stop(Stop.CANCEL)
    began = time.monotonic()
    with pytest.raises(Cancelled, match="cancel: killed by SIGTERM"):
        await running
    assert time.monotonic() - began < GRACE_S
    await gone(group)


async def test_a_command_that_ignores_sigterm_is_killed_after_the_grace(bench: Bench, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    lease = Lease(command=IGNORING.format(file=file))
    running = bench.begin(lease)
    group = await pid_in(file)
    lease.stop(Stop.CANCEL)
    began = time.monotonic()
    with pytest.raises(Cancelled, match="cancel: killed by SIGKILL"):
        await running
    assert time.monotonic() - began >= GRACE_S
    await gone(group)


async def test_a_child_that_ignores_sigterm_is_killed_after_its_parent(bench: Bench, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    lease = Lease(command=f"({IGNORING.format(file='/dev/null')}) & echo $$ > {file}; wait")
    running = bench.begin(lease)
    group = await pid_in(file)
    lease.stop(Stop.LOST)
    with pytest.raises(Cancelled, match="lost: killed by SIGTERM"):
        await running
    await gone(group)


async def test_a_stopped_process_heeds_its_end(bench: Bench, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    lease = Lease(command=f"echo $$ > {file}; kill -STOP $$; sleep 60")
    running = bench.begin(lease)
    await pid_in(file)
    lease.stop(Stop.CANCEL)
    with pytest.raises(Cancelled, match="killed by SIGTERM"):
        await running


async def test_exit_code_0_after_sigterm_is_a_success(bench: Bench, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    lease = Lease(command=f"trap 'echo saved; exit 0' TERM; echo $$ > {file}; while :; do sleep 0.05; done")
    running = bench.begin(lease)
    await pid_in(file)
    lease.stop(Stop.LEAVING)
    # The shell itself may say of its child that it was terminated.
    assert (await running).json()["output"].endswith("saved\n")


async def test_a_timeout_is_a_failure_with_the_output_so_far(bench: Bench, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    lease = Lease(command=f"echo so far; echo $$ > {file}; sleep 60")
    running = bench.begin(lease)
    await pid_in(file)
    lease.stop(Stop.TIMED_OUT)
    with pytest.raises(Failed, match="killed by SIGTERM: so far") as caught:
        await running
    assert caught.value.stack == "so far\n"


async def test_hurry_ends_every_grace(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.commands, "_grace_s", 60.0)
    file = tmp_path / "pid"
    lease = Lease(command=IGNORING.format(file=file))
    running = bench.begin(lease)
    group = await pid_in(file)
    lease.stop(Stop.LEAVING)
    done, _ = await asyncio.wait([running], timeout=0.3)
    assert not done
    bench.commands.hurry()
    with pytest.raises(Cancelled, match="leaving: killed by SIGKILL"):
        await asyncio.wait_for(running, 5)
    await gone(group)


async def test_a_cancelled_handler_leaves_the_command_its_grace(bench: Bench, tmp_path: Path) -> None:
    file, saved = tmp_path / "pid", tmp_path / "saved"
    lease = Lease(
        command=f"trap 'sleep 0.2; echo > {saved}; exit 1' TERM; echo $$ > {file}; while :; do sleep 0.05; done"
    )
    running = bench.begin(lease)
    group = await pid_in(file)
    lease.stop(Stop.SESSION_GONE)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await bench.commands.close()
    assert saved.exists()
    await gone(group)
