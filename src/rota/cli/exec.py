"""`rota exec`: a worker that runs commands."""

import asyncio
import os
from typing import Annotated, Final

import typer

from rota.cli import values
from rota.cli.context import Globals, JsonFlag, output
from rota.domain.limits import SLOTS_MAX
from rota.targets.command import QUEUE_DEFAULT

# As rota.targets.exec has them, which is costly to import.
GRACE: Final = "10s"
DRAIN: Final = "30s"
CPUS_MAX: Final = 8
"""More commands than this at a time only on request."""


def exec_(
    context: typer.Context,
    queue: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help=f"Take jobs from it; repeatable. [default: {QUEUE_DEFAULT}]"),
    ] = None,
    slots: Annotated[
        int | None,
        typer.Option(
            min=1, max=SLOTS_MAX, help=f"Commands at a time. [default: the number of CPUs, at most {CPUS_MAX}]"
        ),
    ] = None,
    name: Annotated[str, typer.Option(help="The worker's name, for people. [default: host and pid]")] = "",
    grace: Annotated[
        str, typer.Option(metavar="DURATION", help="Between SIGTERM and SIGKILL, when a command is stopped.")
    ] = GRACE,
    drain_timeout: Annotated[
        str, typer.Option(metavar="DURATION", help="How long running commands may go on after SIGTERM to the runner.")
    ] = DRAIN,
    json: JsonFlag = False,
) -> None:
    """Run commands: a worker for jobs of type rota.exec, until SIGTERM or Ctrl-C. Needs a key with the role worker.

    A job's payload is {"command": "text for /bin/sh"} or {"argv": ["program", "argument"]}, with "shell", "env",
    "dir", "user" and "stdin" beside it where they are wanted:

    rota job create rota.exec --queue commands --data '{"command": "date; id"}'

    Exit code 0 is a success; its result holds the output, of a long one the beginning and the end. Every other code
    fails the attempt, and the job's retry policy decides. A command that is cancelled or runs into its timeout gets
    SIGTERM, with its whole process group, and SIGKILL after the grace; so does what it leaves in the background.

    Commands find ROTA_JOB, ROTA_ATTEMPT, ROTA_FENCE, ROTA_EFFECT_KEY, ROTA_DUE_TIME, ROTA_DEADLINE_S and TRACEPARENT
    in their environment, those of a schedule ROTA_SCHEDULE and ROTA_NOMINAL_TIME too, and none of the runner's own
    ROTA_ settings.

    They run as the user who runs this. Whoever may create jobs in its queues may run anything as that user.

    With --json the log on stderr is JSON, a line each.
    """
    out, given = output(context, json), Globals.of(context)
    queues = [values.utf8("--queue", text) for text in queue or [QUEUE_DEFAULT]]
    grace_s, drain_timeout_s = values.duration("--grace", grace), values.duration("--drain-timeout", drain_timeout)
    assert grace_s is not None
    assert drain_timeout_s is not None

    from rota.clock import SystemClock
    from rota.targets import exec as target
    from rota.telemetry_logs import configure

    configure("info", "json" if out.json else "text")
    # main() silences gRPC in this process; that is no business of the commands.
    environment = {key: value for key, value in os.environ.items() if key != "GRPC_VERBOSITY"}
    asyncio.run(
        target.serve(
            queues,
            slots or min(os.cpu_count() or 1, CPUS_MAX),
            SystemClock(),
            address=given.address,
            api_key=given.api_key,
            name=values.utf8("--name", name),
            grace_s=grace_s,
            drain_timeout_s=drain_timeout_s,
            environment=environment,
        )
    )
