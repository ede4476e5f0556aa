"""The exec runner: a worker whose handler runs commands.

What becomes of a command:

    exit code 0                 SUCCEEDED, with {"exit_code", "output", "truncated", "duration_s"} as its result
    any other                   failed as ExitCode, and retried as the job's policy says, 75 (EX_TEMPFAIL) like others
    killed by a signal          failed as Signal, likewise
    it cannot be started        failed for good: InvalidCommand, CommandNotFound, NotExecutable, CommandTooLong,
                                DirectoryNotFound, UserUnknown, UserNotAllowed; or StartFailed, which is retried

It is stopped when its job is cancelled, at its run timeout, when its lease is lost, and when the runner leaves and
has waited: SIGTERM to its process group, and SIGKILL to what is left after the grace. Exit code 0 is a success then
too. Processes of the group that outlive the first one are stopped in the same way.

A new attempt of a job whose lease was lost, or which ran into its timeout, may start within the grace of the old one;
ROTA_FENCE tells them apart.
"""

import asyncio
import errno
import json
import logging
import os
import pwd
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

from rota_sdk import Cancelled, Failed, Lease, Payload, Stop, Worker

from rota.clock import Clock
from rota.domain.errors import InvalidArgument
from rota.domain.limits import FAILURE_STACK_BYTES_MAX, RESULT_BYTES_MAX
from rota.targets import leaving
from rota.targets.attempt import instant
from rota.targets.command import ATTEMPT_VARIABLES, CONTENT_TYPE, JOB_TYPE, Command, parse_command
from rota.targets.output import json_size, utf8_size
from rota.targets.process import KILL_WAIT_S, Process, Start
from rota.targets.warden import Warden

log = logging.getLogger("rota.exec")

GRACE_S: Final = 10.0
DRAIN_TIMEOUT_S: Final = 30.0
LINGER_S: Final = 1.0
"""After a command's end: how long others may go on writing to its output."""

RESULT_ENVELOPE_BYTES: Final = 256
"""Room in a result beside the output."""


class Commands:
    """Runs the commands of leases, and knows those that run.

    `environment` is what commands inherit, all of Rota's own settings (ROTA_*) left out.
    """

    def __init__(self, environment: Mapping[str, str], warden: Warden, clock: Clock, *, grace_s: float) -> None:
        self._environment = inherited(environment)
        self._warden = warden
        self._clock = clock
        self._grace_s = grace_s
        self._hurry = asyncio.Event()
        self._attempts: set[asyncio.Task[Payload]] = set()

    async def handle(self, lease: Lease) -> Payload:
        """The worker's handler. Raises Failed or Cancelled."""
        attempt = asyncio.create_task(self._attend(lease))
        self._attempts.add(attempt)
        attempt.add_done_callback(self._forget)
        # A worker that leaves cancels handlers; a command gets its grace all the same.
        return await asyncio.shield(attempt)

    def hurry(self) -> None:
        """Ends every grace, those to come too."""
        self._hurry.set()

    async def close(self) -> None:
        """Returns when no command runs."""
        if self._attempts:
            await asyncio.wait(self._attempts)

    def _forget(self, attempt: "asyncio.Task[Payload]") -> None:
        self._attempts.discard(attempt)
        if not attempt.cancelled():
            attempt.exception()

    async def _attend(self, lease: Lease) -> Payload:
        stop = asyncio.create_task(lease.until_cancelled())
        try:
            start = await self._prepare(lease)
            if lease.stop_reason is not None:
                raise Cancelled(f"{lease.stop_reason.name.lower()}: before it started")
            began = self._clock.monotonic()
            try:
                process = await Process.start(start, self._warden, self._clock)
            except OSError as error:
                _refuse(error, start)
            try:
                stopped = await self._see_to_its_end(process, stop)
            finally:
                process.close()
            return _conclude(lease, process, stopped, self._clock.monotonic() - began)
        except Failed as failure:
            log.info("%s attempt %d: %s: %s", lease.job, lease.attempt, failure.type, failure)
            raise
        finally:
            stop.cancel()

    async def _prepare(self, lease: Lease) -> Start:
        try:
            command = parse_command(lease.data)
        except InvalidArgument as error:
            raise _fatal("InvalidCommand", error.message) from None
        # Accounts and folders may be on the network.
        return await asyncio.to_thread(prepare, command, lease, self._environment)

    async def _see_to_its_end(self, process: Process, stop: "asyncio.Task[bool]") -> bool:
        """Whether it had to be stopped."""
        await process.wait(stop)
        stopped = process.exit_code is None
        if not stopped:
            await process.silence(LINGER_S)
        if process.alive:
            await process.end(self._grace_s, self._hurry)
            await process.silence(LINGER_S)
        return stopped


