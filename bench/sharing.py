"""How the coordinators of one database share its shards, by the store's word."""

import sys
import time

from bench.stand import Stand

SETTLE_S = 20.0
"""Coordinators that have not shared by then will not."""

LOOK_EVERY_S = 0.25

FAIR_SHARE = 0.5
"""Of an even share: who has so much counts as one of those that share."""

_OWNERS = "SELECT owner::text, count(*) FROM shards WHERE owner IS NOT NULL GROUP BY owner"
_SHARDS = "SELECT shard, owner::text FROM shards WHERE owner IS NOT NULL"
_COORDINATORS = "SELECT id::text FROM coordinators WHERE expires_at > now()"


def settle(stand: Stand, url: str, count: int) -> bool:
    """Waits until so many coordinators have a fair share each; False when they do not get there."""
    until = time.monotonic() + SETTLE_S
    while time.monotonic() < until:
        shares = [shards for _, shards in stand.ask(_OWNERS, url)]
        if len(shares) == count and min(shares) * count >= sum(shares) * FAIR_SHARE:
            return True
        time.sleep(LOOK_EVERY_S)
    print(f"bench/run: {count} coordinators do not share the shards: {sorted(shares)}", file=sys.stderr)
    return False


def owners(stand: Stand, url: str) -> dict[int, str]:
    """By shard, the id of its coordinator."""
    return dict(stand.ask(_SHARDS, url))


def only_coordinator(stand: Stand, url: str) -> str:
    """The id of the one that lives."""
    (found,) = stand.ask(_COORDINATORS, url)
    return str(found[0])
