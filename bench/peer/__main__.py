"""The verbs: setup, worker, enqueue, steady, preload. What they answer is one JSON object on standard output."""

import argparse
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

from bench.peer import creation, outlive, serving, working
from bench.peer.scene import Killed, Scene, forget_outside

Arguments = argparse.Namespace


def setup(scene: Scene, given: Arguments) -> None:
    serving.prepare(scene)


def worker(scene: Scene, given: Arguments) -> None:
    """A coordinator and a worker in this process group, until SIGTERM; or one of them alone outside, if only the
    other is to be killed: the second call then finds it."""
    if scene.killed is Killed.COORDINATOR:
        _coordinator(scene)
        return
    alone = scene.killed is Killed.WORKER
    address = serving.living(scene) if alone and scene.second else None
    with ExitStack() as stack:
        if address is None:
            address, _ = stack.enter_context(serving.lasting(scene, alone=alone))
        working.run(address, serving.key(scene), scene.slots, scene.handler_s, scene.events)


def attach(scene: Scene, given: Arguments) -> None:
    """A worker alone, for the coordinator that was started last."""
    address = serving.place(scene)
    assert address is not None
    working.run(address, serving.key(scene), scene.slots, scene.handler_s, scene.events)


def enqueue(scene: Scene, given: Arguments) -> None:
    with serving.reachable(scene) as address:
        spent_s = creation.beforehand(address, serving.key(scene), given.n, given.at)
    _say(secs=spent_s, method=creation.METHOD)


def steady(scene: Scene, given: Arguments) -> None:
    with serving.reachable(scene) as address:
        count, late_s = creation.steadily(address, serving.key(scene), given.rate, given.secs, given.out)
    _say(n=count, late_s=round(late_s, 3))


def preload(scene: Scene, given: Arguments) -> None:
    # The database's driver: the other verbs are measured, and have no use for it.
    from bench import residents

    with serving.reachable(scene) as address:
        spent_s = residents.load(address, serving.key(scene), scene.database_url, given.n)
    _say(secs=spent_s, method="copies of a row that CreateJob wrote, by SQL")


VERBS: Mapping[str, Callable[[Scene, Arguments], None]] = {
    "setup": setup,
    "worker": worker,
    "attach": attach,
    "enqueue": enqueue,
    "steady": steady,
    "preload": preload,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="driver")
    parser.add_argument("verb", choices=VERBS)
    parser.add_argument("--n", type=int, default=0)
    parser.add_argument("--at", type=float)
    parser.add_argument("--rate", type=float, default=50.0)
    parser.add_argument("--secs", type=float, default=30.0)
    parser.add_argument("--out", type=Path, default=Path("/dev/null"))
    given = parser.parse_args()
    forget_outside()
    VERBS[given.verb](Scene.of(), given)


def _coordinator(scene: Scene) -> None:
    """A coordinator in this process group, where the one before listened; the worker outside comes with the first."""
    signal.signal(signal.SIGTERM, _leave)
    with ExitStack() as stack:
        listen = (serving.place(scene) if scene.second else None) or serving.ANY_PORT
        _, coordinator = stack.enter_context(serving.lasting(scene, listen=listen))
        if not scene.second:
            beside = subprocess.Popen(outlive.command(["bench.peer", "attach"]), text=True, start_new_session=True)
            stack.callback(serving.stop, beside)
        coordinator.wait()


def _leave(number: int, frame: object) -> NoReturn:
    sys.exit(0)


def _say(**what: object) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main()
