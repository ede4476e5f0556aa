"""Values as columns and back, for every value that the domain allows."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.domain.model import EffectReceipt, Failure, RetryPolicy, Timeouts
from rota.store import codec

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
spans = st.floats(0, 1e8)
retries = st.builds(RetryPolicy, st.integers(1, 1_000), spans, spans, st.floats(1, 10), st.lists(texts).map(tuple))
timeouts = st.builds(Timeouts, st.none() | spans, st.integers(1, 10**9).map(lambda ms: ms / 1_000), st.none() | spans)


@given(retries, timeouts)
def test_options(retry: RetryPolicy, limits: Timeouts) -> None:
    stored = codec.options_json(retry, limits)
    found = None if stored is None else json.loads(stored)
    assert codec.retry_policy(retry.max_attempts, found) == retry
    assert codec.timeouts(round(limits.run_s * 1_000), found) == limits


def test_defaults_store_nothing() -> None:
    assert codec.options_json(RetryPolicy(), Timeouts()) is None
    assert codec.options_json(RetryPolicy(max_attempts=9), Timeouts(run_s=7)) is None
    assert codec.retry_policy(9, None) == RetryPolicy(max_attempts=9)
    assert codec.timeouts(7_000, None) == Timeouts(run_s=7)


def test_what_a_newer_version_stored_is_passed_over() -> None:
    found = {"unknown": [1], "multiplier": 3.0}
    assert codec.retry_policy(5, found) == RetryPolicy(multiplier=3.0)
    assert codec.timeouts(1_000, found) == Timeouts(run_s=1)


@given(st.none() | st.builds(Failure, texts, texts, texts))
def test_failures(failure: Failure | None) -> None:
    stored = codec.failure_json(failure)
    assert codec.failure(None if stored is None else json.loads(stored)) == failure


@given(st.lists(st.builds(EffectReceipt, texts, texts)).map(tuple))
def test_receipts(receipts: tuple[EffectReceipt, ...]) -> None:
    stored = codec.receipts_json(receipts)
    assert codec.receipts(None if stored is None else json.loads(stored)) == receipts


@given(st.dictionaries(texts, texts))
def test_maps(values: dict[str, str]) -> None:
    stored = codec.map_json(values)
    assert (json.loads(stored) if stored else {}) == values


@given(st.datetimes(timezones=st.just(UTC)))
def test_instants(instant: datetime) -> None:
    assert codec.instant(codec.micros(instant)) == instant


@pytest.mark.parametrize(
    ("us", "s"), [(0, 0), (-1, -0.000001), (1, 0.000001), (1_774_000_000_000_001, 1_774_000_000.000001)]
)
def test_micros_are_exact(us: int, s: float) -> None:
    assert codec.instant(us) == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)
    assert codec.micros(codec.instant(us)) == us
