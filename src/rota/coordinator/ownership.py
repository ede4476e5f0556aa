"""Holds shard terms: renews, acquires, hands over, and drops what was lost.

Nothing reaches a worker before a statement that tested the shard's epoch, so the epoch alone makes this safe. The local
deadline, two thirds of the term counted from before the renewal was sent, only saves claims that would come back empty.

Each coordinator brings itself to its own share (`domain.balance`): it takes what is free up to that, and gives away
what it has above it, telling the taker, so that a shard is without an owner for a moment only.

An owner that cannot do all of its duties *resigns* while others can: it gives all shards up and rests. Renewals alone
would keep shards that nobody works for.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

from rota.clock import Clock, DatabaseClock
from rota.coordinator.loop import BACKOFF_MAX_S, Loop
from rota.coordinator.memory import Memory
from rota.coordinator.peers import Peers
from rota.domain import balance
from rota.domain.errors import Unavailable
from rota.domain.ids import CoordinatorId, ShardNo
from rota.domain.model import ShardTerm
from rota.store.port import Roster, ShardStore

log = logging.getLogger(__name__)

RENEW_SHARE = 4
"""Renewals in one term."""

REST_FIRST_S = 60.0
REST_MAX_S = 3_600.0
"""After it has resigned a coordinator comes back when this is over, each time twice as long."""

AGAIN_S = 2 * BACKOFF_MAX_S
"""What kept a term from being renewed kept other duties as well. They are tried again within half of this."""

EXPIRY_MARGIN_S = 0.05
"""So long after another's term its shards are looked for."""


