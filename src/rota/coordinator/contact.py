"""Whether anybody can be served: workers that are heard, or coordinators that have some."""

from rota.clock import Clock
from rota.coordinator.members import Members
from rota.coordinator.peers import Peers

LOST = "contact with workers and other coordinators"

GAP_SHARE = 2
"""A patience's share without a look is a gap: who stood still for so long could hear nobody, and has lost nobody yet.
Looks come several times a patience."""


class Contact:
    """An owner that is cut off from all but the database would keep its shards by renewals, and their jobs would wait
    for as long as that lasts, while others have workers for them."""

    def __init__(self, members: Members, peers: Peers, clock: Clock, patience_s: float) -> None:
        self._members = members
        self._peers = peers
        self._clock = clock
        self._patience_s = patience_s
        self._had_at = self._looked_at = clock.monotonic()

    def undone(self) -> list[str]:
        """Names what is lost, when it is for long. To be asked again and again."""
        now = self._clock.monotonic()
        stood_still = now - self._looked_at > self._patience_s / GAP_SHARE
        self._looked_at = now
        if stood_still or not self._peers or self._peers.hears_any() or self._hears_worker(now - self._patience_s):
            self._had_at = now
        return [LOST] if now - self._had_at > self._patience_s else []

    def _hears_worker(self, since: float) -> bool:
        return any(max(each.seen_at, each.last_poll_at, each.last_beat_at) > since for each in self._members)
