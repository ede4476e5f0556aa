"""Runs a program that ends with its parent: `python -m rota.cli.leash GRACE_S PROGRAM [ARGUMENT…]`.

PROGRAM is a module's name or a script. The parent holds the other end of this process's standard input; when it is
gone, of whatever cause, the input ends. Then the program gets SIGTERM, and GRACE_S seconds later it is ended.
"""

import os
import runpy
import signal
import sys
import threading
from pathlib import Path


def main() -> None:
    grace, program, *arguments = sys.argv[1:]
    threading.Thread(target=_watch, args=(_take_stdin(), float(grace)), name="leash", daemon=True).start()
    sys.argv = [program, *arguments]
    if program.endswith(".py"):
        sys.path.insert(0, str(Path(program).absolute().parent))
        runpy.run_path(program, run_name="__main__")
    else:
        runpy.run_module(program, run_name="__main__", alter_sys=True)


def _take_stdin() -> int:
    """The parent's pipe for the watcher alone; the program gets an empty input."""
    pipe = os.dup(0)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    return pipe


def _watch(pipe: int, grace_s: float) -> None:
    while os.read(pipe, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(grace_s)
    os._exit(1)


if __name__ == "__main__":
    main()
