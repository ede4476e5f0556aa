"""What coordinators tell each other arrives as it was said: round trips through bytes, whatever is said."""

import uuid
from dataclasses import fields
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rota_sdk.gen.rota.peer.v1 import peer_pb2
from rota_sdk.gen.rota.worker.v1 import worker_pb2

from rota.api import codec, peercodec
from rota.coordinator.members import Inventory
from rota.coordinator.news import Claimed, ClaimWish, Demand, Holding, Kind, Lease, News, Offer, Order
from rota.domain.errors import InvalidArgument
from rota.domain.fairness import Entry
from rota.domain.ids import CoordinatorId, Fence, JobId, ScheduleUid, SessionId, ShardNo, TenantId
from rota.domain.limiting import Gate
from rota.domain.model import DirectiveKind, Grant, JobOrigin

ME = CoordinatorId("01a22a4e-cd91-70bc-b5eb-70ab53f956d0")
ID = "0f60c872-a204-1e35-eedb-43ca31d21827"

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
names = st.text("abc.-_", min_size=1, max_size=12)
uuids = st.uuids().map(str)
tenants = st.integers(0, (1 << 31) - 1).map(TenantId)
counts = st.integers(0, (1 << 31) - 1)
numbers = st.integers(1, (1 << 63) - 1)
fences = numbers.map(Fence)
sessions = uuids.map(SessionId)
jobs = uuids.map(JobId)
shards = st.integers(0, 255).map(ShardNo)
orders_of_queues = st.floats(allow_nan=False)
instants = st.datetimes(datetime(1970, 1, 1), datetime(2400, 1, 1), timezones=st.just(UTC))

demands = st.builds(Demand, numbers, st.builds(Kind, tenants, names, st.lists(names, max_size=3).map(tuple)), counts)
offers = st.builds(Offer, numbers, counts, orders_of_queues)
entries = st.builds(
    Entry,
    tenants,
    jobs,
    shards,
    names,
    names,
    st.integers(0, 9),
    st.integers(-(1 << 62), 1 << 62),
    counts,
    st.none() | st.floats(allow_nan=False),
    words,
)
leases = st.builds(Lease, jobs, fences)
kinds = st.sampled_from(DirectiveKind)
orders = st.builds(Order, sessions, kinds, st.none() | jobs, st.none() | fences, words)
inventories = st.builds(
    Inventory,
    st.frozensets(st.tuples(jobs, fences), max_size=3),
    st.dictionaries(st.integers(0, 63), numbers, max_size=3),
    st.integers(0, (1 << 63) - 1),
)
holdings = st.builds(Holding, sessions, tenants, inventories)
SORTS = (
    st.lists(demands, max_size=4).map(lambda found: {each.id: each for each in found}),
    st.lists(offers, max_size=4).map(lambda found: {each.demand_id: each for each in found}),
    st.lists(entries, max_size=4),
    st.lists(leases, max_size=4),
    st.lists(leases, max_size=4),
    st.lists(orders, max_size=4),
    st.lists(holdings, max_size=3),
    st.lists(sessions, max_size=4),
    st.sets(st.builds(Gate, tenants, words, words), max_size=4),
    st.booleans(),
    st.booleans(),
)
everything = st.builds(News, *SORTS)

wishes = st.builds(
    ClaimWish,
    uuids.map(CoordinatorId),
    tenants,
    names,
    sessions,
    st.integers(0, 63),
    numbers,
    st.lists(numbers, min_size=1, max_size=4).map(tuple),
    st.integers(1, 1000),
    counts,
)
# As the database tells them: to the microsecond and the millisecond.
deadlines = st.none() | st.integers(0, 366 * 86_400 * 10**6).map(lambda us: us / 10**6)
run_timeouts = st.integers(1, 7 * 86_400 * 1000).map(lambda ms: ms / 1000)
origins = st.none() | st.builds(JobOrigin, uuids.map(ScheduleUid), names, instants, counts)
grants = st.builds(
    Grant,
    tenant_id=st.just(TenantId(7)),
    job_id=jobs,
    shard=shards,
    fence=fences,
    session_id=st.just(SessionId(ID)),
    attempt=counts,
    attempts_counted=counts,
    max_attempts=counts,
    type=names,
    queue=names,
    priority=st.integers(0, 9),
    payload=st.binary(max_size=30),
    content_type=words,
    headers=st.none() | st.dictionaries(words, words, min_size=1, max_size=3),
    effect_key=words,
    generation=counts,
    run_timeout_s=run_timeouts,
    deadline_s=deadlines,
    due_at=instants,
    traceparent=words,
    tracestate=words,
    origin=origins,
)
WISH = ClaimWish(ME, TenantId(7), "acme", SessionId(ID), 0, 1, (1,), 10, 1 << 20)


def heard(news: News) -> News:
    """What the other side makes of it, over all messages."""
    whole = News()
    for message in peercodec.messages(news):
        part = peercodec.news(peer_pb2.LinkRequest.FromString(message.SerializeToString()))
        for field in fields(News):
            found, more = getattr(whole, field.name), getattr(part, field.name)
            setattr(whole, field.name, found + more if isinstance(found, list) else found | more)
    return whole


