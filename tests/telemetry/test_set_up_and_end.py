"""Set-up without and with a collector, one that is dead in three ways, and the end."""

import logging
import math
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from rota.domain.errors import InvalidArgument
from rota.telemetry import Telemetry
from rota.telemetry_otlp import target
from tests.otlp import OtlpReceiver

from .attempts import complete, create, lease, tracing
from .conftest import Start, lines

PORT_CLOSED = "http://127.0.0.1:1"


@pytest.mark.parametrize("endpoint", [None, ""])
def test_nothing_is_traced_without_an_endpoint(start: Start, endpoint: str | None) -> None:
    telemetry = start(endpoint=endpoint)
    assert telemetry.traces is None
    telemetry.metrics.add("rota.jobs.created")
    telemetry.shutdown(0.0)


def test_off_leaves_logging_alone() -> None:
    before = list(logging.getLogger().handlers)
    telemetry = Telemetry.off()
    assert telemetry.traces is None
    telemetry.metrics.add("rota.jobs.created")
    telemetry.shutdown(0.0)
    assert logging.getLogger().handlers == before


def run(program: str, timeout_s: float = 30.0) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=timeout_s, check=False
    )


def test_the_sdk_is_not_even_imported_without_an_endpoint() -> None:
    done = run(
        "import sys\nfrom rota.telemetry import setup\n"
        "setup(endpoint=None, instance_id='i', version='0', trace_ratio=1.0, log_level='info', log_format='text')\n"
        "print([name for name in sys.modules if name.startswith(('opentelemetry.sdk', 'grpc', 'google'))])"
    )
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr


def test_a_missing_extra_is_named(start: Start, monkeypatch: pytest.MonkeyPatch, receiver: OtlpReceiver) -> None:
    monkeypatch.delitem(sys.modules, "rota.telemetry_otlp")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(InvalidArgument, match=r'pip install "rota\[otel\]"') as caught:
        start()
    assert caught.value.violations[0].field == "otlp_endpoint"


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"trace_ratio": 1.5}, "trace_ratio"),
        ({"trace_ratio": -0.1}, "trace_ratio"),
        ({"trace_ratio": math.nan}, "trace_ratio"),
        ({"log_level": "loud"}, "log_level"),
        ({"log_format": "xml"}, "log_format"),
        ({"endpoint": "localhost:4317"}, "otlp_endpoint"),
        ({"endpoint": "collector"}, "otlp_endpoint"),
        ({"endpoint": "http://"}, "otlp_endpoint"),
        ({"endpoint": "http://[::1"}, "otlp_endpoint"),
        ({"endpoint": "http://collector:port"}, "otlp_endpoint"),
        ({"endpoint": "http://collector:4318/v1/traces"}, "otlp_endpoint"),
        ({"endpoint": "http://collector:4317?x=1"}, "otlp_endpoint"),
        ({"endpoint": "grpc://collector:4317"}, "otlp_endpoint"),
    ],
)
def test_settings_that_make_no_sense(start: Start, changed: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgument, match=r"expected .* found ") as caught:
        start(**changed)
    assert caught.value.violations[0].field == field


@pytest.mark.parametrize("changed", [{"endpoint": "collector:4317"}, {"log_level": "loud"}, {"trace_ratio": 2.0}])
def test_a_refused_setting_changes_nothing(start: Start, changed: dict[str, Any]) -> None:
    handlers, threads = list(logging.getLogger().handlers), set(threading.enumerate())
    with pytest.raises(InvalidArgument):
        start(**changed)
    assert logging.getLogger().handlers == handlers
    assert exporting(threads) == []


@pytest.mark.parametrize("endpoint", ["https://me:secret@collector:4317", "https://collector:4317?key=secret"])
def test_a_secret_in_the_endpoint_is_not_shown(endpoint: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        target(endpoint)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("endpoint", "found"),
    [
        ("http://collector", ("http://collector:4317", True)),
        (" https://collector:443/ ", ("https://collector:443", False)),
        ("http://[::1]:4317", ("http://[::1]:4317", True)),
    ],
)
def test_endpoints(endpoint: str, found: tuple[str, bool]) -> None:
    assert target(endpoint) == found


@pytest.fixture(params=["port closed", "accepts and says nothing", "takes calls and hangs"])
def dead(request: pytest.FixtureRequest) -> Iterator[str]:
    """The endpoint of a collector that takes nothing."""
    if request.param == "port closed":
        yield PORT_CLOSED
    elif request.param == "accepts and says nothing":
        with socket.create_server(("127.0.0.1", 0)) as server:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
    else:
        with OtlpReceiver(silent=True) as receiver:
            yield receiver.endpoint


def exporting(before: set[threading.Thread]) -> list[threading.Thread]:
    """The threads that export, but for those that ran before."""
    return [t for t in threading.enumerate() if t not in before and ("Otel" in t.name or "telemetry" in t.name)]


def test_a_dead_collector_delays_nothing(start: Start, dead: str, capsys: pytest.CaptureFixture[str]) -> None:
    threads = set(threading.enumerate())
    telemetry = start(endpoint=dead)
    traces = tracing(telemetry)
    began = time.monotonic()
    job, _ = create(traces)
    for _ in range(1_000):
        complete(traces, lease(traces, job))
    logging.getLogger("rota.test").info("line")
    assert time.monotonic() - began < 5.0
    assert len(exporting(threads)) == 3
    capsys.readouterr()

    began = time.monotonic()
    telemetry.shutdown(0.3)
    assert time.monotonic() - began < 5.0  # an export alone would take ten
    for thread in exporting(threads):
        thread.join(5.0)
    assert exporting(threads) == []
    (last,) = lines(capsys)
    assert "did not take the last telemetry within 0.3 s" in last["message"]

    telemetry.shutdown(60.0)
    assert create(traces)[0] != ""  # work that is late still goes on
    complete(traces, job)
    logging.getLogger("rota.test").info("line")
    assert [line["message"] for line in lines(capsys)] == ["line"]


def test_a_process_ends_with_a_dead_collector(dead: str) -> None:
    program = f"""
import time
from rota.telemetry import setup
telemetry = setup(endpoint={dead!r}, instance_id="i", version="0", trace_ratio=1.0, log_level="info", log_format="text")
for _ in range(1000):
    telemetry.traces.create(parent="", state="", job_id="", type="t", queue="q", tenant="a")
telemetry.shutdown(0.3)
print(time.time())
"""
    done = run(program)
    assert done.returncode == 0, done.stderr
    assert time.time() - float(done.stdout) < 5.0
    assert len(done.stderr.splitlines()) < 10, done.stderr
    assert "Traceback" not in done.stderr


def test_the_end_sends_all_and_leaves_nothing(start: Start, receiver: OtlpReceiver) -> None:
    handlers, threads = list(logging.getLogger().handlers), set(threading.enumerate())
    telemetry = start()
    for _ in range(2_000):
        create(tracing(telemetry))
    telemetry.shutdown(10.0)
    assert len(receiver.spans) == 2_000
    assert exporting(threads) == []
    (left,) = [handler for handler in logging.getLogger().handlers if handler not in handlers]
    assert isinstance(left, logging.StreamHandler)  # stderr still works
