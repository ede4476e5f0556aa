"""How long a session lives, by the clock alone."""

import logging

import pytest
from google.protobuf.duration_pb2 import Duration
from rota_sdk import Stop
from rota_sdk.gen.rota.worker.v1 import worker_pb2
from rota_sdk.session import Session


def session(sent_at: float = 100.0, ttl: int = 15, interval: int = 5) -> tuple[Session, list[str]]:
    ends: list[str] = []
    answer = worker_pb2.OpenSessionResponse(
        session="sessions/s1", lease_ttl=Duration(seconds=ttl), beat_interval=Duration(seconds=interval)
    )
    return Session(answer, sent_at, lambda: ends.append("end")), ends


def test_life_counts_from_the_sending_of_the_request() -> None:
    opened, ends = session(sent_at=100.0)
    assert opened.check_life(109.9) == 110.0
    assert not opened.at_risk
    assert opened.check_life(110.0) == 115.0
    assert opened.at_risk and opened.ended is None
    assert opened.check_life(115.0) == float("inf")
    assert opened.ended is Stop.EXPIRED and ends == ["end"]
    opened.check_life(200.0)
    assert ends == ["end"]


def test_an_answered_beat_renews_from_its_own_sending() -> None:
    opened, _ = session(sent_at=100.0)
    opened.check_life(112.0)
    assert opened.at_risk
    # Sent at 104, answered at 112.
    opened.renew(104.0, 15.0)
    assert not opened.at_risk and opened.alive_until == 119.0
    assert opened.check_life(113.9) == 114.0


def test_an_overtaken_answer_changes_nothing_and_a_shorter_life_counts() -> None:
    opened, _ = session(sent_at=100.0)
    opened.renew(110.0, 15.0)
    opened.renew(105.0, 15.0)
    assert opened.alive_until == 125.0
    opened.renew(112.0, 6.0)
    assert opened.alive_until == 118.0


def test_a_dead_session_is_not_revived() -> None:
    opened, _ = session(sent_at=100.0)
    opened.check_life(116.0)
    opened.renew(115.0, 15.0)
    assert opened.ended is Stop.EXPIRED and opened.alive_until == 115.0


def test_the_warning_comes_once_until_beats_are_answered(caplog: pytest.LogCaptureFixture) -> None:
    opened, _ = session(sent_at=100.0)
    with caplog.at_level(logging.INFO, "rota_sdk"):
        opened.check_life(111.0)
        opened.check_life(112.0)
        opened.renew(112.0, 15.0)
        opened.check_life(123.0)
    levels = [record.levelname for record in caplog.records]
    assert levels == ["WARNING", "INFO", "WARNING"]


def test_beats_are_frequent_enough_for_the_ttl_and_missing_spans_have_defaults() -> None:
    assert session(ttl=6, interval=5)[0].beat_interval == 2.0
    bare = Session(worker_pb2.OpenSessionResponse(session="sessions/s1"), 0.0, lambda: None)
    assert (bare.ttl, bare.delivery_ttl, bare.beat_interval, bare.max_results) == (15.0, 5.0, 5.0, 500)


def test_request_ids_are_unique_and_short() -> None:
    opened, _ = session()
    ids = [opened.next_request_id() for _ in range(1000)]
    assert len(set(ids)) == 1000 and ids[0] == "s1-1" and max(map(len, ids)) <= 128
