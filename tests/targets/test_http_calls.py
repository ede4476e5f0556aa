"""What becomes of HTTP calls, with a real server on this machine."""

import asyncio
import gzip
import json
import zlib
from datetime import timedelta

import pytest
from rota_sdk import EffectState, Failed, Release, Stop

from rota.targets.http.request import CONTENT_TYPE
from rota.targets.http.wire import BODY_BYTES_MAX, READ_BYTES_MAX

from .http_world import JOB, NOW, TRACEPARENT, Bench, Lease, Peer, Server, answers, closed_port


@pytest.fixture
def bench() -> Bench:
    return Bench()


def url(server: Server, path: str = "/") -> str:
    return f"http://127.0.0.1:{server.port}{path}"


async def test_an_answer_is_the_result(bench: Bench) -> None:
    answer = answers(201, '{"id": 7}', Content_Type="application/json", ETag='"3"', Set_Cookie="session=1")
    async with Server([answer]) as server:
        payload = await bench.begin(Lease(url(server, "/invoices?month=11"), method="PUT", body={"sum": "1 €"}))
    assert payload.content_type == CONTENT_TYPE
    found = payload.json()
    assert (found["status"], found["body"], found["truncated"]) == (201, '{"id": 7}', False)
    assert found["headers"] == {"content-type": "application/json", "etag": '"3"'}
    seen = server.last
    assert (seen.method, seen.target, seen.body) == ("PUT", "/invoices?month=11", '{"sum":"1 €"}'.encode())
    assert seen.headers["content-type"] == "application/json"
    assert seen.headers["host"] == f"127.0.0.1:{server.port}"


async def test_every_call_says_which_attempt_it_is(bench: Bench) -> None:
    async with Server() as server:
        await bench.result(url(server))
    assert (
        server.last.headers
        | {
            "idempotency-key": "default/019ad0b2/0",
            "rota-fence": "4294967298",
            "rota-job": f"jobs/{JOB}",
            "rota-attempt": "1",
            "traceparent": TRACEPARENT,
        }
        == server.last.headers
    )


async def test_holes_are_filled_for_where_they_stand(bench: Bench) -> None:
    async with Server() as server:
        lease = Lease(
            url(server, "/{{schedule.id}}?key={{job.effect_key}}"),
            headers={"X-Time": "{{ occurrence.time }}", "Content-Type": "application/json"},
            body='{"key": "{{job.effect_key}}"}',
        )
        lease.effect_key = 'a"b&c/ü'
        lease.schedule, lease.nominal_time = "schedules/nightly", NOW + timedelta(milliseconds=5)
        await bench.begin(lease)
    assert server.last.target == "/nightly?key=a%22b%26c%2F%C3%BC"
    assert server.last.headers["x-time"] == "2026-11-30T08:15:00.005Z"
    assert json.loads(server.last.body) == {"key": 'a"b&c/ü'}


async def test_a_value_with_line_breaks_gets_into_no_header(bench: Bench) -> None:
    lease = Lease("http://127.0.0.1:1/", headers={"X-Key": "{{job.effect_key}}"})
    lease.effect_key = "a\r\nX-Admin: yes"
    with pytest.raises(Failed, match="line breaks") as caught:
        await bench.begin(lease)
    assert (caught.value.type, caught.value.retryable) == ("InvalidRequest", False)


async def test_a_hole_without_a_value_fails_for_good(bench: Bench) -> None:
    failure = await bench.failure(Failed, "http://127.0.0.1:1/{{schedule.id}}")
    assert (failure.type, failure.retryable) == ("InvalidRequest", False)
    assert "{{schedule.id}} has no value" in str(failure)