@given(everything)
def test_news_arrive_as_they_were_told(news: News) -> None:
    assert heard(news) == news
    assert len(peercodec.messages(news)) == (1 if news else 0)
    assert len(fields(News)) == len(SORTS), "a sort of news is not tried here"


def entry(number: int) -> Entry:
    return Entry(TenantId(1), JobId(str(uuid.UUID(int=number))), ShardNo(1), "q" * 64, "t" * 128, 4, number, 1)


def test_what_is_too_much_for_one_message_goes_in_several_none_of_them_large() -> None:
    types = tuple(f"{'t' * 120}{number:08}" for number in range(512))
    news = News(
        demands={n: Demand(n, Kind(TenantId(1), f"q{n}", types), 1) for n in range(40)},
        offers={n: Offer(n, 1, 0.5) for n in range(2500)},
        waiting=[entry(number) for number in range(3001)],
        holdings=[
            Holding(
                SessionId(str(uuid.UUID(int=n))),
                TenantId(1),
                Inventory(frozenset((entry(job).id, Fence(1)) for job in range(10_000)), {}),
            )
            for n in range(5)
        ],
        armed=True,
    )
    made = peercodec.messages(news)
    assert heard(news) == news
    assert [len(message.waiting.jobs) for message in made] == [1000, 1000, 1000, 1, 0]
    assert sum(len(message.demand.entries) for message in made) == 40
    assert max(message.ByteSize() for message in made) < 4 * 1024 * 1024
    assert [message.HasField("armed") for message in made] == [True, False, False, False, False]


@pytest.mark.parametrize("count", [0, 1, 999, 1000, 1001, 2000])
def test_bounds_are_met_exactly(count: int) -> None:
    news = News(
        demands={n: Demand(n, Kind(TenantId(1), "q", ()), 1) for n in range(count)},
        settled=[Lease(entry(number).id, Fence(1)) for number in range(count)],
    )
    assert len(peercodec.messages(news)) == -(-count // 1000)
    assert heard(news) == news


@given(wishes)
def test_a_wish_arrives_as_it_was_made(wish: ClaimWish) -> None:
    message = peercodec.claim_request(wish)
    assert peercodec.claim_wish(peer_pb2.ClaimRequest.FromString(message.SerializeToString())) == wish


@given(st.lists(grants, max_size=3), st.lists(offers, max_size=3).map(tuple))
@settings(max_examples=300)
def test_grants_arrive_as_they_were_made(found: list[Grant], left: tuple[Offer, ...]) -> None:
    message = peercodec.claim_response(Claimed(found, left))
    arrived = peercodec.claimed(peer_pb2.ClaimResponse.FromString(message.SerializeToString()), WISH)
    assert arrived == Claimed(found, left)
    # What a worker gets is the same, byte for byte, whoever hands it out.
    encoder = codec.LeaseEncoder(12.0, 5.0)
    for ours, theirs in zip(arrived.grants, found, strict=True):
        leases = worker_pb2.LeaseResponse()
        encoder.add(leases.leases, ours)
        encoder.add(leases.leases, theirs)
        here, there = (lease.SerializeToString(deterministic=True) for lease in leases.leases)
        assert here == there


def test_the_ttls_are_the_caller_s_matter() -> None:
    grant = Grant(
        *(TenantId(7), JobId(ID), ShardNo(1), Fence(1), SessionId(ID), 1, 0, 5, "t", "q", 4, b"", "", None, "k", 0),
        *(3600.0, None, datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=1), "", ""),
    )
    (job,) = peercodec.claim_response(Claimed([grant])).jobs
    assert not job.lease.HasField("ttl")
    assert not job.lease.HasField("delivery_ttl")


def test_what_a_newer_peer_says_beside_is_passed_over() -> None:
    known = worker_pb2.Directive(kind=worker_pb2.DIRECTIVE_KIND_DRAIN)
    unknown = worker_pb2.Directive(kind=99)  # type: ignore[arg-type]
    message = peer_pb2.LinkRequest()
    for directive in (unknown, known):
        message.directives.entries.add(session=ID, directive=directive)
    newer = peer_pb2.LinkRequest.FromString(message.SerializeToString() + b"\xfa\x01\x02hi")
    assert peercodec.news(newer) == News(orders=[Order(SessionId(ID), DirectiveKind.DRAIN)])
    assert not peercodec.news(peer_pb2.LinkRequest.FromString(b"\xfa\x01\x02hi"))


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (peer_pb2.LinkRequest(waiting=peer_pb2.Waiting(jobs=[peer_pb2.WaitingJob(id="x")])), "waiting.jobs.id"),
        (peer_pb2.LinkRequest(settled=peer_pb2.Settled(leases=[peer_pb2.LeaseRef()])), "settled.leases.job"),
        (peer_pb2.LinkRequest(proven=peer_pb2.Proven(leases=[peer_pb2.LeaseRef()])), "proven.leases.job"),
        (peer_pb2.LinkRequest(sessions_ended=peer_pb2.SessionsEnded(sessions=["}"])), "sessions_ended.sessions"),
        (peer_pb2.LinkRequest(inventories=[peer_pb2.SessionInventory()]), "inventories.session"),
    ],
)
def test_an_id_that_is_none_is_refused(message: peer_pb2.LinkRequest, field: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        peercodec.news(message)
    assert [violation.field for violation in refused.value.violations] == [field]