class Ownership(Loop):
    name = "ownership"

    def __init__(
        self,
        memory: Memory,
        shards: ShardStore,
        coordinator: CoordinatorId,
        clock: Clock,
        database_clock: DatabaseClock,
        peers: Peers,
        *,
        address: str,
        peer_address: str,
        version: str,
        term_s: float,
        on_acquired: Callable[[Sequence[ShardNo]], Awaitable[None]],
    ) -> None:
        super().__init__(clock)
        self._memory = memory
        self._shards = shards
        self._coordinator = coordinator
        self._database_clock = database_clock
        self._peers = peers
        self._address = address
        self._peer_address = peer_address
        self._version = version
        self._term_s = term_s
        self._on_acquired = on_acquired
        self._trusted_until = 0.0
        self._incarnation = ""
        self._clock_went_back = False
        database_clock.on_step.append(self._clock_stepped)
        self._leaving = False
        self.undone: Callable[[], Sequence[str]] = tuple
        """Names the duties of this coordinator that are not done."""

        self._resting_until: float | None = None
        self._rest_s = REST_FIRST_S
        self._returned_at = 0.0
        self._started_over_at = float("-inf")
        self._renewals = 0
        self._turn = asyncio.Lock()
        """Steps and take-overs never mix. Nobody waits for a peer within it, who may wait for this one."""

    async def register(self) -> bool:
        """Announces this coordinator; True when no other one is alive."""
        sent_at = self.clock.monotonic()
        alone = await self._shards.register(
            self._coordinator, self._address, self._version, self._term_s, self._peer_address
        )
        self._trust(sent_at)
        return alone

    def trusted(self) -> bool:
        """Whether acting for the shards makes sense now."""
        return self.clock.monotonic() < self._trusted_until

    async def step(self) -> float:
        async with self._turn:
            roster = await self._step()
            plan = {peer: count for peer, count in self._plan(roster).items() if self._peers.can_be_given(peer)}
            count = sum(plan.values()) if self._resting_until is None else len(self._memory.terms)
            given = await self._give_up(count) if count else []
        await self._offer(given, plan)
        others = [each.expires_in_s for each in roster.living if each.id != self._coordinator]
        return min([self._term_s / RENEW_SHARE, *(left_s + EXPIRY_MARGIN_S for left_s in others)])

    async def take_over(self, shards: Sequence[ShardNo]) -> list[ShardNo]:
        """Acquires shards that a peer has given up; those that it got."""
        async with self._turn:
            if self._leaving or self._resting_until is not None or not self.trusted():
                return []
            taken = {term.shard: term for term in await self._shards.acquire(self._coordinator, len(shards), shards)}
            await self._begin(taken)
            return sorted(taken)

    async def leave(self) -> None:
        """Gives every shard back, each under a new epoch, and offers it to a peer."""
        async with self._turn:
            self._leaving = True
            self._trusted_until = 0.0
            mine = sorted(self._memory.terms)
            self._memory.forget_shards(frozenset(mine))
            plan: dict[CoordinatorId, int] = {}
            if self._peers:
                # An empty share is as good as none: without the plan, what is free is taken a moment later.
                with suppress(Unavailable):
                    await self._shards.drain(self._coordinator)
                    plan = self._plan(await self._shards.roster())
            await self._shards.release(self._coordinator)
        await self._offer(mine, plan)

    async def _step(self) -> Roster:
        sent_at = self.clock.monotonic()
        alive, now = await self._shards.renew(self._coordinator, self._term_s)
        self._database_clock.observe(now, sent_at)
        if self._clock_went_back:
            # Whoever died before it would live on for as long as it went back, and its shards with nobody.
            await self._shards.shorten(self._term_s)
            self._clock_went_back = False
        roster = await self._shards.roster()
        if self._is_another(roster.incarnation):
            self._memory.on_other_database()
            await self._start_over(
                "the database is another one than before, a promoted standby or a restored backup, and may have "
                "forgotten what was committed last"
            )
            roster = await self._shards.roster()
        elif not alive:
            await self._start_over("the term ran out before it was renewed")
            roster = await self._shards.roster()
        else:
            self._trust(sent_at)
        self._incarnation = roster.incarnation or self._incarnation
        roster = await self._rest_if_unfit(roster)
        if self._resting_until is None:
            roster = await self._take_share(roster)
        await self._follow(roster)
        if self._renewals % RENEW_SHARE == 0:
            # Whoever changed them has told; this is for what was not heard.
            self._memory.on_queues()
        self._renewals += 1
        # A timer may be due already by the clock just read, and claims that waited for trust can go on.
        self._memory.release_due()
        self._memory.on_ready()
        return roster

    async def _rest_if_unfit(self, roster: Roster) -> Roster:
        """Resigns where duties are not done and others are there, and comes back later, or once nobody else is there;
        the roster after it."""
        now = self.clock.monotonic()
        others = any(each.id != self._coordinator and not each.draining for each in roster.living)
        undone = self.undone()
        if self._resting_until is None:
            if not undone or not others or now - self._started_over_at < AGAIN_S:
                return roster
            if now - self._returned_at > REST_MAX_S:
                self._rest_s = REST_FIRST_S
            log.error(
                "no progress of: %s; giving all %d shards up to other coordinators, for %g s or longer",
                ", ".join(undone),
                len(self._memory.terms),
                self._rest_s,
            )
            await self._shards.drain(self._coordinator)
            self._resting_until = now + self._rest_s
            self._rest_s = min(self._rest_s * 2, REST_MAX_S)
        elif not others or (now >= self._resting_until and not undone):
            log.warning("taking shards again")
            self._resting_until = None
            self._returned_at = now
            await self._shards.release(self._coordinator)
            await self.register()
        else:
            return roster
        return await self._shards.roster()

    async def _take_share(self, roster: Roster) -> Roster:
        """Acquires what is free, up to the own share; the roster after it."""
        living = {each.id for each in roster.living}
        free = sum(owner not in living for _, owner in roster.shards.values())
        missing = _shares(roster).get(self._coordinator, 0) - _owned(roster).get(self._coordinator, 0)
        if not free or missing <= 0:
            return roster
        await self._shards.acquire(self._coordinator, min(free, missing))
        return await self._shards.roster()

    async def _follow(self, roster: Roster) -> None:
        # What is owned is read, not remembered: an acquisition may have committed although its answer was lost, or
        # what came after it failed. Its shards would have a living owner that does not know of them.
        owned = {
            shard: ShardTerm(shard, epoch, self._coordinator)
            for shard, (epoch, owner) in roster.shards.items()
            if owner == self._coordinator
        }
        lost = frozenset(shard for shard, term in self._memory.terms.items() if owned.get(shard) != term)
        if lost:
            log.warning("%d shards are no longer this coordinator's", len(lost))
            self._memory.forget_shards(lost)
        living = {each.id for each in roster.living}
        owners = {shard: owner for shard, (_, owner) in roster.shards.items() if owner in living and owner is not None}
        self._peers.follow(roster.living, len(roster.shards), owners)
        await self._begin({shard: owned[shard] for shard in sorted(owned.keys() - self._memory.terms.keys())})

    async def _begin(self, fresh: Mapping[ShardNo, ShardTerm]) -> None:
        if fresh:
            log.info("acquired %d shards", len(fresh))
            await self._on_acquired(list(fresh))
            self._memory.terms |= fresh

    async def _give_up(self, count: int) -> list[ShardNo]:
        giving = sorted(self._memory.terms)[-count:]
        self._memory.forget_shards(frozenset(giving))
        return await self._shards.give_up(self._coordinator, giving)

    def _plan(self, roster: Roster) -> dict[CoordinatorId, int]:
        return balance.gifts(_owned(roster), _shares(roster), self._coordinator)

    async def _offer(self, shards: Sequence[ShardNo], plan: Mapping[CoordinatorId, int]) -> None:
        """Tells who is to have which of these shards, which are free. One that is not told finds them by itself."""
        left = list(shards)
        offers = []
        for peer, count in plan.items():
            theirs, left = left[:count], left[count:]
            if theirs:
                offers.append(self._offer_to(peer, theirs))
        await asyncio.gather(*offers)

    async def _offer_to(self, peer: CoordinatorId, shards: Sequence[ShardNo]) -> None:
        try:
            taken = await self._peers.hand_over(peer, shards)
        except Unavailable as error:
            log.info("coordinator %s cannot be told of %d shards that are free: %s", peer, len(shards), error)
        else:
            log.info("handed %d of %d shards over to coordinator %s", len(taken), len(shards), peer)

    def _clock_stepped(self, step_s: float) -> None:
        self._clock_went_back |= step_s < 0

    def _is_another(self, incarnation: str) -> bool:
        return bool(incarnation and self._incarnation) and incarnation != self._incarnation

    async def _start_over(self, why: str) -> None:
        # Anything may have happened to the shards. Fences of the old epochs stay valid for the leases that carry them;
        # new ones come from new epochs.
        log.warning("%s: starting over with new epochs", why)
        self._trusted_until = 0.0
        self._started_over_at = self.clock.monotonic()
        self._memory.forget_shards(frozenset(self._memory.terms))
        await self._shards.release(self._coordinator)
        await self.register()
        if self._resting_until is not None:
            # Or the others would leave it a share, which it does not take.
            await self._shards.drain(self._coordinator)

    def _trust(self, sent_at: float) -> None:
        self._trusted_until = sent_at + self._term_s * 2 / 3


def _shares(roster: Roster) -> dict[CoordinatorId, int]:
    return balance.shares((each.id for each in roster.living if not each.draining), len(roster.shards))


def _owned(roster: Roster) -> dict[CoordinatorId, int]:
    """How many shards each living coordinator owns."""
    owned = {each.id: 0 for each in roster.living}
    for _, owner in roster.shards.values():
        if owner in owned:
            owned[owner] += 1
    return owned
