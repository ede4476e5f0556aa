"""Admission under limits: what is let in fits, and what is refused would not have."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.domain.ids import TenantId
from rota.domain.limiting import Gate, Room, admit, closed, gates, refilled

TENANT = TenantId(1)
OTHER = TenantId(2)
ROOMS = st.one_of(
    st.builds(Room, places=st.integers(-2, 4)),
    st.builds(
        Room, places=st.none() | st.integers(0, 4), rate=st.floats(0.1, 100.0), burst=st.floats(1.0, 5.0)
    ).flatmap(
        lambda room: st.floats(0.0, room.burst).map(lambda tokens: Room(room.places, room.rate, room.burst, tokens))
    ),
    st.builds(Room, shut=st.just(True), wait_s=st.none() | st.just(0.1)),
)
WISHES = st.lists(
    st.builds(gates, st.sampled_from([TENANT, OTHER]), st.sampled_from("ab"), st.sampled_from(["", "k", "l"])),
    max_size=20,
)
GATES = [gate for t in (TENANT, OTHER) for q in "ab" for k in ("", "k", "l") for gate in gates(t, q, k)]


@given(WISHES, st.dictionaries(st.sampled_from(GATES), ROOMS))
def test_each_is_admitted_exactly_where_all_its_gates_have_room(
    wishes: list[tuple[Gate, ...]], rooms: dict[Gate, Room]
) -> None:
    """By a second, plainer reckoning."""
    left = {gate: _left(room) for gate, room in rooms.items()}
    expected: list[int] = []
    refused: Counter[Gate] = Counter()
    for index, wish in enumerate(wishes):
        full = [gate for gate in wish if gate in left and left[gate] < 1]
        refused.update(full)
        if not full:
            expected.append(index)
            for gate in wish:
                if gate in left:
                    left[gate] -= 1
    found = admit(wishes, rooms)
    assert found.taken == expected
    assert found.refused == refused


@given(WISHES, st.dictionaries(st.sampled_from(GATES), ROOMS), st.data())
def test_what_closed_says_of_the_next_try(
    wishes: list[tuple[Gate, ...]], rooms: dict[Gate, Room], data: st.DataObject
) -> None:
    """A gate with room left says so at once; one that waits for a rate has it by then; the others cannot know."""
    found = admit(wishes, rooms)
    granted = [wishes[i] for i in found.taken if data.draw(st.booleans())]
    taken = Counter(gate for wish in granted for gate in wish)
    said = closed(found.refused, rooms, granted)
    assert said.keys() == found.refused.keys()
    for gate, again_s in said.items():
        room = rooms[gate]
        if again_s == 0.0:
            assert _left(room) - taken[gate] >= 1
        elif room.shut:
            assert again_s == room.wait_s
        elif again_s is None:
            assert room.places is not None
            assert room.places - taken[gate] < 1
        else:
            assert room.rate is not None
            tokens = refilled(room.tokens - taken[gate], again_s, room.rate, room.burst)
            assert tokens >= min(1.0, room.burst) - 1e-6


def _left(room: Room) -> int:
    """How many more fit."""
    if room.shut:
        return 0
    most = 1_000 if room.places is None else room.places
    return most if room.rate is None else min(most, int(room.tokens + 1e-6))


def test_without_rooms_everything_is_admitted() -> None:
    assert admit([gates(TENANT, "a", "k")] * 3, {}).taken == [0, 1, 2]


def test_the_first_get_the_places_and_a_full_key_lets_others_pass() -> None:
    wishes = [gates(TENANT, "a", key) for key in ("k", "k", "l", "", "m")]
    rooms = {Gate(TENANT, "a"): Room(places=3), Gate(TENANT, "a", "k"): Room(places=1)}
    found = admit(wishes, rooms)
    assert found.taken == [0, 2, 3]
    assert found.refused == {Gate(TENANT, "a", "k"): 1, Gate(TENANT, "a"): 1}


def test_a_fast_rate_is_asked_for_more_than_one_at_a_time() -> None:
    """Coming back for each lease by itself would make a thousand transactions a second."""
    room = Room(rate=1_000.0, burst=1_000.0, tokens=0.0)
    assert room.again_s(0, refused=500) == pytest.approx(0.02)
    assert room.again_s(0, refused=5) == pytest.approx(0.005)
    assert Room(rate=0.5, burst=1.0, tokens=0.25).again_s(0, refused=500) == pytest.approx(1.5)


@given(
    st.floats(0.001, 1_000.0),
    st.floats(1.0, 50.0),
    st.lists(st.tuples(st.floats(-5.0, 30.0), st.integers(1, 40)), max_size=40),
)
def test_a_bucket_never_gives_more_than_its_rate_and_burst(
    rate: float, burst: float, steps: list[tuple[float, int]]
) -> None:
    tokens, passed_s, given_out = burst, 0.0, 0
    for elapsed_s, wanted in steps:
        tokens = refilled(tokens, elapsed_s, rate, burst)
        passed_s += max(elapsed_s, 0.0)
        admitted = len(
            admit([gates(TENANT, "a", "")] * wanted, {Gate(TENANT, "a"): Room(None, rate, burst, tokens)}).taken
        )
        tokens -= admitted
        given_out += admitted
        assert given_out <= burst + rate * passed_s + 1e-3
        assert admitted == wanted or tokens < 1
