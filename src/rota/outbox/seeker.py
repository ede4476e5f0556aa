"""Where a relay finds rows: new ones ahead, and in passes over what lies behind.

A look at new rows reads on from the last row seen, and costs nothing when there are none. What it leaves behind is
found by passes: rows that were committed after ones with a higher number, rows that were given back, rows of relays
that died, and the first rows of keys. A pass that takes long, since much waits or a long transaction keeps deleted rows
in the index, is made less often; looks at new rows are not concerned.
"""

from dataclasses import dataclass

from rota.clock import Clock
from rota.outbox.limits import PASS_EVERY_S, PASS_SHARE, POLL_BUSY_S, ROW_OVERHEAD_BYTES
from rota.outbox.table import Found, Item, Kind, Table, batches
from rota.outbox.wish import Parcel


@dataclass(slots=True)
class Room:
    """How much more may be claimed."""

    rows: int
    bytes: int

    def take(self, items: list[Item]) -> list[Item]:
        """As many from the first on as fit; one in any case, while there is room for a row."""
        for count, item in enumerate(items):
            rows, bytes = self.rows - item.size, self.bytes - item.bytes - ROW_OVERHEAD_BYTES * item.size
            if self.rows <= 0 or (count and (rows < 0 or bytes < 0)):
                return items[:count]
            self.rows, self.bytes = rows, bytes
        return items

    def half(self) -> "Room":
        return Room((self.rows + 1) // 2, self.bytes // 2)


class Seeker:
    """Finds and claims. All its methods raise RotaError, and may be called again after it."""

    def __init__(self, table: Table, clock: Clock, poll_s: float) -> None:
        self._table = table
        self._clock = clock
        self._poll_most_s = poll_s
        self._poll_least_s = min(POLL_BUSY_S, poll_s)
        self._poll_s = self._poll_least_s
        self._next_look = 0.0
        self._watermark = 0
        self._published: dict[str, int] = {}
        # The pass: of rows without a key up to here; then of keys up to here; None: not under way.
        self._next_pass = 0.0
        self._pass_took_s = 0.0
        self._pass_upto = 0
        self._behind: int | None = None
        self._keys: str | None = None

    @property
    def next_at(self) -> float:
        """When there is something to seek, by the monotonic clock."""
        if self._published or self._behind is not None or self._keys is not None:
            return 0.0
        return min(self._next_look, self._next_pass)

    def published(self, key: str, seq: int) -> None:
        """A row of a key is deleted: what follows it may be sent."""
        self._published[key] = seq

    def hurry(self) -> None:
        """Rota answers again: what was given back meanwhile need not wait."""
        self._next_pass = self._next_look = 0.0

    async def seek(self, room: Room) -> list[Parcel]:
        """One page of each kind of look that is due."""
        claimed = await self._follow(room)
        if room.rows > 0:
            claimed += await self._pass(room)
        if room.rows > 0 and self._clock.monotonic() >= self._next_look:
            claimed += await self._look(room)
        return claimed

    async def _follow(self, room: Room) -> list[Parcel]:
        """They take the place of what is published, so there is room for them."""
        if not self._published:
            return []
        published = dict(self._published)
        seqs = await self._table.look_next(published)
        claimed = await self._table.claim_alone(seqs) if seqs else []
        room.rows -= len(claimed)
        room.bytes -= sum(parcel.bytes for parcel in claimed)
        for key in published:
            del self._published[key]
        return claimed

    async def _look(self, room: Room) -> list[Parcel]:
        found = await self._table.look_new(self._watermark)
        chosen = room.take(list(found.items))
        claimed = await self._claim(chosen)
        cut = len(chosen) < len(found.items)
        self._watermark = _reached(found, chosen)
        if cut or not found.all_read:
            self._next_look = 0.0
            return claimed
        # What was found to be free and claimed by another is no sign of work.
        self._poll_s = self._poll_least_s if claimed else min(self._poll_s * 2, self._poll_most_s)
        self._next_look = self._clock.monotonic() + self._poll_s
        return claimed

    async def _pass(self, room: Room) -> list[Parcel]:
        began = self._clock.monotonic()
        if self._behind is None and self._keys is None:
            if began < self._next_pass:
                return []
            self._behind, self._pass_upto, self._pass_took_s = 0, self._watermark, 0.0
        # New rows must not wait for old ones.
        half = room.half()
        had = Room(half.rows, half.bytes)
        claimed = await (self._page_of_rows(half) if self._behind is not None else self._page_of_keys(half))
        room.rows -= had.rows - half.rows
        room.bytes -= had.bytes - half.bytes
        now = self._clock.monotonic()
        self._pass_took_s += now - began
        if self._behind is None and self._keys is None:
            self._next_pass = now + max(PASS_EVERY_S, self._pass_took_s / PASS_SHARE)
        return claimed

    async def _page_of_rows(self, room: Room) -> list[Parcel]:
        assert self._behind is not None
        found = await self._table.look_behind(self._behind, self._pass_upto)
        chosen = room.take(list(found.items))
        claimed = await self._claim(chosen)
        if len(chosen) == len(found.items) and found.all_read:
            self._behind, self._keys = None, ""
        else:
            self._behind = _reached(found, chosen)
        return claimed

    async def _page_of_keys(self, room: Room) -> list[Parcel]:
        assert self._keys is not None
        found = await self._table.look_keys(self._keys, self._pass_upto)
        chosen = room.take(list(found.items))
        claimed = await self._claim(chosen)
        if len(chosen) < len(found.items):
            self._keys = chosen[-1].key if chosen else self._keys
        else:
            self._keys = None if found.all_read else found.last_key
        return claimed

    async def _claim(self, items: list[Item]) -> list[Parcel]:
        claimed: list[Parcel] = []
        if alone := [item.seq for item in items if item.kind is Kind.ALONE]:
            claimed += await self._table.claim_alone(alone)
        for kind in (Kind.PLAIN, Kind.LOW):
            for seqs in batches(item for item in items if item.kind is kind):
                claimed += await self._table.claim_batch(seqs)
        for item in items:
            if item.kind is Kind.LOST:
                claimed += await self._table.claim_again(item.seq, item.last, item.size)
        return claimed


def _reached(found: Found, chosen: list[Item]) -> int:
    """Up to which row everything was taken that could be."""
    return found.last if len(chosen) == len(found.items) else found.items[len(chosen)].seq - 1
