"""Of coordinators: whose shard it is."""

from rota.domain.ids import epoch_of

from .. import coordinator as coordinator_module
from ..history import Event
from ..world import Outcome as Seed
from .base import Found

SETTLE_S = coordinator_module.TERM_S
"""So long after somebody came or left each has its share."""

HAND_OVER_S = 0.5
"""From the moment that somebody gives a shard up to the one that another has it."""


def one_owner(seed: Seed) -> Found:
    """Epochs grow, a living coordinator keeps its shards, and a claim carries owner and epoch as they are."""
    owners: dict[int, tuple[int, str | None]] = {}
    terms: dict[str, int] = {}
    addresses: dict[str, str] = {}
    for event in seed.history.of("registered", "renewed", "shortened", "acquired", "released", "claimed"):
        if event.kind == "registered":
            for other in [c for c, address in addresses.items() if address == event["address"]]:
                terms.pop(other, None)
            addresses[event["coordinator"]] = event["address"]
        if event.kind in ("registered", "renewed", "shortened"):
            if event.kind == "renewed" and terms.get(event["coordinator"], 0) <= event.db_us:
                yield f"the term of {event['coordinator'][-6:]} was renewed after its end", event
            terms[event["coordinator"]] = event["until_us"]
            continue
        epoch, owner = owners.get(event["shard"], (0, None))
        if event.kind == "claimed":
            if (epoch_of(event["fence"]), event["owner"]) != (epoch, owner):
                yield f"a claim in shard {event['shard']} was taken under a stale epoch", event
            continue
        if event.kind == "released" and event["owner"] != owner:
            yield f"shard {event['shard']} was given up by another than its owner", event
        if event["epoch"] <= epoch:
            yield f"shard {event['shard']} went from epoch {epoch} to {event['epoch']}", event
        if event.kind == "acquired" and terms.get(event["owner"], 0) <= event.db_us:
            yield f"shard {event['shard']} was taken by a coordinator whose term is over", event
        if event.kind == "acquired" and owner is not None and terms.get(owner, 0) > event.db_us:
            yield f"shard {event['shard']} was taken from a living owner", event
        owners[event["shard"]] = event["epoch"], event["owner"] if event.kind == "acquired" else None


def shares_settle(seed: Seed) -> Found:
    """Soon after somebody came or left each has its share, and from then on no shard moves."""
    owners: dict[int, str] = {}
    up: set[str] = set()
    since = 0.0
    changes = seed.history.of("acquired", "released", "started", "draining", "killed", "calm")
    for event in [*changes, *seed.history.events[-1:]]:
        settled = event.at > since + SETTLE_S
        if event.kind in ("acquired", "released"):
            if settled:
                yield f"shard {event['shard']} moved, although nobody came or left", event
            owners.pop(event["shard"], None)
            if event.kind == "acquired":
                owners[event["shard"]] = event["owner"]
            continue
        owned = [list(owners.values()).count(coordinator) for coordinator in up]
        if settled and owned and (sum(owned) != seed.tables.shard_count or max(owned) - min(owned) > 1):
            yield f"coordinators own {sorted(owned)} shards", event
        if event.kind == "started":
            up.add(event["coordinator"])
        elif event.kind in ("draining", "killed"):
            up.discard(event["coordinator"])
        since = event.at


def shards_are_handed_over(seed: Seed) -> Found:
    """Who gives a shard up says so, and whoever is to have it takes it at once."""
    up: set[str] = set()
    free: dict[int, Event] = {}
    for event in seed.history.of("acquired", "released", "started", "draining"):
        if event.kind == "started":
            up.add(event["coordinator"])
        elif event.kind == "draining":
            up.discard(event["coordinator"])
        elif event.kind == "released":
            if up - {event["owner"]}:
                free[event["shard"]] = event
        else:
            before = free.pop(event["shard"], None)
            if before is not None and event.at > before.at + HAND_OVER_S:
                yield f"shard {event['shard']} was nobody's for {event.at - before.at:.2f} s", event


def drains_hand_over(seed: Seed) -> Found:
    """Who leaves in order owns nothing any more when it is gone."""
    owners: dict[int, str | None] = {}
    for event in seed.history.of("acquired", "released", "stopped"):
        if event.kind != "stopped":
            owners[event["shard"]] = event["owner"] if event.kind == "acquired" else None
        elif event["coordinator"] in owners.values():
            yield f"{event['process']} left without handing its shards over", event
