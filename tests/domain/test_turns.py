"""Whose turn it is: shares by weight over every span, at once after a change, and nothing earned by idling."""

import itertools
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from rota.domain import turns as module
from rota.domain.turns import Contender, Turns

weights = st.integers(1, 1_000)


class Named(Contender):
    __slots__ = ("name",)

    def __init__(self, name: str, weight: int = 100) -> None:
        super().__init__(weight)
        self.name = name


def serve(turns: Turns[Named], rounds: int, gift: int = 1) -> str:
    given = []
    for _ in range(rounds):
        contender = turns.first()
        assert contender is not None
        turns.charge(contender, gift)
        given.append(contender.name)
    return "".join(given)


def woken(*contenders: Named) -> Turns[Named]:
    turns: Turns[Named] = Turns()
    for contender in contenders:
        turns.wake(contender)
    return turns


def test_equal_weights_take_turns() -> None:
    assert serve(woken(Named("a"), Named("b"), Named("c")), 9) == "abcabcabc"


def test_weights_share_as_they_say() -> None:
    given = serve(woken(Named("a", 300), Named("b", 100)), 400)
    assert (given.count("a"), given.count("b")) == (300, 100)


def test_nobody_awake_has_no_turn() -> None:
    a = Named("a")
    turns = woken(a)
    turns.sleep(a)
    assert turns.first() is None
    turns.wake(a)
    assert turns.first() is a


def test_idling_earns_nothing() -> None:
    a, b = Named("a"), Named("b")
    turns = woken(a, b)
    turns.sleep(b)
    serve(turns, 1_000)
    turns.wake(b)
    assert serve(turns, 10).count("b") == 5


def test_coming_and_going_earns_nothing() -> None:
    """One of weight 1 that leaves after each turn and comes back at once gets no more than one that stays."""
    a, b = Named("a", 1_000), Named("b", 1)
    turns = woken(a, b)
    given = ""
    for _ in range(5_005):
        given += serve(turns, 1)
        if given[-1] == "b":
            turns.retire(b)
            turns.wake(b)
    assert given.count("b") <= 6


def test_a_changed_weight_acts_at_once() -> None:
    """Even on one that was just given much: its wait shrinks with its weight."""
    a, b = Named("a", 1), Named("b", 1)
    turns = woken(a, b)
    turns.charge(a, 100)
    turns.reweigh(a, 1_000)
    turns.sort()
    assert serve(turns, 100).count("a") >= 99


def test_who_rests_is_remembered_while_it_matters_and_no_longer() -> None:
    a, b = Named("a", 100), Named("b", 1)
    turns = woken(a, b)
    turns.charge(b, 1)
    assert turns.retire(b) == []
    serve(turns, 99)
    # c was never given anything; b is still ahead of the clock, and two turns later no more.
    assert [c.name for c in turns.retire(Named("c"))] == ["c"]
    serve(turns, 2)
    assert [c.name for c in turns.retire(Named("d"))] == ["d", "b"]


def test_who_came_back_and_was_given_more_is_remembered_for_that_too() -> None:
    a, b = Named("a", 100), Named("b", 1)
    turns = woken(a, b)
    turns.charge(b, 1)
    turns.retire(b)
    turns.wake(b)
    turns.charge(b, 1)
    turns.retire(b)
    serve(turns, 150)
    assert [c.name for c in turns.retire(Named("c"))] == ["c"]
    serve(turns, 51)
    assert [c.name for c in turns.retire(Named("d"))] == ["d", "b"]


def test_once_nobody_waits_nothing_is_owed() -> None:
    a, b = Named("a"), Named("b")
    turns = woken(a, b)
    turns.charge(a, 1_000)
    turns.sleep(a)
    turns.sleep(b)
    turns.wake(b)
    turns.wake(a)
    assert serve(turns, 10).count("b") == 5


def test_resting_is_bounded() -> None:
    turns = woken(Named("a"))
    forgotten = 0
    for _ in range(module.RESTING_MAX + 10):
        each = Named("each")
        turns.wake(each)
        turns.charge(each, 1)
        forgotten += len(turns.retire(each))
    assert forgotten == 10


@settings(max_examples=200, deadline=None)
@given(
    st.lists(weights, min_size=2, max_size=5),
    st.lists(st.tuples(st.sampled_from(["serve", "serve", "serve", "change", "sleep"]), st.integers(0, 4), weights)),
)
def test_shares_stay_within_one_gift_of_the_weights(
    first_weights: list[int], steps: list[tuple[str, int, int]]
) -> None:
    """Over every span in which two are awake and no weight changes, however others come and go."""
    everyone = [Named("abcde"[n], weight) for n, weight in enumerate(first_weights)]
    turns = woken(*everyone)
    largest = 25
    since = dict.fromkeys(itertools.combinations(range(len(everyone)), 2), (0, 0))
    given = [0] * len(everyone)
    history: list[tuple[int, ...]] = [tuple(given)]
    for what, which, number in steps:
        contender = everyone[which % len(everyone)]
        if what == "serve":
            for _ in range(1 + number % 50):
                first = turns.first()
                assert first is not None or not any(c.awake for c in everyone)
                if first is not None:
                    gift = 1 + number % largest
                    turns.charge(first, gift)
                    given[everyone.index(first)] += gift
                history.append(tuple(given))
        elif what == "change":
            turns.reweigh(contender, number)
            turns.sort()
        elif contender.awake:
            turns.retire(contender)
        else:
            turns.wake(contender)
        for a, b in since:
            restarted = what != "serve" and which % len(everyone) in (a, b)
            if restarted or not (everyone[a].awake and everyone[b].awake):
                since[a, b] = (len(history) - 1, len(history) - 1)
                continue
            bound = Fraction(largest, everyone[a].weight) + Fraction(largest, everyone[b].weight)
            lags = [
                Fraction(at[a], everyone[a].weight) - Fraction(at[b], everyone[b].weight)
                for at in history[since[a, b][0] :]
            ]
            assert max(lags) - min(lags) <= bound + Fraction(1, 1_000)
