"""The way between coordinators over real gRPC: news in order and bounded, links that open again, claims that end."""

import asyncio

import grpc.aio
import pytest
from rota_sdk.gen.rota.peer.v1 import peer_pb2, peer_pb2_grpc

from rota.api import peer, peercodec, peerwire
from rota.api.peer import authorization
from rota.coordinator.news import Claimed, News, Offer
from rota.domain.errors import InvalidArgument, OutcomeUnknown, Unavailable
from rota.domain.ids import ShardNo
from rota.store.engine import Database
from rota.store.identity import PgIdentity

from .linking import (
    SECRET,
    A,
    B,
    C,
    Calls,
    Ears,
    black_hole,
    dialled,
    dialled_later,
    grant,
    greeted,
    hello,
    linked,
    listening,
    message,
    settled,
    slow_reader,
    wish,
)
from .running import Running, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_news_arrive_whole_and_in_order() -> None:
    async with linked() as pair:
        for number in range(1, 41):
            assert pair.wire.send(settled(number))
        assert pair.wire.send(News(armed=True, offers={1: Offer(1, 2, 0.5)}))
        await eventually(lambda: len(pair.ears.heard) == 41)
        assert pair.ears.fences == list(range(1, 41))
        assert pair.ears.heard[-1] == (A, News(armed=True, offers={1: Offer(1, 2, 0.5)}))
        assert pair.calls.opened == 1


async def test_both_ways_are_links_of_their_own() -> None:
    one, other = Ears(), Ears()
    async with (
        listening(one, A) as here,
        listening(other, B) as there,
        dialled(there, peer=B, me=A) as to_other,
        dialled(here, peer=A, me=B) as to_one,
    ):
        await eventually(lambda: to_other.is_open and to_one.is_open)
        assert to_other.send(settled(1))
        assert to_one.send(settled(2))
        await eventually(lambda: one.heard and other.heard)
        assert (one.heard, other.heard) == ([(B, settled(2))], [(A, settled(1))])


async def test_a_peer_that_does_not_read_gets_64_messages_and_room_is_told() -> None:
    async with slow_reader() as (reader, port):
        calls = Calls()
        async with dialled(port, calls) as wire:
            await eventually(lambda: calls.opened)
            taken = 0
            while wire.send(settled(taken + 1)):
                taken += 1
            assert taken == peerwire.UNREAD_MAX
            assert not wire.send(settled(1))
            await eventually(lambda: len(reader.seqs) == 64)
            assert reader.seqs == list(range(1, 65))
            assert calls.room == 0
            reader.ack.put_nowait(1)
            await eventually(lambda: calls.room == 1)
            assert wire.send(settled(65))
            assert not wire.send(settled(66))
            reader.ack.put_nowait(65)
            await eventually(lambda: calls.room == 2)
            await eventually(lambda: reader.seqs == list(range(1, 66)))


async def test_what_is_too_much_is_written_as_it_is_read() -> None:
    async with slow_reader() as (reader, port):
        calls = Calls()
        async with dialled(port, calls) as wire:
            await eventually(lambda: calls.opened)
            assert wire.send(settled(*range(1, 70_001)))
            await eventually(lambda: len(reader.seqs) == peerwire.UNREAD_MAX)
            await asyncio.sleep(0.1)
            assert len(reader.seqs) == peerwire.UNREAD_MAX
            reader.ack.put_nowait(6)
            await eventually(lambda: len(reader.seqs) == 70)


async def test_what_was_unread_at_the_end_of_a_link_takes_no_room_on_the_next() -> None:
    async with slow_reader() as (reader, port):
        calls = Calls()
        async with dialled(port, calls) as wire:
            await eventually(lambda: calls.opened)
            while wire.send(settled(1)):
                pass
            reader.calls[0].set()
            await eventually(lambda: calls.opened == 2)
            reader.seqs.clear()
            for number in range(peerwire.UNREAD_MAX):
                assert wire.send(settled(number + 1))
            await eventually(lambda: len(reader.seqs) == peerwire.UNREAD_MAX)
            assert reader.seqs[0] == 1


