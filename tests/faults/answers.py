"""A gRPC proxy that loses answers: what the server did is done, and who asked does not hear of it.

It forwards calls of any method, unary and streams, as bytes, and knows nothing of what they say. It is a process of its
own, so that its event loop disturbs nobody's, told what to do over its standard input.
"""

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

import grpc

ROOT = Path(__file__).parents[2]
START_S = 20.0
CHANNELS = 4
"""Connections to the server. Callers are not kept apart."""

NOT_FORWARDED = ("user-agent", "te", "content-type")


@dataclass(frozen=True, slots=True)
class Rule:
    """What befalls the answers of a method, named without its service, each with its own probability from 0 to 1.

    `lost`: the caller hears nothing until its deadline; `unavailable`: it hears UNAVAILABLE instead; `repeated`: the
    call, with its first message, is made once more before the answer, as by a proxy that retries; `delay_s`: the answer
    comes so much later; `cut_after_s`: a stream ends with UNAVAILABLE after so long.
    """

    method: str
    lost: float = 0.0
    unavailable: float = 0.0
    repeated: float = 0.0
    delay_s: float = 0.0
    cut_after_s: float | None = None


class AnswerProxy:
    """The proxy as its user sees it; its process ends with the block, and with this one. `log`: where its errors go."""

    def __init__(self, upstream: str, *rules: Rule, seed: int = 1, log: Path | None = None) -> None:
        command = [sys.executable, "-m", __name__, upstream, "--seed", str(seed)]
        with (log or Path(os.devnull)).open("a") as errors:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        self._told = threading.Condition()
        self._latest: dict[str, Any] = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.address = str(self._hear("address"))
        self.set(*rules)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()

    def set(self, *rules: Rule) -> None:
        """These hold for what is answered from now on, and no others."""
        self._ask([asdict(rule) for rule in rules])

    def counts(self) -> Counter[str]:
        """What it did so far: `Lease forwarded`, `Lease lost` and so on."""
        return Counter(self._ask(None))

    def _ask(self, words: Any) -> dict[str, int]:
        with self._told:
            self._latest.pop("counts", None)
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        found: dict[str, int] = self._hear("counts")
        return found

    def _hear(self, key: str) -> Any:
        with self._told:
            self._told.wait_for(lambda: key in self._latest or not self._reader.is_alive(), START_S)
            return self._latest[key]

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._told:
                self._latest |= json.loads(line)
                self._told.notify_all()


class _Forwarder(grpc.GenericRpcHandler):
    """Every call is taken for a stream both ways: on the wire a unary one is a stream of one message."""

    def __init__(self, upstream: str, seed: int) -> None:
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
        self._channels = [grpc.aio.insecure_channel(upstream, options=options) for _ in range(CHANNELS)]
        self._turn = 0
        self._rng = random.Random(seed)
        self.rules: dict[str, Rule] = {}
        self.counts: Counter[str] = Counter()

    def service(self, details: Any) -> Any:
        name = details.method.rpartition("/")[2]

        async def forward(requests: AsyncIterator[bytes], context: Any) -> None:
            await self._forward(details.method, name, requests, context)

        return grpc.stream_stream_rpc_method_handler(forward)

    async def _forward(self, method: str, name: str, requests: AsyncIterator[bytes], context: Any) -> None:
        sent: list[bytes] = []

        async def noted() -> AsyncIterator[bytes]:
            async for request in requests:
                if not sent:
                    sent.append(request)
                yield request

        call = self._call(method, noted(), context)
        try:
            # A stream is cut by the rule that it began under, an answer is lost by the one of its own moment.
            async with asyncio.timeout(self._rule(name).cut_after_s):
                with suppress(grpc.aio.AioRpcError):  # its status is passed on below
                    async for answer in call:
                        await self._pass(answer, method, name, sent, context)
            code, trailing = await call.code(), tuple(await call.trailing_metadata() or ())
        except TimeoutError:
            self.counts[f"{name} cut"] += 1
            await context.abort(grpc.StatusCode.UNAVAILABLE, "cut by the proxy")
        finally:
            call.cancel()
        context.set_trailing_metadata(trailing)
        if code is not grpc.StatusCode.OK:
            await context.abort(code, await call.details(), trailing)

    async def _pass(self, answer: bytes, method: str, name: str, sent: Sequence[bytes], context: Any) -> None:
        rule = self._rule(name)
        lost, unavailable, repeated = (
            self._rng.random() < chance for chance in (rule.lost, rule.unavailable, rule.repeated)
        )
        if repeated:
            self.counts[f"{name} repeated"] += 1
            with suppress(grpc.aio.AioRpcError):
                async for _ in self._call(method, _each(sent), context):
                    pass
        if rule.delay_s:
            await asyncio.sleep(rule.delay_s)
        if lost:
            self.counts[f"{name} lost"] += 1
            # Until the caller's deadline, or until it has gone.
            await asyncio.Event().wait()
        if unavailable:
            self.counts[f"{name} unavailable"] += 1
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the proxy lost the answer")
        self.counts[f"{name} forwarded"] += 1
        await context.write(answer)

    def _rule(self, name: str) -> Rule:
        return self.rules.get(name) or Rule(name)

    def _call(self, method: str, requests: AsyncIterator[bytes], context: Any) -> Any:
        self._turn = (self._turn + 1) % len(self._channels)
        metadata = [(k, v) for k, v in context.invocation_metadata() or () if k not in NOT_FORWARDED]
        return self._channels[self._turn].stream_stream(method)(
            requests,  # type: ignore[arg-type]
            timeout=context.time_remaining(),
            metadata=metadata,
            wait_for_ready=False,
        )


async def _each(messages: Sequence[bytes]) -> AsyncIterator[bytes]:
    for message in messages:
        yield message


async def _serve(upstream: str, seed: int) -> None:
    forwarder = _Forwarder(upstream, seed)
    server = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", -1),
            ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
            ("grpc.keepalive_permit_without_calls", 1),
        ]
    )
    server.add_generic_rpc_handlers((forwarder,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    _say(address=f"127.0.0.1:{port}")
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        rules = json.loads(line)
        if rules is not None:
            forwarder.rules = {rule["method"]: replace(Rule(rule["method"]), **rule) for rule in rules}
        _say(counts=forwarder.counts)
    await server.stop(0)


def _say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("upstream")
    parser.add_argument("--seed", type=int, required=True)
    given = parser.parse_args()
    asyncio.run(_serve(given.upstream, given.seed))


if __name__ == "__main__":
    main()