async def serve(
    queues: Sequence[str],
    slots: int,
    clock: Clock,
    *,
    address: str | None = None,
    api_key: str | None = None,
    name: str = "",
    grace_s: float = GRACE_S,
    drain_timeout_s: float = DRAIN_TIMEOUT_S,
    environment: Mapping[str, str] = os.environ,
) -> None:
    """Takes jobs of type rota.exec from the queues until a signal or the coordinator says otherwise.

    In the main thread SIGTERM and SIGINT drain: running commands get `drain_timeout_s`, then they are stopped. A
    second signal kills them. None outlives the call. Raises InvalidArgument, and the SDK's errors as `Worker.run`.
    """
    try:
        worker = Worker(
            queues,
            slots,
            address=address,
            api_key=api_key,
            name=name,
            drain_timeout=drain_timeout_s,
            unwind_timeout=grace_s + KILL_WAIT_S + 2 * LINGER_S,
        )
    except ValueError as error:
        raise InvalidArgument(str(error)) from None
    loop = asyncio.get_running_loop()
    warden = Warden(grace_s)
    commands = Commands(environment, warden, clock, grace_s=grace_s)
    worker.add(JOB_TYPE, commands.handle, interrupt=False)
    try:
        await leaving.serve(
            worker,
            log,
            first="leaving when the running commands have ended; a second one kills them",
            second="killing what runs",
            hurry=lambda: loop.call_soon_threadsafe(commands.hurry),
        )
    finally:
        await commands.close()
        warden.close()


def inherited(environment: Mapping[str, str]) -> dict[str, str]:
    """What commands get of the runner's environment: its own settings and its trace are not for them."""
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith("ROTA_") and name not in ATTEMPT_VARIABLES
    }


def prepare(command: Command, lease: Lease, environment: Mapping[str, str]) -> Start:
    """What to start for a lease. Raises Failed, not to be retried, when this machine lacks what it takes."""
    account, switch = _account(command.user)
    variables = dict(environment)
    if account is not None:
        variables |= {"HOME": account.pw_dir, "USER": account.pw_name, "LOGNAME": account.pw_name}
    variables |= command.env
    variables |= attempt_variables(lease)
    folder = command.dir
    if folder is not None:
        if folder.startswith("~"):
            home = account.pw_dir if account is not None else str(Path.home())
            folder = home + folder[1:]
        if not Path(folder).is_dir():
            raise _fatal("DirectoryNotFound", f"dir: expected a directory on this machine, found none at {folder!r}")
    return Start(command.argv, variables, folder, account if switch else None, command.stdin)


def attempt_variables(lease: Lease) -> dict[str, str]:
    """What a command is told of its attempt; what is not known is unset."""
    remaining = lease.remaining()
    told = {
        "ROTA_JOB": lease.job,
        "ROTA_ATTEMPT": str(lease.attempt),
        "ROTA_FENCE": str(lease.fence),
        "ROTA_EFFECT_KEY": lease.effect_key,
        "ROTA_SCHEDULE": lease.schedule,
        "ROTA_NOMINAL_TIME": instant(lease.nominal_time),
        "ROTA_DUE_TIME": instant(lease.due_time),
        "ROTA_DEADLINE_S": str(int(remaining)) if remaining != float("inf") else "",
        "TRACEPARENT": lease.traceparent,
    }
    return {name: value for name, value in told.items() if value}