async def test_news_of_more_messages_than_may_be_unread_go_when_nothing_else_is_on_the_way() -> None:
    async with linked() as pair:
        much = settled(*range(1, 70_001))
        assert len(peercodec.messages(much)) == 70 > peerwire.UNREAD_MAX
        assert pair.wire.send(much)
        assert not pair.wire.send(settled(70_001))
        await eventually(lambda: pair.calls.room == 1)
        assert pair.wire.send(settled(70_001))
        await eventually(lambda: len(pair.ears.fences) == 70_001)
        assert pair.ears.fences == list(range(1, 70_002))


async def test_a_link_opens_again_when_the_server_is_back() -> None:
    ears, calls = Ears(), Calls()
    async with listening(ears) as port, dialled(port, calls) as wire:
        await eventually(lambda: calls.opened == 1)
    assert not wire.is_open
    async with dialled(port, calls) as wire:
        await asyncio.sleep(0.2)
        assert not wire.send(settled(1))
        again = Ears()
        async with listening(again, port=port):
            await eventually(lambda: calls.opened == 2)
            assert wire.send(settled(1))
            await eventually(lambda: again.heard)
        await eventually(lambda: not wire.is_open)
        assert not wire.send(settled(2))
        await eventually(lambda: again.ended == again.links)
        assert [len(ears.links), len(again.links)] == [1, 1]
        async with listening(Ears(), port=port):
            await eventually(lambda: calls.opened == 3)
    assert ears.ended == ears.links


async def test_what_is_told_last_is_read_before_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peerwire, "CLOSE_TIMEOUT_S", 10.0)
    ears, calls = Ears(), Calls()
    async with listening(ears) as port:
        async with dialled(port, calls) as wire:
            await eventually(lambda: calls.opened)
            for number in range(1, 51):
                assert wire.send(settled(number))
        assert ears.fences == list(range(1, 51))
        assert not wire.send(settled(51))
        await eventually(lambda: ears.ended == ears.links)
        with pytest.raises(Unavailable):
            await wire.claim(wish())


@pytest.mark.parametrize("case", ["secret", "callee"])
async def test_strangers_get_no_link(case: str) -> None:
    ears, calls = Ears(), Calls()
    async with listening(ears) as port:
        wrong = {"secret": bytes(32)} if case == "secret" else {"peer": C}
        async with dialled(port, calls, **wrong) as wire:  # type: ignore[arg-type]
            await asyncio.sleep(0.3)
            assert (calls.opened, ears.links, wire.is_open) == (0, [], False)


@pytest.mark.parametrize("credential", [None, "Peer", f"Peer {bytes(32).hex()}", f"Bearer {SECRET.hex()}"])
async def test_every_call_needs_the_secret(credential: str | None) -> None:
    ears = Ears()
    metadata = () if credential is None else (("authorization", credential),)
    async with listening(ears) as port, grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = peer_pb2_grpc.PeerServiceStub(channel)
        give = peer_pb2.HandOverShardsRequest(coordinator=f"coordinators/{A}", shards=[1])
        for call in (
            stub.Claim(peercodec.claim_request(wish()), metadata=metadata),
            stub.HandOverShards(give, metadata=metadata),
            stub.Link(metadata=metadata),
        ):
            assert await call.code() is grpc.StatusCode.UNAUTHENTICATED
    assert (ears.wishes, ears.links) == ([], [])


async def test_the_public_server_knows_no_peers_and_their_listener_no_keys(rota: Running) -> None:
    database = Database(rota.url)
    try:
        secret = await PgIdentity(database).peer_secret()
        ((address,),) = await database.reads.run("SELECT peer_address FROM coordinators", {}, write=False)
    finally:
        await database.close()
    assert len(secret) == 32
    claim = peercodec.claim_request(wish())
    public = peer_pb2_grpc.PeerServiceStub(rota.channel)
    assert await public.Claim(claim, metadata=(authorization(secret),)).code() is grpc.StatusCode.UNIMPLEMENTED
    assert await public.Link(metadata=(authorization(secret),)).code() is grpc.StatusCode.UNIMPLEMENTED
    key = await rota.key("t")
    async with grpc.aio.insecure_channel(address) as channel:
        private = peer_pb2_grpc.PeerServiceStub(channel)
        refused = private.Claim(claim, metadata=(("authorization", f"Bearer {key}"),))
        assert await refused.code() is grpc.StatusCode.UNAUTHENTICATED
        call = private.Link(metadata=(authorization(secret),))
        await call.write(hello(callee=rota.node.id))
        answer = await call.read()
        assert isinstance(answer, peer_pb2.LinkResponse)
        assert answer.welcome.coordinator == f"coordinators/{rota.node.id}"


