"""What is done with the news of peers, and with their claims: the ear of `Peers`."""

from collections.abc import Sequence

from rota.coordinator.attendance import Attendance
from rota.coordinator.demand import Demands
from rota.coordinator.dispatcher import Dispatcher
from rota.coordinator.gates import Gates
from rota.coordinator.memory import Memory
from rota.coordinator.news import Claimed, ClaimWish, News, Order
from rota.coordinator.offers import Offers
from rota.coordinator.ownership import Ownership
from rota.coordinator.reaper import Reaper
from rota.domain.ids import CoordinatorId, ShardNo
from rota.domain.model import DirectiveKind


class Forwarding:
    """Implements `peers.Hearing`."""

    def __init__(
        self,
        memory: Memory,
        demands: Demands,
        offers: Offers,
        dispatcher: Dispatcher,
        attendance: Attendance,
        ownership: Ownership,
        reaper: Reaper,
        gates: Gates,
    ) -> None:
        self._memory = memory
        self._gates = gates
        self._demands = demands
        self._offers = offers
        self._dispatcher = dispatcher
        self._attendance = attendance
        self._ownership = ownership
        self._reaper = reaper

    def heard(self, peer: CoordinatorId, news: News) -> None:
        for lease in news.settled:
            self._memory.forget_lease(lease.job_id, lease.fence)
            self._memory.job_finished(lease.job_id)
        for lease in news.proven:
            flight = self._memory.in_flight.get(lease.job_id)
            if flight is not None and flight.fence == lease.fence:
                flight.proven = True
        if news.waiting:
            self._memory.take_waiting(news.waiting, peer)
        if news.sessions_ended:
            self._reaper.sessions_ended(news.sessions_ended)
        for order in news.orders:
            self._pass_on(peer, order)
        for holding in news.holdings:
            self._reaper.give_back(self._attendance.missing(holding))
        if news.demands:
            self._offers.hear(peer, news.demands.values())
        if news.offers and self._demands.hear(peer, news.offers.values()):
            self._dispatcher.pump()
        if news.freed:
            self._gates.freed(news.freed)
        if news.armed:
            self._memory.on_armed()
        if news.queues_changed:
            self._memory.on_queues()

    def tell_all(self, peer: CoordinatorId) -> None:
        self._demands.tell_all(peer)

    def gone(self, peer: CoordinatorId) -> None:
        self._demands.forget(peer)
        self._offers.forget(peer)
        # Where it has left, its shards have other owners by now.
        self._ownership.wake()

    async def claim_for(self, wish: ClaimWish) -> Claimed:
        wants = self._offers.wants(wish.caller, wish.demand_ids)
        if wants is None or wants.tenant_id != wish.tenant_id:
            # Its link has ended meanwhile, and with it its demands.
            return Claimed([])
        grants = await self._dispatcher.claim_for(wish, wants)
        return Claimed(grants, self._offers.left(wish.caller, wish.demand_ids))

    async def take_over(self, shards: Sequence[ShardNo]) -> list[ShardNo]:
        return await self._ownership.take_over(shards)

    def met(self) -> None:
        self._ownership.wake()

    def _pass_on(self, peer: CoordinatorId, order: Order) -> None:
        member = self._memory.members.get(order.session_id)
        if member is None:
            return
        member.direct(order.kind, order.job_id, order.fence, order.reason)
        if order.kind is DirectiveKind.RESYNC:
            member.asked_by[peer] = None
