"""What holds for every worker in every case, read from all that came: the judge's own rules."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from rota_sdk.gen.rota.worker.v1 import worker_pb2

from rota_conformance.coordinator import API_KEY, Coordinator

RESULTS_MAX = 500
# The same connection may carry the next poll before the end of the one before is written down here.
OVERLAP_SLACK_S = 0.01
CROSSING_S = 0.1
"""Calls that were sent side by side may arrive in either order."""


def broken(server: Coordinator, events: Sequence[dict[str, Any]], off: frozenset[str]) -> list[str]:
    """Each rule that was broken, in words."""
    told = []
    for rule in (
        _introduces_itself,
        _shows_its_key,
        _polls_one_at_a_time,
        _keeps_the_request_id,
        _acknowledges,
        _stays_within_slots,
        _reports_under_its_fence,
        _repeats_an_outcome_as_it_was,
        _keeps_calls_within_limits,
        _counts_beats_up,
        _asks_for_nothing_while_it_drains,
        _runs_a_grant_once,
    ):
        name = rule.__name__.removeprefix("_")
        if name not in off:
            told += [f"{name.replace('_', ' ')}: {words}" for words in rule(server, events)]
    return told


def _introduces_itself(server: Coordinator, events: Sequence[dict[str, Any]]) -> Iterator[str]:
    for request in server.of("OpenSession"):
        for field in ("worker", "sdk", "queues", "types", "slots", "protocol_version", "request_id"):
            if not getattr(request, field):
                yield f"OpenSession came without {field}"


def _shows_its_key(server: Coordinator, events: Sequence[dict[str, Any]]) -> Iterator[str]:
    for call in server.calls:
        if call.metadata.get("authorization") != f"Bearer {API_KEY}":
            yield f"{call.method} came with authorization {call.metadata.get('authorization')!r}"
            return


def _polls_one_at_a_time(server: Coordinator, events: Sequence[dict[str, Any]]) -> Iterator[str]:
    latest: dict[tuple[str, int], float] = {}
    for poll in server.polls:
        key = (poll.request.session, poll.request.poller)
        if poll.began < latest.get(key, 0.0) - OVERLAP_SLACK_S:
            yield f"poller {key[1]} sent a Lease while another was in flight"
        latest[key] = poll.ended if poll.response is not None else poll.began


def _keeps_the_request_id(server: Coordinator, events: Sequence[dict[str, Any]]) -> Iterator[str]:
    waiting: dict[tuple[str, int], str] = {}
    answered: set[str] = set()
    for poll in server.polls:
        key = (poll.request.session, poll.request.poller)
        id = poll.request.request_id
        if not id:
            yield "a Lease came without request_id"
        if waiting.get(key, id) != id:
            yield f"Lease {id!r} followed {waiting[key]!r}, which had got no answer"
        if poll.response is not None:
            waiting.pop(key, None)
            if id in answered:
                # A lost answer may have been one that the server believed to be sent.
                continue
            answered.add(id)
        else:
            waiting[key] = id


def _acknowledges(server: Coordinator, events: Sequence[dict[str, Any]]) -> Iterator[str]:
    received: dict[tuple[str, int], list[int]] = defaultdict(lambda: [0])
    last: dict[tuple[str, int], str] = {}
    for poll in server.polls:
        key = (poll.request.session, poll.request.poller)
        if (
            last.get(key) == poll.request.request_id
            and len(received[key]) > 1
            and poll.request.ack_batch != received[key][-1]
        ):
            # The answer was sent, and lost on its way.
            received[key].pop()
        last[key] = poll.request.request_id
        if poll.request.ack_batch != received[key][-1]:
            yield f"expected ack_batch {received[key][-1]}, found {poll.request.ack_batch}"
        if poll.response is not None and poll.response.batch:
            received[key].append(poll.response.batch)


def _stays_within_slots(server: Coordinator, events: Sequence[dict[str, Any]]) -> Iterator[str]:
    opened = server.of("OpenSession")
    for poll in server.polls:
        if opened and not 1 <= poll.request.capacity <= opened[-1].slots:
            yield f"expected a capacity of 1 to {opened[-1].slots}, found {poll.request.capacity}"


def _reports_under_its_fence(server: Coordinator, events: Sequence[dict[str, Any]]) -> Iterator[str]:
    granted = {
        (lease.job, lease.fence, poll.request.session)
        for poll in server.polls
        if poll.response is not None
        for lease in poll.response.leases
    }
    for request in server.of("Complete"):
        for result in request.results:
            if (result.job, result.fence, request.session) not in granted:
                yield f"an outcome of {result.job} came with fence {result.fence}, which this session was not granted"


def _repeats_an_outcome_as_it_was(server: Coordinator, events: Sequence[dict[str, Any]]) -> Iterator[str]:
    first: dict[tuple[str, int], worker_pb2.Result] = {}
    ids: dict[str, tuple[str, int]] = {}
    for result in server.results:
        key = (result.job, result.fence)
        before = first.setdefault(key, result)
        if not result.request_id:
            yield f"the outcome of {result.job} came without request_id"
        elif before.request_id != result.request_id:
            yield f"the outcome of {result.job} came again with another request_id"
        elif before != result:
            yield f"the outcome of {result.job} came again and differs"
        if ids.setdefault(result.request_id, key) != key:
            yield f"request_id {result.request_id!r} stands for two outcomes"


def _keeps_calls_within_limits(server: Coordinator, events: Sequence[dict[str, Any]]) -> Iterator[str]:
    for request in server.of("Complete"):
        if not 1 <= len(request.results) <= RESULTS_MAX:
            yield f"expected 1 to {RESULTS_MAX} results in a Complete, found {len(request.results)}"


def _counts_beats_up(server: Coordinator, events: Sequence[dict[str, Any]]) -> Iterator[str]:
    seq = 0
    for request in server.of("Heartbeat"):
        if request.HasField("hello"):
            if not request.hello.session:
                yield "a stream began with a hello without session"
            seq = 0
        elif request.beat.seq <= seq:
            yield f"beat {request.beat.seq} came after beat {seq}"
        else:
            seq = request.beat.seq


def _asks_for_nothing_while_it_drains(server: Coordinator, events: Sequence[dict[str, Any]]) -> Iterator[str]:
    draining: dict[str, float] = {}
    for call in server.calls:
        if call.method == "CloseSession" and call.request.mode == worker_pb2.CLOSE_MODE_DRAIN:
            draining[call.request.session] = call.at
        elif call.method == "Lease" and call.at > draining.get(call.request.session, float("inf")) + CROSSING_S:
            yield "a Lease came after CloseSession(DRAIN)"


def _runs_a_grant_once(server: Coordinator, events: Sequence[dict[str, Any]]) -> Iterator[str]:
    seen: set[tuple[str, int]] = set()
    for event in events:
        if event["event"] == "started":
            key = (event["job"], int(event["fence"]))
            if key in seen:
                yield f"the handler of {key[0]} was started twice under fence {key[1]}"
            seen.add(key)