async def test_a_claim_is_carried_out_and_answered() -> None:
    async with linked() as pair:
        granted = [grant(number, b"x" * 3000) for number in range(1, 1001)]
        pair.ears.answer = Claimed(granted, (Offer(1, 5, -2.5), Offer(2, 0)))
        assert await pair.wire.claim(wish(1000)) == pair.ears.answer
        assert pair.ears.wishes == [wish(1000)]


async def test_shards_are_offered_and_taken() -> None:
    async with linked() as pair:
        assert await pair.wire.hand_over([ShardNo(3), ShardNo(1), ShardNo(2)]) == [ShardNo(3), ShardNo(1)]


@pytest.mark.parametrize(
    ("told", "means"),
    [
        (Unavailable("leaving", reason="DRAINING"), Unavailable),
        (OutcomeUnknown("lost in the middle"), OutcomeUnknown),
        (InvalidArgument.field("shards", "odd"), Unavailable),
        (ZeroDivisionError(), OutcomeUnknown),
    ],
)
async def test_a_refusal_says_whether_anything_may_have_happened(told: Exception, means: type[Exception]) -> None:
    async with linked() as pair:
        pair.ears.answer = told
        with pytest.raises(Unavailable) as refused:
            await pair.wire.claim(wish())
        assert type(refused.value) is means
        if isinstance(told, Unavailable):
            assert refused.value.reason == told.reason
        assert pair.wire.is_open


async def test_a_claim_ends_at_the_owner_when_its_caller_has_gone() -> None:
    async with linked() as pair:
        pair.ears.hold = asyncio.Event()
        claim = asyncio.ensure_future(pair.wire.claim(wish()))
        await eventually(lambda: pair.ears.wishes)
        claim.cancel()
        with pytest.raises(asyncio.CancelledError):
            await claim
        await eventually(lambda: pair.ears.cancelled == 1)


async def test_an_owner_that_does_not_answer_leaves_the_outcome_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    # Long enough for it to arrive there.
    monkeypatch.setattr(peerwire, "CLAIM_TIMEOUT_S", 0.7)
    monkeypatch.setattr(peerwire, "HAND_OVER_TIMEOUT_S", 0.2)
    async with linked() as pair:
        pair.ears.hold = asyncio.Event()
        with pytest.raises(OutcomeUnknown):
            await asyncio.wait_for(pair.wire.claim(wish()), 10)
        await eventually(lambda: pair.ears.cancelled == 1)
        with pytest.raises(OutcomeUnknown):
            await asyncio.wait_for(pair.wire.hand_over([ShardNo(1)]), 10)
        # Taking shards over is written in the database, so it goes on.
        await asyncio.sleep(0.1)
        assert pair.ears.cancelled == 1
        pair.ears.hold.set()
        assert pair.wire.is_open


async def test_a_link_that_ends_ends_the_claims_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peerwire, "CLAIM_TIMEOUT_S", 60.0)
    ears, calls = Ears(), Calls()
    async with dialled_later() as (port, begin):
        async with listening(ears, port=port):
            wire = begin(calls)
            await eventually(lambda: calls.opened)
            ears.hold = asyncio.Event()
            claim = asyncio.ensure_future(wire.claim(wish()))
            await eventually(lambda: ears.wishes)
        with pytest.raises(OutcomeUnknown):
            await asyncio.wait_for(claim, 10)
        with pytest.raises(Unavailable) as refused:
            await wire.claim(wish())
        assert not isinstance(refused.value, OutcomeUnknown)


