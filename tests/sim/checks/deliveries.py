"""Of the way to the worker: sessions, polls, and the leases that their answers carry."""

from rota.coordinator.reaper import UNHEARD_S
from rota.domain.model import Outcome

from .. import coordinator as coordinator_module
from ..faults import Kind
from ..history import Event, fence_text
from ..world import Outcome as Seed
from .base import ENDINGS, Found, ended_within, ends_attempt, gone_nodes

LOST_ANSWER_S = coordinator_module.DELIVERY_TTL_S + 1.0 + 0.5
"""Delivery TTL, one tick of the reaper, and the way there."""

NAMED_LOST_S = 0.5
"""From the poll that names another batch to the end of the leases that did not arrive."""

FORWARD_LOST_S = 4 * (coordinator_module.DELIVERY_TTL_S + UNHEARD_S) + 2.0
"""From a grant that never reached the peer that asked for it to its end. The worker is asked for its inventory again
and again, by messages that may be lost as well."""

FORWARD_BROKEN_S = 8 * (coordinator_module.DELIVERY_TTL_S + UNHEARD_S) + 2.0
"""The same where the links break on which it is asked and answered."""

CLAIM_S = 0.05
"""A claim takes less, where the store is well."""

LOCAL_WAIT_S = 0.5
"""How long a due job may lie beside a waiting worker of its only coordinator."""

REMOTE_WAIT_S = 4.0
"""The same where another coordinator created it or put it back, and the hint was lost: a rescan finds it."""

FLEET_WAIT_S = 0.5
"""How long it may lie beside a waiting worker of any coordinator where nothing is lost, even while members come and
leave. Only when all start at once they do not know yet what others have taken, and a rescan finds the job."""

LOST_CLAIMS_WAIT_S = 8.0
"""The same where claims of peers are lost, which takes a second each time."""

BROKEN_LINKS_WAIT_S = 16.0
"""The same where links break too, which is noticed after seconds."""


def dead_sessions_stay_dead(seed: Seed) -> Found:
    closed: set[str] = set()
    for event in seed.history.of("closed", "beat"):
        if event.kind == "closed":
            closed.add(event["session"])
        elif event["session"] in closed:
            yield f"a beat of the dead session {event['session'][-6:]} was taken", event


def holders_keep_their_leases(seed: Seed) -> Found:
    """LEASE_LOST is said of dead sessions, and of leases that their worker does not hold, and of no others; but for an
    inventory from before the receipt that comes late and to another coordinator than had answered."""
    holding: set[tuple[str, int]] = set()
    overtaken: set[tuple[str, int]] = set()
    answered_by: dict[tuple[str, int], str] = {}
    closed: set[str] = set()
    killed: set[str] = set()
    holders: dict[tuple[str, int], str] = {}
    kinds = ("answering", "received", "inventory", "dropped", "settled", "killed", "closed", *ENDINGS)
    for event in seed.history.of(*kinds):
        if event.kind == "answering":
            answered_by |= dict.fromkeys(event["leases"], event["node"])
        elif event.kind == "inventory":
            mine = [key for key in holding if holders[key] == event["session"] and key not in event["leases"]]
            overtaken.update(key for key in mine if answered_by.get(key) != event["node"])
        elif event.kind == "received":
            holding.add((event["job"], event["fence"]))
            holders[event["job"], event["fence"]] = event["session"]
        elif event.kind in ("dropped", "settled"):
            holding.discard((event["job"], event["fence"]))
        elif event.kind == "closed":
            closed.add(event["session"])
        elif event.kind == "killed":
            killed.add(event.get("session"))
        elif (
            event.get("outcome") is Outcome.LEASE_LOST
            and event["session"] not in closed | killed
            and (event["job"], event["fence"]) in holding - overtaken
        ):
            yield f"job {event['job'][-6:]}: the lease of a living holder was called lost", event


def grants_are_committed(seed: Seed) -> Found:
    """Nothing reaches a worker before the claim has committed, and nothing of another session's."""
    claimed: dict[tuple[str, int], str] = {}
    for event in seed.history.of("claimed", "received"):
        key = event["job"], event["fence"]
        if event.kind == "claimed":
            claimed[key] = event["session"]
        elif claimed.get(key) != event["session"]:
            yield f"a worker got {fence_text(event['fence'])} of job {event['job'][-6:]}, which was not granted", event


def batches_grow(seed: Seed) -> Found:
    """An answer's batch is beyond the one that the call named, whichever coordinator gave that: or an inventory that
    names the older one would seem to speak of the newer."""
    named: dict[str, int] = {}
    for event in seed.history.of("asking", "answering", "answer lost"):
        if event.kind == "asking":
            named[event["request"]] = event["ack"]
        elif event["batch"] <= named[event["request"]]:
            yield f"batch {event['batch']} was given after {named[event['request']]}", event