@pytest.mark.parametrize(
    ("status", "retryable", "effect"),
    [
        (400, False, EffectState.NOT_APPLIED),
        (404, False, EffectState.NOT_APPLIED),
        (408, None, EffectState.NOT_APPLIED),
        (409, None, EffectState.UNKNOWN),
        (425, None, EffectState.NOT_APPLIED),
        (429, None, EffectState.NOT_APPLIED),
        (500, None, EffectState.UNKNOWN),
        (503, None, EffectState.UNKNOWN),
        (302, False, EffectState.UNKNOWN),
    ],
)
async def test_other_answers_fail(bench: Bench, status: int, retryable: bool | None, effect: EffectState) -> None:
    async with Server([answers(status, "\nno such thing\nmore", Content_Type="text/plain")]) as server:
        failure = await bench.failure(Failed, url(server, "/a?token=secret"))
    assert (failure.type, failure.retryable, failure.effect) == (f"Http{status}", retryable, effect)
    assert str(failure) == f"{status} Reason of GET {url(server, '/a')}: no such thing"
    assert failure.stack == "\nno such thing\nmore"


async def test_the_payload_says_what_succeeds_and_what_is_retried(bench: Bench) -> None:
    async with Server([answers(404)]) as server:
        assert (await bench.result(url(server), success=["2xx", 404]))["status"] == 404
        failure = await bench.failure(Failed, url(server), retry=["400-404"])
        assert failure.retryable is None
    async with Server([answers(200)]) as server:
        assert (await bench.failure(Failed, url(server), success=[204])).type == "Http200"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("120", 120.0),
        ("99999999999999999999", 3_600.0),
        ("Mon, 30 Nov 2026 08:20:00 GMT", 300.0),
        ("Mon, 30 Nov 2026 08:10:00 GMT", 0.0),
        ("Fri, 31 Dec 2099 23:59:59 GMT", 3_600.0),
        ("-5", None),
        ("soon", None),
        ("", None),
    ],
)
async def test_retry_after_is_heeded_within_an_hour(bench: Bench, text: str, expected: float | None) -> None:
    async with Server([answers(503, Retry_After=text)]) as server:
        assert (await bench.failure(Failed, url(server))).after == expected


async def test_a_date_of_retry_after_is_one_of_the_target_s_clock(bench: Bench) -> None:
    late = answers(429, Retry_After="Mon, 30 Nov 2026 10:00:30 GMT", Date="Mon, 30 Nov 2026 10:00:00 GMT")
    async with Server([late]) as server:
        assert (await bench.failure(Failed, url(server))).after == 30.0


async def test_a_reset_after_sending_leaves_the_effect_unknown(bench: Bench) -> None:
    async def reset(peer: Peer) -> None:
        peer.reset()

    async with Server([reset]) as server:
        failure = await bench.failure(Failed, url(server), body="pay")
    assert (failure.type, failure.effect, failure.retryable) == ("NoAnswer", EffectState.UNKNOWN, None)