async def test_closing_ends_claims_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peerwire, "CLAIM_TIMEOUT_S", 60.0)
    async with linked() as pair:
        pair.ears.hold = asyncio.Event()
        claim = asyncio.ensure_future(pair.wire.claim(wish()))
        await eventually(lambda: pair.ears.wishes)
        await pair.wire.close()
        with pytest.raises(OutcomeUnknown):
            await asyncio.wait_for(claim, 10)


async def test_a_peer_that_accepts_and_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peerwire, "OPEN_TIMEOUT_S", 0.5)

    async def listen_only(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65_536):
            pass
        writer.close()

    silent = await asyncio.start_server(listen_only, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    calls = Calls()
    async with dialled(port, calls):
        await asyncio.sleep(0.7)
        silent.close()
        async with listening(Ears(), port=port):
            await eventually(lambda: calls.opened == 1)


async def test_a_peer_that_falls_silent_is_noticed_within_seconds() -> None:
    """Its packets go nowhere from some moment on: neither side hears of an end."""
    ears, calls = Ears(), Calls()
    async with listening(ears) as port, black_hole(port) as hole, dialled(hole.port, calls) as wire:
        await eventually(lambda: calls.opened)
        assert wire.send(settled(1))
        await eventually(lambda: ears.heard)
        hole.swallow = True
        await eventually(lambda: not wire.is_open and ears.ended, within_s=12)
        hole.swallow = False
        await eventually(lambda: calls.opened == 2)


async def test_a_newer_link_supersedes_the_older() -> None:
    ears = Ears()
    async with listening(ears) as port, grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = peer_pb2_grpc.PeerServiceStub(channel)
        older = await greeted(stub)
        newer = await greeted(stub)
        await newer.write(message(1, 2))
        await eventually(lambda: len(ears.heard) == 1)
        await older.write(message(1, 1))
        assert await asyncio.wait_for(older.code(), 5) is grpc.StatusCode.ABORTED
        await eventually(lambda: ears.ended == ears.links[:1])
        await newer.write(message(2, 3))
        await eventually(lambda: ears.fences == [2, 3])
        newer.cancel()
        await eventually(lambda: ears.ended == ears.links)


@pytest.mark.parametrize(
    "first",
    [
        peer_pb2.LinkRequest(seq=1, settled=peer_pb2.Settled()),
        peer_pb2.LinkRequest(hello=peer_pb2.Hello(coordinator="x", callee=f"coordinators/{B}")),
        peer_pb2.LinkRequest(hello=peer_pb2.Hello(coordinator=f"coordinators/{A}")),
    ],
)
async def test_a_link_begins_with_a_whole_hello(first: peer_pb2.LinkRequest) -> None:
    ears = Ears()
    async with listening(ears) as port, grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = peer_pb2_grpc.PeerServiceStub(channel).Link(metadata=(authorization(SECRET),))
        await call.write(first)
        assert await call.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION)
    assert ears.links == []


@pytest.mark.parametrize(("newest", "spoken"), [(1, 1), (7, 1), (0, 1)])
async def test_the_older_protocol_is_spoken(newest: int, spoken: int) -> None:
    async with listening(Ears()) as port, grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = peer_pb2_grpc.PeerServiceStub(channel).Link(metadata=(authorization(SECRET),))
        await call.write(hello(newest))
        answer = await call.read()
        assert isinstance(answer, peer_pb2.LinkResponse)
        assert answer.welcome == peer_pb2.Welcome(coordinator=f"coordinators/{B}", protocol_version=spoken)


async def test_all_that_is_read_is_acknowledged_by_and_by(monkeypatch: pytest.MonkeyPatch) -> None:
    # By number alone, but for the last, however long a hundred take.
    monkeypatch.setattr(peer, "ACK_AFTER_S", 0.3)
    async with listening(Ears()) as port, grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = await greeted(peer_pb2_grpc.PeerServiceStub(channel))
        for seq in range(1, 101):
            await call.write(message(seq, seq))
        acks = []
        while not acks or acks[-1] < 100:
            answer = await asyncio.wait_for(call.read(), 10)
            assert isinstance(answer, peer_pb2.LinkResponse)
            acks.append(answer.ack.seq)
        assert acks == sorted(set(acks))
        assert len(acks) < 30
