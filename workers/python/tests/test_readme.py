"""What the README shows works."""

import json
import re
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import psycopg
import pytest
import rota_sdk
from conftest import running
from rota_conformance.script_server import ScriptServer
from rota_sdk import Lease, Worker, effects
from rota_sdk.gen.rota.worker.v1 import worker_pb2

BLOCKS = re.findall(r"```python\n(.*?)```", (Path(__file__).parents[1] / "README.md").read_text(), re.DOTALL)


def test_the_first_worker_runs_and_is_short(server: ScriptServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_ADDRESS", server.address)
    assert len([line for line in BLOCKS[0].splitlines() if line]) <= 15
    space: dict[str, Any] = {"__name__": "readme"}
    exec(compile(BLOCKS[0], "README.md", "exec"), space)
    job = server.job("greet", payload={"data": b'{"name":"Ada"}'})
    server.offer(job)
    with running(space["worker"]):
        assert server.result_of(job.job).succeeded.result.data == b"hello Ada"


def test_all_blocks_are_python_and_all_names_exist() -> None:
    for block in BLOCKS:
        compile(block, "README.md", "exec")
    for name in rota_sdk.__all__:
        assert getattr(rota_sdk, name) is not None
    with pytest.raises(AttributeError, match="nothing_like_it"):
        rota_sdk.nothing_like_it  # noqa: B018
    assert set(rota_sdk.__all__) <= set(dir(rota_sdk))


def block_of(handler: str) -> str:
    (found,) = [block for block in BLOCKS if f"def {handler}(lease" in block]
    return str(found)


def ran_twice(server: ScriptServer, handler: str, **names: Any) -> list[worker_pb2.Result]:
    """Two attempts of one job, as the README's handler ends them."""
    worker = Worker(["default"], 2, address=server.address, api_key="secret")
    space: dict[str, Any] = {"worker": worker, "Lease": Lease, "effects": effects, **names}
    exec(compile(block_of(handler), "README.md", "exec"), space)
    job = server.job(handler)
    job.effect_key = "acme/1/0"
    results: list[worker_pb2.Result] = []
    with running(worker):
        for attempt in (1, 2):
            job.attempt, job.fence = attempt, job.fence + 1
            server.offer(job)
            server.wait(lambda: len(server.results) == attempt)  # noqa: B023
            results.append(server.results[-1])
    return results


def test_the_effect_in_a_database_is_there_once(server: ScriptServer, dsn: str) -> None:
    assert len(block_of("pay").splitlines()) <= 10
    with psycopg.connect(dsn) as conn:
        conn.execute("truncate rota_effects")
        conn.execute("update account set balance = 100")
    results = ran_twice(server, "pay", psycopg=psycopg, dsn=dsn)
    assert [r.WhichOneof("outcome") for r in results] == ["succeeded"] * 2
    with psycopg.connect(dsn) as conn:
        assert conn.execute("select balance from account").fetchone() == (90,)


@contextmanager
def api() -> Iterator[tuple[str, list[str]]]:
    """An API that charges: its address, and the keys that it was given."""
    keys: list[str] = []

    class Charges(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            keys.append(self.headers["Idempotency-Key"])
            self.rfile.read(int(self.headers["Content-Length"]))
            answer = json.dumps({"id": f"charge-{len(set(keys))}"}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Charges) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", keys
        finally:
            server.shutdown()
            thread.join()


def test_the_effect_at_an_api_has_one_key(server: ScriptServer) -> None:
    assert len(block_of("charge").splitlines()) <= 10
    with api() as (address, keys):
        names = {"json": json, "timedelta": timedelta, "urllib": urllib, "API": address}
        results = ran_twice(server, "charge", **names)
    assert [[r.reference for r in result.effect_receipts] for result in results] == [["charge-1"]] * 2
    assert keys == ["acme/1/0"] * 2


def test_the_effect_in_the_ledger_is_asked_for(server: ScriptServer) -> None:
    class Bank:
        def __init__(self) -> None:
            self.transfers: list[str] = []

        def transfer(self, order: Any, memo: str) -> str:
            self.transfers.append(memo)
            raise TimeoutError("no answer, though it was done")

        def find(self, memo: str) -> str:
            return "transfer-1" if memo in self.transfers else ""

    assert len(block_of("transfer").split("@worker")[1].splitlines()) <= 10
    bank = Bank()
    doubt = worker_pb2.BeginEffectResponse(proceed=True, state=rota_sdk.EffectState.UNKNOWN)  # type: ignore[arg-type]
    server.script("BeginEffect", lambda *_: worker_pb2.BeginEffectResponse(proceed=True), lambda *_: doubt)
    first, second = ran_twice(server, "transfer", bank=bank)
    assert (first.failed.failure.type, second.WhichOneof("outcome")) == ("TimeoutError", "succeeded")
    assert bank.transfers == ["acme/1/0"]
    assert [r.reference for r in second.effect_receipts] == ["transfer-1"]
