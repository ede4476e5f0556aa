"""The coordinator of a run: `rota serve`, found again by later verbs through a file with its address."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.peer import outlive
from bench.peer.scene import Scene

ANY_PORT = "127.0.0.1:0"
START_S = 60.0
LOOK_EVERY_S = 0.1
CONNECT_S = 2.0
STOP_S = 10.0


def prepare(scene: Scene) -> None:
    """A fresh database gets its schema and a key."""
    # The whole server: the other verbs are measured, and have no use for it.
    from rota import bootstrap
    from rota.domain.model import Role

    bootstrap.migrate(scene.database_url)
    made = bootstrap.create_key(scene.database_url, tenant="bench", label="bench", roles=frozenset(Role), ttl_s=None)
    _key_file(scene).write_text(made[0])
    _address_file(scene).unlink(missing_ok=True)


def key(scene: Scene) -> str:
    return _key_file(scene).read_text()


def place(scene: Scene) -> str | None:
    """Where the coordinator of the newest worker listens, or listened before it was killed; waits while it starts."""
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        try:
            found = _address_file(scene).read_text()
        except FileNotFoundError:
            return None
        if found:
            return found
        time.sleep(LOOK_EVERY_S)
    raise SystemExit(f"driver: the worker's coordinator was not ready within {START_S:.0f} s")


def living(scene: Scene) -> str | None:
    """The same, if it still takes connections."""
    found = place(scene)
    if found is None:
        return None
    host, _, port = found.rpartition(":")
    try:
        socket.create_connection((host, int(port)), CONNECT_S).close()
    except OSError:
        return None
    return found


@contextmanager
def reachable(scene: Scene) -> Iterator[str]:
    """The address of a coordinator: of the worker's, or where there is none of one for the length of the block."""
    found = living(scene)
    if found is not None:
        yield found
    else:
        with _started(scene, ANY_PORT, alone=False) as (address, _):
            yield address


@contextmanager
def lasting(
    scene: Scene, *, listen: str = ANY_PORT, alone: bool = False
) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """The coordinator of a worker, which other verbs find; in this process group or `alone`."""
    _address_file(scene).write_text("")
    with _started(scene, listen, alone=alone) as (address, process):
        # As a whole or not at all: another verb may read it at this moment.
        draft = _address_file(scene).with_suffix(".new")
        draft.write_text(address)
        draft.replace(_address_file(scene))
        yield address, process


@contextmanager
def _started(scene: Scene, listen: str, *, alone: bool) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """A coordinator that answers; stopped at the end of the block."""
    command = ["rota", "serve", "--json"]
    process = subprocess.Popen(
        outlive.command(command) if alone else [sys.executable, "-P", "-m", *command],
        env=scene.settings(listen),
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=alone,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise SystemExit(
                f"driver: the coordinator ended with {process.wait()} before it was ready; see its log above"
            )
        yield str(json.loads(line)["address"]), process
    finally:
        stop(process)


def stop(process: "subprocess.Popen[str]") -> None:
    """Returns when it is gone."""
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _key_file(scene: Scene) -> Path:
    return scene.folder / "rota-key"


def _address_file(scene: Scene) -> Path:
    return scene.folder / "rota-address"
