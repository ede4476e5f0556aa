"""A coordinator that stops itself, while the file named by SLEEPER exists, in the middle of a transaction: it holds the
timers of schedules that it is about to fire."""

import os
import signal
from pathlib import Path
from typing import Any

from rota.store import fires

SLEEPS_WHILE = Path(os.environ["SLEEPER"])

held = fires.held


async def held_for_long(run: Any, locked: Any) -> Any:
    if SLEEPS_WHILE.exists():
        os.kill(os.getpid(), signal.SIGSTOP)
    return await held(run, locked)


fires.held = held_for_long

from tests import serve_main  # noqa: E402, F401