def _account(user: str | None) -> tuple[pwd.struct_passwd | None, bool]:
    """The account that was asked for, and whether the runner must switch to it."""
    if user is None:
        return None, False
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        raise _fatal("UserUnknown", f"user: expected an account of this machine, found {user!r}") from None
    if os.geteuid() == 0:
        return account, True
    if account.pw_uid != os.geteuid():
        raise _fatal(
            "UserNotAllowed",
            f"user: expected none or the runner's own, found {user!r}; only a runner that runs as root can switch",
        )
    return account, False


def _refuse(error: OSError, start: Start) -> NoReturn:
    """What it means that a process could not be started."""
    program, words = start.argv[0], error.strerror or str(error)
    if start.account is not None and error.errno == errno.EPERM:
        raise _fatal(
            "UserNotAllowed", f"user: the system does not let the runner become {start.account.pw_name!r}: {words}"
        )
    if start.dir is not None and error.filename == start.dir:
        raise _fatal("DirectoryNotFound", f"dir: expected a directory to run in, found {start.dir!r}: {words}")
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        path = "" if "/" in program else f" on the PATH {start.environment.get('PATH', os.defpath)}"
        raise _fatal(
            "CommandNotFound", f"expected a program {program!r}{path}, found none, or its interpreter is missing"
        )
    if isinstance(error, PermissionError):
        raise _fatal("NotExecutable", f"expected a program that may be run, found {program!r}: {words}")
    if error.errno == errno.ENOEXEC:
        raise _fatal("NotExecutable", f"expected a program, found {program!r}: {words}; a script begins with #!")
    if error.errno == errno.E2BIG:
        raise _fatal("CommandTooLong", "the arguments and the environment are too long together; use stdin or a file")
    raise Failed(f"{program!r} could not be started: {words}", type="StartFailed") from None


def _conclude(lease: Lease, process: Process, stopped: bool, duration_s: float) -> Payload:
    """The result of a success. Raises Failed or Cancelled for everything else."""
    code, output = process.exit_code, process.output
    if code == 0:
        text, truncated = output.text(RESULT_BYTES_MAX - RESULT_ENVELOPE_BYTES, json_size)
        result = {"exit_code": 0, "output": text, "truncated": truncated, "duration_s": round(duration_s, 3)}
        log.info("%s attempt %d: exit code 0 after %.3f s", lease.job, lease.attempt, duration_s)
        return Payload(json.dumps(result, ensure_ascii=False).encode(), CONTENT_TYPE)
    how = _how(code)
    stack, _ = output.text(FAILURE_STACK_BYTES_MAX, utf8_size)
    reason = lease.stop_reason if stopped else None
    if reason is not None and reason is not Stop.TIMED_OUT:
        words = f"{reason.name.lower()}: {how}"
        log.info("%s attempt %d: stopped after %.3f s: %s", lease.job, lease.attempt, duration_s, words)
        raise Cancelled(words)
    last = output.last_line()
    message = f"{how}: {last}" if last else how
    if reason is Stop.TIMED_OUT:
        # The SDK reports its own words, with this output.
        raise Failed(message, type="TimedOut", stack=stack)
    raise Failed(message, type="Signal" if code is None or code < 0 else "ExitCode", stack=stack)


def _how(code: int | None) -> str:
    if code is None:
        return "does not end, not even by SIGKILL"
    if code >= 0:
        return f"exit code {code}"
    name = f"signal {-code}"
    with suppress(ValueError):
        name = signal.Signals(-code).name
    return f"killed by {name}"


def _fatal(type: str, message: str) -> Failed:
    return Failed(message, type=type, retryable=False)
