"""What a watcher has seen, over all orders in which transactions begin, write and commit."""

from dataclasses import dataclass, field
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from rota.domain.change import Change, Page, Position


def change(xid: int, seq: int) -> Change:
    return Change(xid, seq, "q", "t", cast("Any", None))


@dataclass
class Database:
    """Transactions of which each has a number, changes, and perhaps an end."""

    next_xid: int = 1
    seq: int = 0
    running: dict[int, list[int]] = field(default_factory=dict)
    rows: list[tuple[int, int]] = field(default_factory=list)

    def begin(self) -> None:
        self.running[self.next_xid] = []
        self.next_xid += 1

    def write(self, which: int) -> None:
        if self.running:
            self.seq += 1
            self.running[sorted(self.running)[which % len(self.running)]].append(self.seq)

    def commit(self, which: int) -> None:
        if self.running:
            xid = sorted(self.running)[which % len(self.running)]
            self.rows += [(xid, seq) for seq in self.running.pop(xid)]

    def moment(self) -> Position:
        return Position(self.next_xid, frozenset(self.running))

    def page(self, after: Position, limit: int) -> Page:
        """As the store reads it: by ranges of keys."""
        lasts = dict(after.parts)
        found = [(xid, seq) for xid, seq in self.rows if xid in after.running and seq > lasts.get(xid, 0)]
        found += [row for row in self.rows if row > (after.next_xid, lasts.get(after.next_xid, 0))]
        found.sort()
        return Page(after, self.moment(), [change(*row) for row in found[:limit]], len(found) > limit)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["begin", "write", "write", "write", "commit", "commit", "read", "break"]), st.integers(0, 9)
    ),
    max_size=80,
)


@settings(max_examples=400, deadline=None)
@given(STEPS, st.integers(1, 3))
def test_each_change_is_told_whatever_commits_in_which_order(steps: list[tuple[str, int]], limit: int) -> None:
    """A reader that goes on at any change, by the position that came with it."""
    database, position = Database(), Position(1)
    told: list[tuple[int, int]] = []

    def read(breaks_off: int | None = None) -> bool:
        nonlocal position
        page = database.page(position, limit)
        assert page.after.covers(page.before)
        new = list(page.unseen_at(position))
        assert [c.seq for c, _ in new] == sorted(c.seq for c in page.changes)
        taken = new if breaks_off is None else new[: breaks_off % 3]
        told.extend((c.xid, c.seq) for c, _ in taken)
        if len(taken) == len(new):
            position = page.after
        elif taken:
            position = taken[-1][1]
        for row in database.rows:
            # What was told out of the order of transactions may come again, and nothing is passed over.
            assert position.unseen(*row) or row in told
        return page.more

    for step, which in steps:
        match step:
            case "begin":
                database.begin()
            case "write":
                database.write(which)
            case "commit":
                database.commit(which)
            case "read":
                read()
            case _:
                read(which)
    while database.running:
        database.commit(0)
    while read():
        pass
    assert set(told) == set(database.rows)
    assert len(told) == len(set(told)) or any(step == "break" for step, _ in steps)


@settings(max_examples=200, deadline=None)
@given(STEPS, st.integers(1, 3))
def test_what_covers_a_position_has_seen_all_that_it_has(steps: list[tuple[str, int]], limit: int) -> None:
    database, positions = Database(), [Position(1)]
    for step, which in steps:
        match step:
            case "begin":
                database.begin()
            case "write":
                database.write(which)
            case "commit":
                database.commit(which)
            case _:
                positions.append(database.page(positions[which % len(positions)], limit).after)
    for one in positions:
        assert one.covers(one)
        assert one.first_unseen <= min((xid for xid, seq in database.rows if one.unseen(xid, seq)), default=10**9)
        for other in positions:
            if one.covers(other):
                assert not [row for row in database.rows if one.unseen(*row) and not other.unseen(*row)]


def test_a_transaction_that_commits_late_is_seen_late() -> None:
    """A reader that keeps the highest number it has seen would pass over the first one for ever."""
    database = Database()
    database.begin()
    database.begin()
    database.write(0)
    database.write(1)
    database.commit(1)
    first = database.page(Position(1), 10)
    assert [(c.xid, c.seq) for c in first.changes] == [(2, 2)]
    database.commit(0)
    second = database.page(first.after, 10)
    assert [(c.xid, c.seq) for c in second.changes] == [(1, 1)]


def test_changes_of_a_page_come_in_the_order_in_which_they_were_made() -> None:
    """The first transaction began first and waited for the second; who breaks off between both gets both again."""
    page = Page(Position(1), Position(3), [change(1, 7), change(1, 9), change(2, 8)], more=False)
    found = list(page.unseen_at(Position(1)))
    assert [(c.xid, c.seq) for c, _ in found] == [(1, 7), (2, 8), (1, 9)]
    assert [(p.unseen(1, 9), p.unseen(2, 8)) for _, p in found] == [(True, True), (True, True), (False, False)]
    # Who has seen some already hears of the others.
    assert [(c.xid, c.seq) for c, _ in page.unseen_at(Position(2))] == [(2, 8)]