def living_sessions_live(seed: Seed) -> Found:
    """An outage of database or coordinators kills nobody: no session ends but by its worker's wish or death."""
    killed = {event.get("session") for event in seed.history.of("killed")}
    left = {event["session"] for event in seed.history.of("session over") if event["why"] == "left"}
    for event in seed.history.of("closed"):
        if event["why"] == "expired" and event["session"] not in killed | left:
            yield f"the session {event['session'][-6:]} of a living worker was expired", event


def lost_answers_are_found(seed: Seed) -> Found:
    """A lease whose answer did not arrive goes back within the delivery TTL; at once when the next poll says so."""
    sent: dict[tuple[str, int], Event] = {}
    received = {(e["job"], e["fence"]) for e in seed.history.of("received")}
    ended = {(e["job"], e["fence"]): e for e in seed.history.of(*ENDINGS) if ends_attempt(e)}
    for event in seed.history.of("answering", "answer lost"):
        for key in event["leases"]:
            sent[key] = event
    gone = gone_nodes(seed)
    forwarded = {(e["job"], e["fence"]) for e in seed.history.of("forwarded")}
    forwarded_s = FORWARD_BROKEN_S if seed.plan.link_breaks else FORWARD_LOST_S
    for event in seed.history.of("claimed"):
        key = event["job"], event["fence"]
        within_s = forwarded_s if key in forwarded else NAMED_LOST_S
        if (
            key not in sent
            and not gone(event.at, event.at + within_s)
            and not ended_within(ended, key, event, within_s)
        ):
            yield f"job {key[0][-6:]}: the caller had gone, and its lease lived on", event
    for key, event in sent.items():
        if event.kind == "answering" or key in received or gone(event.at, event.at + LOST_ANSWER_S):
            continue
        if not ended_within(ended, key, event, LOST_ANSWER_S):
            yield f"job {key[0][-6:]}: an answer was lost, and its lease lived on", event
    overtaken = overtaken_calls(seed)
    for event in seed.history.of("asking"):
        if event.index in overtaken:
            continue
        for key, answer in sent.items():
            mine = (answer["session"], answer["poller"]) == (event["session"], event["poller"])
            if not mine or answer.index > event.index or answer["request"] == event["request"] or key in received:
                continue
            if answer["batch"] == event["ack"] or answer.kind == "answering" or answer["node"] != event["node"]:
                continue
            if not ended_within(ended, key, event, NAMED_LOST_S):
                yield f"job {key[0][-6:]}: the next poll named another batch, and its lease lived on", event
    for event in seed.history.of("inventory"):
        for key, answer in sent.items():
            spoken_of = answer.index < event.index and event["batches"].get(answer["poller"], 0) >= answer["batch"]
            if answer["session"] != event["session"] or not spoken_of or key in event["leases"]:
                continue
            if answer["node"] == event["node"] and not ended_within(ended, key, event, NAMED_LOST_S):
                yield f"job {key[0][-6:]}: an inventory came without it, and its lease lived on", event


def repeated_calls_get_the_same(seed: Seed) -> Found:
    """A Lease call that comes again with its request_id gets its leases again, while they live."""
    answers: dict[tuple[str, str], Event] = {}
    ended = {(e["job"], e["fence"]): e for e in seed.history.of(*ENDINGS) if ends_attempt(e)}
    waiting: dict[tuple[str, str], list[tuple[str, int]]] = {}
    overtaken = overtaken_calls(seed)
    for event in seed.history.of("asking", "answering", "answer lost"):
        call = event["request"], event["node"]
        if event.kind == "asking":
            before = answers.get(call)
            if event.index in overtaken:
                continue
            if before is not None and event.at - before.at < coordinator_module.DELIVERY_TTL_S - NAMED_LOST_S:
                waiting[call] = [key for key in before["leases"] if not _ended_well(ended.get(key), event)]
            continue
        for key in waiting.pop(call, ()):
            if key not in event["leases"]:
                yield f"job {key[0][-6:]}: the call came again and did not get it", event
        answers[call] = event


def _ended_well(end: Event | None, asking: Event) -> bool:
    """Whether the lease is over before the answer, by other than taking the call for a fresh one."""
    if end is None or end.at > asking.at + NAMED_LOST_S:
        return False
    return end.index < asking.index or end.get("outcome") is not Outcome.UNDELIVERED


