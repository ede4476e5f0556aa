"""The Python SDK under the conformance suite: see workers/conformance/README.md for the lines it reads and writes."""

import json
import os
import sys
import threading
import time
from typing import Any

from rota_sdk import (
    Cancelled,
    EffectUnknown,
    Failed,
    Fatal,
    Lease,
    NewJob,
    Release,
    Retry,
    RotaError,
    Stop,
    Worker,
)

SHOWN_BYTES = 1_000
REASONS: dict[Stop | None, str] = {
    Stop.TIMED_OUT: "timeout",
    Stop.LEAVING: "leaving",
    Stop.CANCEL: "cancel",
    Stop.LOST: "lost",
    Stop.EXPIRED: "lost",
    Stop.SESSION_GONE: "lost",
}
_out = threading.Lock()
_finish: dict[str, threading.Event] = {}
_finish_lock = threading.Lock()


def tell(event: str, **fields: Any) -> None:
    with _out:
        # One write: lines of many threads must not mix.
        sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
        sys.stdout.flush()


def finished(job: str) -> threading.Event:
    with _finish_lock:
        return _finish.setdefault(job, threading.Event())


def started(lease: Lease) -> None:
    data = lease.data
    tell(
        "started",
        job=lease.job,
        fence=lease.fence,
        attempt=lease.attempt,
        type=lease.type,
        payload=data.decode("utf-8", "replace") if len(data) <= SHOWN_BYTES else "",
        payload_bytes=len(data),
        effect_key=lease.effect_key,
        effect_headers=lease.effect_headers(),
        traceparent=lease.traceparent,
        headers=lease.headers,
        remaining=min(lease.remaining(), 1e9),
    )


class Watch:
    """Tells once that the attempt is at risk, and once for each reason to stop, before the handler has ended."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self._told: set[str] = set()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(0.02):
            self._look()
        self._look()

    def _look(self) -> None:
        reason = REASONS.get(self._lease.stop_reason)
        if self._lease.at_risk:
            self._tell_once("at_risk", "at_risk")
        if reason is not None:
            self._tell_once(reason, "stopping", reason=reason)

    def _tell_once(self, key: str, event: str, **fields: str) -> None:
        if key not in self._told:
            self._told.add(key)
            tell(event, job=self._lease.job, fence=self._lease.fence, **fields)


def hold(lease: Lease) -> str:
    """Runs until the case says so, or until it is asked to stop."""
    done = finished(lease.job)
    while not done.wait(0.01):
        lease.raise_if_cancelled()
    return "finished"


def fail(given: dict[str, Any]) -> None:
    message = given.get("message", "went wrong")
    if given.get("text") == "nul-and-surrogate":
        message = "before\x00middle\ud800after"
    if "message_bytes" in given:
        message = "é" * (int(given["message_bytes"]) // 2)
    if given.get("retryable") is False:
        raise Fatal(message)
    if "retry_after" in given:
        raise Retry(message, after=given["retry_after"])
    if "type" in given:
        raise Failed(message, type=given["type"])
    raise ValueError(message)


def act(name: str, given: Any, lease: Lease) -> Any:
    match name:
        case "return":
            return given or "ok"
        case "fail":
            return fail(given or {})
        case "hold":
            return hold(lease)
        case "deaf":
            time.sleep(float(given))
            return "late"
        case "release":
            raise Release(delay=float(given or 0))
        case "unasked":
            raise Cancelled("nobody asked")
        case "unknown_effect":
            raise EffectUnknown("no answer from the target")
        case "spawn":
            for number in range(int(given)):
                lease.spawn(NewJob("child", {"n": number}))
            return "spawned"
        case "receipt":
            lease.receipt(str(given))
            return "receipted"
        case "progress":
            lease.progress(str(given))
            return hold(lease)
        case "result_bytes":
            return b"r" * int(given)
    raise AssertionError(f"no such behaviour: {name}")


def handler(behaviour: Any) -> Any:
    name, given = next(iter(behaviour.items())) if isinstance(behaviour, dict) else (behaviour, None)

    def run(lease: Lease) -> Any:
        started(lease)
        watch = Watch(lease)
        try:
            return act(name, given, lease)
        finally:
            watch.end()
            tell("ended", job=lease.job, fence=lease.fence)

    async def block(lease: Lease) -> str:
        started(lease)
        time.sleep(float(given))  # noqa: ASYNC251
        tell("ended", job=lease.job, fence=lease.fence)
        return "blocked"

    return block if name == "block" else run


def listen() -> None:
    for line in sys.stdin:
        finished(json.loads(line)["finish"]).set()


def trace() -> None:
    from opentelemetry import trace as api
    from opentelemetry.sdk.trace import TracerProvider

    api.set_tracer_provider(TracerProvider())


def main() -> int:
    config = json.loads(sys.stdin.readline())
    if config.get("trace"):
        trace()
    worker = Worker(
        config["queues"],
        config["slots"],
        address=config["address"],
        api_key=config["api_key"],
        drain_timeout=config["drain_timeout"],
    )
    for type, behaviour in config["types"].items():
        worker.add(type, handler(behaviour))
    threading.Thread(target=listen, daemon=True).start()
    try:
        worker.run()
    except RotaError as error:
        tell("refused", reason=error.reason, message=str(error))
        return 1
    tell("left", **worker.counts())
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # A handler that never heeds anything must not keep the process.
    os._exit(code)
