"""Limits in memory: what a refused claim closes, and what opens it again.

The limits themselves are exact and in the database (`LeaseStore.claim_limited`); here is remembered only that asking
again makes no sense for now. A gate opens when a lease under it ends here or, by their word, at a peer, when its rate
has filled up again, and in any case after a while, to look.

With peers an opening is a lottery: each waits for a moment of chance before it asks, since otherwise the one at which
leases end would always be first, and the jobs of the others would starve.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping

from rota.clock import Clock
from rota.coordinator.peers import Peers
from rota.domain import limiting
from rota.domain.fairness import Entry, ReadyQueue
from rota.domain.ids import JobId, ShardNo
from rota.domain.limiting import Gate

PROBE_S = 1.0
"""A gate that nothing else has opened is tried again after about so long."""

LOTTERY_S = 0.02
HELD_MAX = 100_000
"""Leases under limits that are remembered; the end of others is found by probing."""


class Gates:
    def __init__(self, ready: ReadyQueue, peers: Peers, clock: Clock) -> None:
        self._ready = ready
        self._peers = peers
        self._clock = clock
        self._paused: frozenset[Gate] = frozenset()
        self._full: dict[Gate, asyncio.TimerHandle] = {}
        self._waiting: set[Gate] = set()
        """Those of the full ones that open when a lease ends."""
        self._held: dict[JobId, tuple[ShardNo, tuple[Gate, ...]]] = {}
        self.on_open: Callable[[], None] = lambda: None

    def granted(self, entry: Entry) -> None:
        """A job under a limit is leased."""
        if len(self._held) < HELD_MAX:
            passed = limiting.gates(entry.tenant_id, entry.queue, entry.concurrency_key)
            self._held[entry.id] = (entry.shard, passed)

    def refused(self, closed: Mapping[Gate, float | None]) -> None:
        """A claim was refused at these gates; the seconds until asking again, None: until a lease ends."""
        rng = self._clock.rng
        for gate, after_s in closed.items():
            if after_s is None:
                self._waiting.add(gate)
                self._close(gate, PROBE_S * rng.uniform(0.5, 1.5))
            else:
                self._close(gate, after_s + (rng.uniform(0, LOTTERY_S) if self._peers else 0.0))

    def pause(self, gates: frozenset[Gate]) -> None:
        """Exactly these are shut until they are not among them any more."""
        for gate in gates - self._paused:
            self._ready.close(gate)
        opened = self._paused - gates
        self._paused = gates
        for gate in opened:
            if gate not in self._full:
                self._ready.open(gate)
        if opened:
            self.on_open()

    def reconsider(self) -> None:
        """Limits have changed: whatever is full may not be."""
        for gate in list(self._full):
            self._open(gate)

    def lease_ended(self, job: JobId) -> None:
        """A lease has ended here."""
        held = self._held.pop(job, None)
        if held is None:
            return
        freed = [gate for gate in held[1] if gate in self._waiting]
        self._peers.tell_freed(held[1])
        self.freed(freed)

    def freed(self, gates: Iterable[Gate]) -> None:
        """Leases under these gates have ended, here or at a peer."""
        for gate in gates:
            if gate in self._waiting:
                self._waiting.discard(gate)
                if self._peers:
                    self._close(gate, self._clock.rng.uniform(0, LOTTERY_S))
                else:
                    self._open(gate)

    def forget_shards(self, shards: frozenset[ShardNo]) -> None:
        """Their leases end elsewhere."""
        for job in [job for job, (shard, _) in self._held.items() if shard in shards]:
            del self._held[job]

    def close(self) -> None:
        """Stops the timers."""
        for timer in self._full.values():
            timer.cancel()
        self._full.clear()

    def _close(self, gate: Gate, for_s: float) -> None:
        timer = self._full.get(gate)
        if timer is not None:
            timer.cancel()
        else:
            self._ready.close(gate)
        self._full[gate] = asyncio.get_running_loop().call_later(for_s, self._open, gate)

    def _open(self, gate: Gate) -> None:
        timer = self._full.pop(gate, None)
        if timer is not None:
            timer.cancel()
        self._waiting.discard(gate)
        if gate not in self._paused:
            self._ready.open(gate)
            self.on_open()