def claims_are_for_somebody(seed: Seed) -> Found:
    """A claim is made for a call that waits: it travels in an answer, or its call ended while it was made."""
    sent = {key for event in seed.history.of("answering", "answer lost") for key in event["leases"]}
    ends: dict[tuple[str, str], list[float]] = {}
    for event in seed.history.of("asked"):
        ends.setdefault((event["session"], event["node"]), []).append(event.at)
    gone = gone_nodes(seed)
    # What a peer granted is its own matter: the way to it may be lost, and the caller may go meanwhile.
    sent |= {(event["job"], event["fence"]) for event in seed.history.of("forwarded")}
    for event in seed.history.of("claimed"):
        if (event["job"], event["fence"]) in sent or gone(event.at - NAMED_LOST_S, event.at + NAMED_LOST_S):
            continue
        if not any(abs(at - event.at) < CLAIM_S for at in ends.get((event["session"], event["owner"]), ())):
            yield f"job {event['job'][-6:]} was claimed for a call that had ended", event


def no_idle_beside_work(seed: Seed) -> Found:
    """A due job does not lie beside a waiting worker, of its owner or of whatever coordinator."""
    bound_s = LOCAL_WAIT_S if seed.plan.coordinators == 1 else REMOTE_WAIT_S
    lossy_s = BROKEN_LINKS_WAIT_S if seed.plan.link_breaks else LOST_CLAIMS_WAIT_S
    starts = first_starts(seed)
    polls: dict[tuple[str, str, int], float] = {}
    idle: dict[str, list[tuple[float, float]]] = {}
    for event in seed.history.of("asking", "asked"):
        key = event["node"], event["request"], event["poller"]
        if event.kind == "asking":
            polls.setdefault(key, event.at)
        elif key in polls:
            idle.setdefault(event["node"], []).append((polls.pop(key), event.at))
    owners: dict[int, list[tuple[float, str | None]]] = {}
    for event in seed.history.of("acquired", "released"):
        owners.setdefault(event["shard"], []).append((event.at, event["owner"] if event.kind == "acquired" else None))
    everybody = [span for spans in idle.values() for span in spans]
    anywhere = {owner: everybody for spans in owners.values() for _, owner in spans if owner is not None}
    for job, events in seed.history.by_job():
        since: float | None = None
        shard = 0
        for event in events:
            if event.kind in ("created", "requeued"):
                shard = event.get("shard", shard)
                since = event.at + max(event["due_us"] - event.db_us, 0) / 1e6
            elif event.kind == "claimed" and since is not None:
                waited_s = longest_overlap(since, event.at, owners.get(shard, []), idle)
                if waited_s > bound_s:
                    yield f"job {job[-6:]} lay {waited_s:.2f} s beside a waiting worker", event
                waited_s = longest_overlap(since, event.at, owners.get(shard, []), anywhere)
                starting = any(since - coordinator_module.TERM_S < start < event.at for start in starts)
                calm_s = REMOTE_WAIT_S if starting else FLEET_WAIT_S
                if waited_s > (calm_s if seed.plan.kind is Kind.CALM else lossy_s):
                    yield f"job {job[-6:]} lay {waited_s:.2f} s beside a waiting worker of some coordinator", event
                since = None


def longest_overlap(
    begin: float,
    end: float,
    owners: list[tuple[float, str | None]],
    idle: dict[str, list[tuple[float, float]]],
) -> float:
    """The longest time within [begin, end] in which one poll waited at the coordinator that owned the shard."""
    longest = 0.0
    for number, (since, owner) in enumerate(owners):
        until = owners[number + 1][0] if number + 1 < len(owners) else float("inf")
        if owner is None:
            continue
        low, high = max(begin, since), min(end, until)
        spans = sorted((max(a, low), min(b, high)) for a, b in idle.get(owner, ()) if a < high and b > low)
        total, reached = 0.0, low
        for a, b in spans:
            total += max(b - max(a, reached), 0.0)
            reached = max(reached, b)
        longest = max(longest, total)
    return longest


def overtaken_calls(seed: Seed) -> set[int]:
    """Copies of Lease calls that were under way for so long that their poller has gone on."""
    found: set[int] = set()
    newest: dict[tuple[str, int], str] = {}
    asked: set[str] = set()
    for event in seed.history.of("asking"):
        poller = event["session"], event["poller"]
        if event["request"] not in asked:
            newest[poller] = event["request"]
            asked.add(event["request"])
        elif newest[poller] != event["request"]:
            found.add(event.index)
    return found


def first_starts(seed: Seed) -> list[float]:
    """When a coordinator came up while there was none."""
    found: list[float] = []
    up: set[str] = set()
    for event in seed.history.of("started", "draining"):
        if event.kind == "draining":
            up.discard(event["coordinator"])
            continue
        if not up:
            found.append(event.at)
        up.add(event["coordinator"])
    return found