@pytest.mark.parametrize("sent", ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"])
async def test_an_answer_that_breaks_off_is_none(bench: Bench, sent: str) -> None:
    async def breaks_off(peer: Peer) -> None:
        await peer.send(sent)

    async with Server([breaks_off]) as server:
        failure = await bench.failure(Failed, url(server))
    assert (failure.type, failure.effect) == ("NoAnswer", EffectState.UNKNOWN)


async def test_what_is_no_http_is_a_bad_answer(bench: Bench) -> None:
    async def ssh(peer: Peer) -> None:
        await peer.send("SSH-2.0-OpenSSH_9.9\r\n\r\n")
        await peer.reader.read()

    async with Server([ssh]) as server:
        failure = await bench.failure(Failed, url(server))
    assert (failure.type, failure.effect) == ("BadAnswer", EffectState.UNKNOWN)


async def test_an_answer_in_drops_ends_at_the_timeout(bench: Bench) -> None:
    async def slowly(peer: Peer) -> None:
        await peer.send("HTTP/1.1 200 OK\r\n")
        while True:
            await peer.send("X-Drop: 1\r\n")
            await asyncio.sleep(0.02)

    async with Server([slowly]) as server:
        failure = await bench.failure(Failed, url(server), timeout=0.2)
    assert (failure.type, failure.effect) == ("NoAnswer", EffectState.UNKNOWN)
    assert "in 0.2 s" in str(failure)


async def test_a_head_without_end_is_not_read_to_its_end(bench: Bench) -> None:
    async def endless(peer: Peer) -> None:
        await peer.send("HTTP/1.1 200 OK\r\n")
        while True:
            await peer.send("X-More: " + "x" * 8_000 + "\r\n")

    async with Server([endless]) as server:
        assert (await bench.failure(Failed, url(server))).type == "BadAnswer"


async def test_interim_answers_without_end_are_not_waited_out(bench: Bench) -> None:
    async def endless(peer: Peer) -> None:
        while True:
            await peer.send("HTTP/1.1 102 Processing\r\n\r\n" * 1_000)

    async with Server([endless]) as server:
        assert (await bench.failure(Failed, url(server))).type == "BadAnswer"


async def test_the_run_timeout_bounds_the_call(bench: Bench) -> None:
    async def silent(peer: Peer) -> None:
        await peer.reader.read()

    async with Server([silent]) as server:
        lease = Lease(url(server))
        lease.remaining_s = 0.25
        with pytest.raises(Failed) as caught:
            await asyncio.wait_for(bench.begin(lease), 5)
    assert (caught.value.type, caught.value.effect) == ("NoAnswer", EffectState.UNKNOWN)


async def test_a_huge_body_is_cut(bench: Bench) -> None:
    sent = 0

    async def huge(peer: Peer) -> None:
        nonlocal sent
        await peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        while True:
            await peer.send("x" * 65_536)
            sent += 65_536

    async with Server([huge]) as server:
        found = await bench.result(url(server))
    assert (len(found["body"]), found["truncated"]) == (4_096, True)
    # Kernels keep some more on its way.
    assert sent < 32 * READ_BYTES_MAX


async def test_a_gzip_bomb_does_not_go_off(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = gzip.compress(b"x" * 50_000_000)
    most = 0
    real = zlib.decompressobj

    class Watched:
        def __init__(self, wbits: int) -> None:
            self._inner = real(wbits)

        def decompress(self, data: bytes, limit: int) -> bytes:
            nonlocal most
            found = self._inner.decompress(data, limit)
            most = max(most, len(found))
            return found

        @property
        def unconsumed_tail(self) -> bytes:
            return self._inner.unconsumed_tail

        @property
        def eof(self) -> bool:
            return self._inner.eof

    monkeypatch.setattr("rota.targets.http.wire.zlib.decompressobj", Watched)
    async with Server([answers(200, bomb, Content_Encoding="gzip", Content_Type="text/plain")]) as server:
        found = await bench.result(url(server))
    assert (found["body"], found["truncated"]) == ("x" * 4_096, True)
    assert 0 < most <= BODY_BYTES_MAX


async def test_compressed_answers_are_read(bench: Bench) -> None:
    async with Server(
        [
            answers(200, gzip.compress("grün".encode()), Content_Encoding="gzip"),
            answers(200, zlib.compress(b"deflated"), Content_Encoding="deflate"),
            answers(200, b"\x8b\x02\x80brotli\x03", Content_Encoding="br"),
            answers(200, b"no gzip at all", Content_Encoding="gzip"),
        ]
    ) as server:
        assert (await bench.result(url(server)))["body"] == "grün"
        assert (await bench.result(url(server)))["body"] == "deflated"
        for _ in range(2):
            found = await bench.result(url(server))
            assert (found["status"], found["body"], found["truncated"]) == (200, "", True)


async def test_what_an_excerpt_shows_can_be_stored_and_read(bench: Bench) -> None:
    async with Server(
        [
            answers(200, "a\0b\x1b[31mc\r\nd", Content_Type="text/plain"),
            answers(200, "naïve".encode("latin-1"), Content_Type="text/plain; charset=ISO-8859-1"),
            answers(200, b"\xff\xfe\x00", Content_Type="text/plain; charset=no-such"),
            answers(200, b"\x89PNG", Content_Type="image/png"),
            answers(200, "ü" * 4_096, Content_Type="application/problem+json"),
        ]
    ) as server:
        bodies = [(await bench.result(url(server)))["body"] for _ in range(5)]
    assert bodies == ["ab[31mc\nd", "naïve", "\ufffd\ufffd", "", "ü" * 2_048]


async def test_a_head_request_has_no_body(bench: Bench) -> None:
    async def head(peer: Peer) -> None:
        await peer.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")

    async with Server([head]) as server:
        found = await bench.result(url(server), method="HEAD")
    assert (found["status"], found["body"]) == (200, "")


async def test_nobody_there_is_known_as_not_applied(bench: Bench) -> None:
    failure = await bench.failure(Failed, f"http://127.0.0.1:{closed_port()}/", body="pay")
    assert (failure.type, failure.effect, failure.retryable) == ("ConnectFailed", EffectState.NOT_APPLIED, None)


async def test_a_cancelled_call_cuts_the_line(bench: Bench) -> None:
    cut = asyncio.Event()

    async def waits(peer: Peer) -> None:
        await peer.reader.read()
        cut.set()

    async with Server([waits]) as server:
        lease = Lease(url(server))
        call = bench.begin(lease)
        while not server.seen:
            await asyncio.sleep(0.01)
        lease.stop_reason = Stop.CANCEL
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.wait_for(cut.wait(), 5)


async def test_a_call_cut_off_by_a_runner_that_leaves_is_in_doubt(bench: Bench) -> None:
    async def waits(peer: Peer) -> None:
        await peer.reader.read()

    async with Server([waits]) as server:
        lease = Lease(url(server))
        call = bench.begin(lease)
        while not server.seen:
            await asyncio.sleep(0.01)
        lease.stop_reason = Stop.LEAVING
        call.cancel()
        with pytest.raises(Failed) as caught:
            await call
    assert caught.value.effect is EffectState.UNKNOWN


async def test_calls_of_one_host_take_turns() -> None:
    bench, running, most = Bench(calls_per_host=2), 0, 0
    go = asyncio.Event()

    async def counted(peer: Peer) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await go.wait()
        running -= 1
        await peer.answer()

    async with Server([counted]) as server:
        calls = [bench.begin(Lease(url(server))) for _ in range(6)]
        while running < 2:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        assert (running, len(server.seen)) == (2, 2)
        go.set()
        await asyncio.gather(*calls)
    assert (most, len(server.seen)) == (2, 6)


async def test_a_call_that_waits_for_its_turn_keeps_its_run_timeout() -> None:
    bench = Bench(calls_per_host=1)

    async def waits(peer: Peer) -> None:
        await peer.reader.read()

    async with Server([waits]) as server:
        first = bench.begin(Lease(url(server)))
        while not server.seen:
            await asyncio.sleep(0.01)
        second = Lease(url(server))
        second.remaining_s = 0.4
        with pytest.raises(Release, match="is busy") as caught:
            await bench.begin(second)
        assert caught.value.delay is not None
        first.cancel()
    assert len(server.seen) == 1


async def test_a_turn_of_who_is_cancelled_goes_to_the_next() -> None:
    bench = Bench(calls_per_host=1)
    go = asyncio.Event()

    async def waits(peer: Peer) -> None:
        await go.wait()
        await peer.answer()

    async with Server([waits]) as server:
        calls = [bench.begin(Lease(url(server))) for _ in range(3)]
        while not server.seen:
            await asyncio.sleep(0.01)
        calls[1].cancel()
        go.set()
        await calls[0]
        await asyncio.wait_for(calls[2], 5)
