"""What lies between the coordinators of a world: links that carry their news, and calls beside them.

A link is a connection. What is told on it arrives in order or not at all: what was on its way when it broke is lost. It
breaks by chance, with the process at either end, and when the peer has stood still for so long that pings are not
answered; and each end learns of that in its own time. Then it is opened again, for ever.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from copy import copy
from typing import TYPE_CHECKING

from rota.coordinator.news import Claimed, ClaimWish, News
from rota.domain.errors import OutcomeUnknown, Unavailable
from rota.domain.ids import CoordinatorId, ShardNo

from .faults import Faults
from .history import History
from .loop import Process, SimLoop
from .wire import Network, NoAnswer

if TYPE_CHECKING:
    from rota.coordinator.node import Node

    from .coordinator import Coordinator

OPEN_S = 2.0
CLAIM_S = 1.0
HAND_OVER_S = 2.0
PING_S = 2.0
"""A peer that has not moved at two looks in a row, so long apart, is given up."""

RETRY_MOST_S = 1.0
UNREAD_MAX = 16
"""Fewer than in earnest, so that some have to wait."""


class Peering:
    """All links of a world."""

    def __init__(self, seed: str, loop: SimLoop, network: Network, faults: Faults, history: History) -> None:
        self.loop = loop
        self.network = network
        self.faults = faults
        self.history = history
        self.rng = random.Random(f"links/{seed}")
        self.coordinators: Sequence[Coordinator] = ()
        self.heard: dict[tuple[CoordinatorId, CoordinatorId], _Link] = {}
        """By callee and caller: the newest."""
        self._links: list[_Link] = []

    def dial(self, process: Process, me: CoordinatorId) -> "Dialling":
        return Dialling(self, process, me)

    def add(self, link: "_Link") -> None:
        self._links = [known for known in self._links if not known.broken] + [link]

    def end(self, process: Process, told: bool = True) -> None:
        """A process is gone. Its machine may say so to those at the other ends, or be gone as well."""
        for link in self._links:
            if process in (link.client, link.server):
                link.break_off(0.005 if told else 2 * PING_S)

    def at(self, address: str) -> "Coordinator":
        return next(each for each in self.coordinators if each.name == address)


class Dialling:
    """Dial of one process."""

    def __init__(self, peering: Peering, process: Process, me: CoordinatorId) -> None:
        self.peering = peering
        self.process = process
        self.me = me

    def __call__(
        self, peer: CoordinatorId, address: str, *, on_open: Callable[[], None], on_room: Callable[[], None]
    ) -> "Way":
        return Way(self, peer, self.peering.at(address), on_open, on_room)


class Way:
    """Wire. `server`: who is dialled, whatever process listens there."""

    def __init__(
        self,
        dialling: Dialling,
        peer: CoordinatorId,
        server: "Coordinator",
        on_open: Callable[[], None],
        on_room: Callable[[], None],
    ) -> None:
        self.me = dialling.me
        self.process = dialling.process
        self.on_room = on_room
        self._peering = dialling.peering
        self._peer = peer
        self._server = server
        self._on_open = on_open
        self._link: _Link | None = None
        self._task = self.process.spawn(self._keep_open(), name=f"link to {peer[-6:]}")

    @property
    def ends(self) -> tuple[str, str]:
        return self.process.name.partition(".")[0], self._server.name

    def send(self, news: News) -> bool:
        return self._link is not None and self._link.send(news)

    async def claim(self, wish: ClaimWish) -> Claimed:
        found: Claimed = await self._call("claim_for", CLAIM_S, wish=wish)
        return Claimed([copy(grant) for grant in found.grants], found.left)

    async def hand_over(self, shards: Sequence[ShardNo]) -> list[ShardNo]:
        taken: list[ShardNo] = await self._call("take_over", HAND_OVER_S, caller=self.me, shards=tuple(shards))
        return taken

    async def close(self) -> None:
        self._task.cancel()
        if self._link is not None:
            self._link.hang_up()
            self._link = None

    async def _call(self, method: str, timeout_s: float, **request: object) -> object:
        if self._link is None:
            raise Unavailable(f"{self._server.name} is not connected")
        if self.ends[0] in self._peering.faults.unreachable:
            await asyncio.sleep(timeout_s)
            raise OutcomeUnknown(f"{self._server.name} did not answer")
        try:
            return await self._peering.network.call(
                self._server, method, timeout_s, copies_max=1, callee=self._peer, **request
            )
        except NoAnswer:
            raise OutcomeUnknown(f"{self._server.name} did not answer") from None

    async def _keep_open(self) -> None:
        rng = self._peering.rng
        while True:
            link = await self._open()
            if link is not None:
                self._link = link
                self._peering.history.note("linked", by=self.process, to=link.server)
                self._on_open()
                await link.watch()
                self._link = None
                self._peering.history.note("unlinked", by=self.process, to=link.server)
            await asyncio.sleep(rng.uniform(0.02, RETRY_MOST_S))

    async def _open(self) -> "_Link | None":
        """A hello and its answer; None: nobody answers, or another one than was meant."""
        loop, faults = self._peering.loop, self._peering.faults
        answer: asyncio.Future[_Link | None] = loop.create_future()
        there_s = faults.link_delay_s(*self.ends)
        if there_s is not None:
            loop.call_later(there_s, self._greet, answer, context=loop.outside)
        try:
            async with asyncio.timeout(OPEN_S):
                return await answer
        except TimeoutError:
            return None

    def _greet(self, answer: "asyncio.Future[_Link | None]") -> None:
        process, node = self._server.process, self._server.node
        if process is None or node is None:
            _settle(answer, None)
            return
        process.call_soon(self._listen, answer, process, node)

    def _listen(self, answer: "asyncio.Future[_Link | None]", process: Process, node: "Node") -> None:
        """In the process that is called."""
        loop, faults = self._peering.loop, self._peering.faults
        link = None
        if node.id == self._peer:
            link = _Link(self, self._peering, process, node)
        back_s = faults.link_delay_s(*self.ends)
        if back_s is not None and not answer.done():
            loop.call_later(back_s, _settle, answer, link, context=loop.outside)
        elif link is not None:
            link.break_off(PING_S)


class _Link:
    """One connection: `client` tells, `server` hears."""

    def __init__(self, way: Way, peering: Peering, server: Process, node: "Node") -> None:
        self.client = way.process
        self.server = server
        self.broken = False
        self._way = way
        self._peering = peering
        self._node = node
        self._on_its_way: deque[News] = deque()
        self._arrived: deque[News] = deque()
        self._unread = 0
        self._refused = False
        self._over = asyncio.Event()
        self._deaf = False
        self._heard_as = (node.id, way.me)
        peering.heard[self._heard_as] = self
        peering.add(self)
        self._token = node.peers.listening(way.me)

    def send(self, news: News) -> bool:
        if self._over.is_set():
            return False
        if self._unread >= UNREAD_MAX:
            self._refused = True
            return False
        self._unread += 1
        if self.broken:
            # Nobody has noticed yet.
            return True
        delay_s = self._peering.faults.link_delay_s(*self._way.ends)
        if delay_s is None:
            self.break_off(2 * PING_S)
        else:
            self._on_its_way.append(news)
            self._peering.loop.call_later(delay_s, self._arrive, context=self._peering.loop.outside)
        return True

    async def watch(self) -> None:
        """Until the client knows that it is broken."""
        missed = 0
        while not self._over.is_set():
            waiter = asyncio.ensure_future(self._over.wait())
            await asyncio.wait({waiter}, timeout=PING_S)
            waiter.cancel()
            missed = missed + 1 if self.server.stopped else 0
            if missed == 2:
                self.break_off(0.0)
                self._over.set()

    def break_off(self, noticed_s: float) -> None:
        """What is on its way is lost. Each end notices within so long."""
        if self.broken:
            return
        self.broken = True
        self._on_its_way.clear()
        rng = self._peering.rng
        self.client.call_later(rng.uniform(0.0, noticed_s), self._over.set)
        self.server.call_later(rng.uniform(0.0, noticed_s), self._end)

    def hang_up(self) -> None:
        """The client closes it in order: what it has said arrives."""
        if not self.broken:
            self.broken = True
            self._arrived += self._on_its_way
            self._on_its_way.clear()
            self.server.call_later(self._peering.rng.uniform(0.001, 0.02), self._end)

    def _arrive(self) -> None:
        if self._on_its_way:
            self._arrived.append(self._on_its_way.popleft())
            self.server.call_soon(self._read)

    def _read(self) -> None:
        """In the server's process, when it gets to it."""
        if not self._arrived or self._deaf:
            return
        if self._peering.heard.get(self._heard_as) is not self:
            # Hellos of two links may arrive in any order. What is told on the one that seems older is refused.
            self.break_off(0.01)
            return
        self._node.peers.hear(self._way.me, self._arrived.popleft())
        delay_s = self._peering.faults.link_delay_s(*self._way.ends)
        if delay_s is None:
            self.break_off(2 * PING_S)
        else:
            self.client.call_later(delay_s, self._acknowledge)

    def _acknowledge(self) -> None:
        self._unread -= 1
        if self._refused and not self._over.is_set():
            self._refused = False
            self._way.on_room()

    def _end(self) -> None:
        """In the server's process."""
        for _ in range(len(self._arrived)):
            self._read()
        self._deaf = True
        self._node.peers.deaf(self._way.me, self._token)


def _settle(answer: "asyncio.Future[_Link | None]", link: "_Link | None") -> None:
    if not answer.done():
        answer.set_result(link)
    elif link is not None:
        link.break_off(PING_S)
