"""Runs a module that outlives the process that started it, and ends with that one's parent, the harness.

    python -m bench.peer.outlive PID MODULE [ARGUMENT…]

When PID is gone the module gets SIGTERM.
"""

import os
import runpy
import signal
import sys
import threading
import time
from collections.abc import Sequence

LOOK_EVERY_S = 0.5


def command(module: Sequence[str]) -> list[str]:
    """The command line that runs a module with its arguments in this way; give it a session of its own."""
    return [sys.executable, "-P", "-m", "bench.peer.outlive", str(os.getppid()), *module]


def main() -> None:
    pid, module, *arguments = sys.argv[1:]
    threading.Thread(target=_watch, args=(int(pid),), name="outlive", daemon=True).start()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _watch(pid: int) -> None:
    while _lives(pid):
        time.sleep(LOOK_EVERY_S)
    os.kill(os.getpid(), signal.SIGTERM)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    main()
