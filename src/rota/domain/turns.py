"""Whose turn it is: weighted fair order over any number of contenders.

Start-time fair queueing. Each contender has a tag, which grows by what it was given divided by its weight, and the
lowest tag is next. The clock of the turns is the lowest tag of those that are awake: who comes back from idling starts
there, so that idling earns nothing, and keeps its own tag if that is higher, so that coming and going earns nothing
either. Over any span in which two contenders are awake, what they are given in proportion to their weights differs by
one gift of each at most.
"""

import heapq
from typing import Generic, TypeVar

UNIT = 1 << 32
"""What one job adds to the tag of a contender of weight 1."""

RESTING_MAX = 10_000
"""Contenders remembered that have nothing; beyond it those with the lowest tags are forgotten."""


class Contender:
    """One that takes turns. `awake`: there may be something to give to it."""

    __slots__ = ("awake", "listed", "resting", "tag", "weight")

    def __init__(self, weight: int) -> None:
        self.weight = weight
        self.tag = 0
        self.awake = False
        self.listed = False
        self.resting = False


C = TypeVar("C", bound=Contender)


class Turns(Generic[C]):
    """The contenders that are awake, by their tags. Each call costs O(log n). `spare`: so many that rest are kept
    whatever their tags say, since those that come and go do so often."""

    __slots__ = ("_heap", "_highest", "_now", "_resting", "_serial", "_spare")

    def __init__(self, spare: int = 0) -> None:
        self._spare = spare
        self._heap: list[tuple[int, int, C]] = []
        self._resting: list[tuple[int, int, C]] = []
        self._serial = 0
        self._now = 0
        self._highest = 0

    def first(self) -> C | None:
        """Whose turn it is. It stays so until it is charged or sent to sleep."""
        heap = self._heap
        while heap:
            tag, _, contender = heap[0]
            if not contender.awake:
                heapq.heappop(heap)
                contender.listed = False
            elif tag != contender.tag:
                # Charged since it was listed; behind those of the same tag, which have waited longer.
                self._serial += 1
                heapq.heapreplace(heap, (contender.tag, self._serial, contender))
            else:
                self._now = max(self._now, tag)
                return contender
        # Nobody was refused anything, so nothing is owed to anybody.
        self._now = self._highest
        return None

    def wake(self, contender: C) -> None:
        if contender.awake:
            return
        self.first()
        contender.awake = True
        contender.tag = max(contender.tag, self._now)
        if not contender.listed:
            contender.listed = True
            self._serial += 1
            heapq.heappush(self._heap, (contender.tag, self._serial, contender))

    def sleep(self, contender: C) -> None:
        contender.awake = False

    def charge(self, contender: C, count: int) -> None:
        contender.tag += count * UNIT // contender.weight
        self._highest = max(self._highest, contender.tag)

    def reweigh(self, contender: C, weight: int) -> None:
        """Changes a weight at once, for what was given already too. `sort` must follow."""
        ahead = contender.tag - self._now
        if ahead > 0:
            contender.tag = self._now + ahead * contender.weight // weight
            self._highest = max(self._highest, contender.tag)
        contender.weight = weight

    def sort(self) -> None:
        """After a change of weights, by which tags may have become lower."""
        self._heap = [(item[2].tag, item[1], item[2]) for item in self._heap]
        heapq.heapify(self._heap)

    def retire(self, contender: C) -> list[C]:
        """One has nothing left. Answers with those that have retired and may be forgotten: their tags say nothing any
        more."""
        contender.awake = False
        self.first()
        resting = self._resting
        if not contender.resting:
            self._rest(contender)
        forgotten: list[C] = []
        while len(resting) > self._spare and (resting[0][0] <= self._now or len(resting) > RESTING_MAX):
            other = heapq.heappop(resting)[2]
            other.resting = False
            if other.awake:
                continue
            if other.tag > self._now and len(resting) < RESTING_MAX:
                # It came back since, was given something, and retired again.
                self._rest(other)
            else:
                forgotten.append(other)
        return forgotten

    def _rest(self, contender: C) -> None:
        contender.resting = True
        self._serial += 1
        heapq.heappush(self._resting, (contender.tag, self._serial, contender))
