"""One queue of a tenant, as far as it is in memory: its lanes, and views of them in the order of their jobs."""

import heapq
from collections.abc import Iterator, Set

from rota.domain.ids import TenantId
from rota.domain.lane import Lane, LaneKey, Waiting
from rota.domain.turns import Contender

VIEWS_MAX = 32
"""Views of one queue: sets of types that its workers take. Beyond it they are made anew and again."""

_STALE_MAX = 64

Listed = tuple[float, str, Lane, Waiting]


class View:
    """The lanes of a set of types, by their first jobs. A lane is listed under its first job or one that was before;
    that is put right when it comes up, so that taking through one view leaves the others alone."""

    __slots__ = ("heap", "listed", "types")

    def __init__(self, types: frozenset[str]) -> None:
        self.types = types
        self.heap: list[Listed] = []
        self.listed: dict[Lane, Listed] = {}

    def add(self, lane: Lane, lanes: int) -> None:
        """Notes a lane's new first job. `lanes`: how many there are, to tell how much here is stale."""
        head = lane.heap[0]
        item = (head[0], head[1], lane, head)
        self.listed[lane] = item
        if len(self.heap) > 2 * lanes + _STALE_MAX:
            self.listed = {lane: item for lane, item in self.listed.items() if lane.heap}
            self.heap = list(self.listed.values())
            heapq.heapify(self.heap)
        else:
            heapq.heappush(self.heap, item)

    def first(self) -> Lane | None:
        """The lane whose first job is the best of all."""
        heap = self.heap
        while heap:
            item = heap[0]
            lane = item[2]
            if self.listed.get(lane) is not item:
                heapq.heappop(heap)
            elif not lane.heap:
                self.drop_first()
            elif lane.heap[0] is not item[3]:
                head = lane.heap[0]
                item = (head[0], head[1], lane, head)
                self.listed[lane] = item
                heapq.heapreplace(heap, item)
            else:
                return lane
        return None

    def drop_first(self) -> None:
        """Takes the first lane out, until it is listed again."""
        del self.listed[heapq.heappop(self.heap)[2]]


class Backlog(Contender):
    """`closed_keys` are the concurrency keys that give nothing at present."""

    __slots__ = ("closed", "closed_keys", "key_lanes", "lanes", "lanes_count", "queue", "tenant_id", "views")

    def __init__(self, tenant_id: TenantId, queue: str, weight: int, closed: bool, closed_keys: Set[str]) -> None:
        super().__init__(weight)
        self.tenant_id = tenant_id
        self.queue = queue
        self.closed = closed
        self.closed_keys = closed_keys
        self.lanes: dict[str, Lane] = {}
        self.key_lanes: dict[str, dict[str, Lane]] = {}
        """By concurrency key, then by type: the lanes of keys that were closed since they last had no job."""
        self.lanes_count = 0
        self.views: dict[frozenset[str], View] = {}

    def lane(self, type: str, key: str) -> Lane | None:
        if key:
            of_key = self.key_lanes.get(key)
            return None if of_key is None else of_key.get(type)
        return self.lanes.get(type)

    def lane_of_job(self, type: str, key: str) -> tuple[Lane | None, str]:
        """Where a job belongs, and the concurrency key that its lane has or is to have."""
        if key and (key in self.closed_keys or key in self.key_lanes):
            return self.lane(type, key), key
        return self.lanes.get(type), ""

    def add_lane(self, type: str, key: str, entries_max: int, given: int) -> Lane:
        lane = Lane(LaneKey(self.tenant_id, self.queue, type, key), entries_max, given)
        if key:
            self.key_lanes.setdefault(key, {})[type] = lane
        else:
            self.lanes[type] = lane
        self.lanes_count += 1
        return lane

    def drop_lane(self, key: LaneKey) -> None:
        if key.concurrency_key:
            of_key = self.key_lanes[key.concurrency_key]
            del of_key[key.type]
            if not of_key:
                del self.key_lanes[key.concurrency_key]
        else:
            del self.lanes[key.type]
        self.lanes_count -= 1

    def all_lanes(self) -> Iterator[Lane]:
        yield from self.lanes.values()
        for of_key in self.key_lanes.values():
            yield from of_key.values()

    def view(self, types: frozenset[str]) -> View:
        """The lanes of these types, or of all when there are none."""
        view = self.views.get(types)
        if view is None:
            if len(self.views) >= VIEWS_MAX:
                del self.views[next(iter(self.views))]
            view = self.views[types] = View(types)
            for lane in self.all_lanes():
                if lane.heap and (not types or lane.key.type in types) and self.is_open(lane):
                    view.add(lane, self.lanes_count)
        return view

    def show(self, lane: Lane) -> None:
        """Lists a lane that has a new first job, or has opened, in every view of it."""
        for view in self.views.values():
            if not view.types or lane.key.type in view.types:
                view.add(lane, self.lanes_count)

    def is_open(self, lane: Lane) -> bool:
        return not lane.key.concurrency_key or lane.key.concurrency_key not in self.closed_keys

    def count(self, types: frozenset[str], most: int) -> int:
        """How many jobs of open keys there are, counted up to `most`."""
        found = 0
        for lane in self._lanes_of(self.lanes, types):
            found += len(lane.heap)
            if self.closed_keys and lane.keyed:
                found -= sum(count for key, count in lane.keyed.items() if key in self.closed_keys)
            if found >= most:
                return most
        for key, of_key in self.key_lanes.items():
            if key not in self.closed_keys:
                found += sum(len(lane.heap) for lane in self._lanes_of(of_key, types))
                if found >= most:
                    return most
        return found

    @staticmethod
    def _lanes_of(lanes: dict[str, Lane], types: frozenset[str]) -> Iterator[Lane]:
        if not types:
            yield from lanes.values()
        elif len(types) < len(lanes):
            yield from (lanes[type] for type in types if type in lanes)
        else:
            yield from (lane for type, lane in lanes.items() if type in types)
