"""When an owner counts as cut off from all whom it could serve."""

from rota.coordinator.contact import LOST, Contact
from rota.domain.ids import CoordinatorId

from .fakes import PEER, World, session

PATIENCE_S = 12.0


class Hearing:
    """Does nothing about what it hears."""

    def tell_all(self, peer: CoordinatorId) -> None: ...

    def gone(self, peer: CoordinatorId) -> None: ...


class Scene(World):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.peers.hearing = Hearing()  # type: ignore[assignment]
        self.contact = Contact(self.memory.members, self.peers, self.clock, PATIENCE_S)

    def undone_after(self, seconds: float) -> list[str]:
        """Asked every 2 s, as at each renewal."""
        until = self.clock.now + seconds
        while self.clock.now < until:
            self.clock.now += min(2.0, until - self.clock.now)
            found = self.contact.undone()
        return found


async def test_one_that_is_alone_is_not_cut_off() -> None:
    assert Scene().undone_after(60.0) == []


async def test_one_that_hears_neither_peers_nor_workers_is_cut_off_after_a_while() -> None:
    scene = Scene()
    scene.meet(4)
    assert scene.undone_after(PATIENCE_S) == []
    assert scene.undone_after(2.0) == [LOST]
    scene.peers.listening(PEER)
    assert scene.undone_after(2.0) == []


async def test_a_peer_that_is_heard_is_contact_and_one_that_went_deaf_is_none() -> None:
    scene = Scene()
    scene.meet(4)
    link = scene.peers.listening(PEER)
    assert scene.undone_after(60.0) == []
    scene.peers.deaf(PEER, link)
    assert scene.undone_after(PATIENCE_S) == []
    assert scene.undone_after(2.0) == [LOST]


async def test_a_worker_that_polls_or_beats_is_contact() -> None:
    scene = Scene()
    scene.meet(4)
    member = scene.memory.members.add(session(), "tenant", 1, scene.clock.now)
    for _ in range(5):
        member.last_beat_at = scene.clock.now
        assert scene.undone_after(PATIENCE_S - 2) == []
    assert scene.undone_after(2 * PATIENCE_S + 2) == [LOST]


async def test_one_that_stood_still_could_hear_nobody_and_is_not_cut_off() -> None:
    """As a process that was paused, or a machine that slept: its links have ended, and are made again in a moment."""
    scene = Scene()
    scene.meet(4)
    link = scene.peers.listening(PEER)
    assert scene.undone_after(10.0) == []
    scene.clock.now += 3 * PATIENCE_S
    scene.peers.deaf(PEER, link)
    assert scene.contact.undone() == []
    # It has as long as anybody to hear them again, and no longer.
    assert scene.undone_after(PATIENCE_S) == []
    assert scene.undone_after(2.0) == [LOST]
