"""The relay: each committed row becomes one job, in order within a key, whatever fails in between."""

import asyncio
import logging
import random
from datetime import datetime, timedelta

import pytest
from psycopg.types.json import Jsonb

from rota.clock import SystemClock
from rota.domain.errors import FailedPrecondition
from rota.outbox.limits import BATCH_BYTES, BATCH_ROWS, WINDOW_ROWS
from rota.outbox.sender import Answer, Fate
from rota.outbox.wish import Parcel

from .world import App, ScriptedRota, die, enqueue, relaying, until

REFUSED = Answer(Fate.REFUSED, "RESOURCE_EXISTS", "dedupe: another job holds the key")
DOWN = Answer(Fate.DOWN, message="nobody is there")


async def test_committed_rows_become_jobs_and_are_gone(app: App, rota: ScriptedRota) -> None:
    app.many(1_000)
    with app.connect() as conn:
        enqueue(conn, payload=Jsonb(2_000))
        conn.rollback()
    async with relaying(app, rota) as relay:
        await until(lambda: app.count == 0)
    rota.check_each_once(1_000)
    assert relay.totals.created == 1_000
    assert len(rota.sent) == 1_000 // BATCH_ROWS


async def test_a_row_that_is_committed_after_a_higher_one_is_found(app: App, rota: ScriptedRota) -> None:
    """The gap of a sequence: a cursor by number would pass it over for good."""
    async with relaying(app, rota):
        with app.connect() as conn:
            enqueue(conn, payload=Jsonb(1))
            for n in range(2, 4):
                app.enqueue(payload=Jsonb(n))
                await until(lambda n=n: len(rota.created) == n - 1)
            conn.commit()
        await until(lambda: app.count == 0)
    assert rota.created == ["2", "3", "1"]


async def test_so_is_one_of_a_key(app: App, rota: ScriptedRota) -> None:
    async with relaying(app, rota):
        with app.connect() as conn:
            enqueue(conn, payload=Jsonb(1), ordering_key="a")
            app.enqueue(payload=Jsonb(2), ordering_key="b")
            await until(lambda: rota.created == ["2"])
            conn.commit()
        await until(lambda: app.count == 0)
    assert rota.created == ["2", "1"]


async def test_order_is_kept_within_a_key_by_several_relays(app: App, rota: ScriptedRota) -> None:
    keys, each, chance = 7, 12, random.Random(5)

    async def answer_late(parcel: Parcel) -> None:
        await asyncio.sleep(chance.uniform(0, 0.02))

    rota.before = answer_late
    async with relaying(app, rota), relaying(app, rota), relaying(app, rota):
        for start in range(0, keys * each, 12):
            app.run(
                "select rota_enqueue('greet', to_jsonb(n), ordering_key => 'key-' || mod(n, %(keys)s)) "
                "from generate_series(%(start)s, %(start)s + 11) n",
                keys=keys,
                start=start,
            )
            await asyncio.sleep(0.02)
        await until(lambda: app.count == 0)
    by_key: dict[int, list[int]] = {}
    for n in map(int, rota.created):
        by_key.setdefault(n % keys, []).append(n)
    assert by_key == {key: list(range(key, keys * each, keys)) for key in range(keys)}


async def test_a_key_goes_on_without_waiting_for_the_next_look(app: App, rota: ScriptedRota) -> None:
    app.many(100, "ordering_key => 'k'")
    async with relaying(app, rota, poll_s=60.0):
        began = asyncio.get_running_loop().time()
        await until(lambda: len(rota.created) == 100)
        assert asyncio.get_running_loop().time() - began < 10
        await until(lambda: app.count == 0)
    assert rota.created == [str(n) for n in range(1, 101)]


async def test_several_relays_share_the_work_and_create_each_job_once(app: App, rota: ScriptedRota) -> None:
    app.many(3_000)
    async with relaying(app, rota) as one, relaying(app, rota) as two:
        await until(lambda: app.count == 0)
    rota.check_each_once(3_000)
    assert one.totals.created + two.totals.created == 3_000


@pytest.mark.parametrize("created", [True, False], ids=["created, the answer lost", "not sent yet"])
async def test_a_batch_of_a_relay_that_died_is_sent_again_as_it_was(
    app: App, rota: ScriptedRota, created: bool
) -> None:
    async def never(parcel: Parcel) -> None:
        await asyncio.Event().wait()

    app.many(300)
    app.run("select rota_enqueue('greet', to_jsonb(n), ordering_key => 'k') from generate_series(301, 303) n")
    rota.after, rota.before = (never, None) if created else (None, never)
    await die(app, rota, lambda: len(rota.sent) == 3)
    before = {parcel.request_id: parcel.seqs for parcel in rota.sent}
    assert len(rota.created) == (301 if created else 0)

    rota.after = rota.before = None
    async with relaying(app, rota):
        app.many(50)
        await until(lambda: len(rota.created) == (351 if created else 50))
        app.expire_claims()
        await until(lambda: app.count == 0)
    again = {parcel.request_id: parcel.seqs for parcel in rota.sent[3:]}
    assert before.items() <= again.items()
    assert sorted(map(int, rota.created)) == sorted([*range(1, 304), *range(1, 51)])


async def test_two_relays_with_the_same_rows_do_no_harm(app: App, rota: ScriptedRota) -> None:
    """A claim that runs out while its relay lives: what comes of it is more work, and nothing else."""
    gate = asyncio.Event()

    async def wait(parcel: Parcel) -> None:
        await gate.wait()

    app.many(300)
    app.run("select rota_enqueue('greet', to_jsonb(n), ordering_key => 'k') from generate_series(301, 303) n")
    rota.before = wait
    async with relaying(app, rota), relaying(app, rota):
        await until(lambda: len(rota.sent) == 3)
        app.expire_claims()
        await until(lambda: len(rota.sent) == 6)
        gate.set()
        await until(lambda: app.count == 0)
    rota.check_each_once(303)
    assert [n for n in rota.created if int(n) > 300] == ["301", "302", "303"]


async def test_a_poison_row_blocks_its_own_key_alone(
    app: App, rota: ScriptedRota, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(parcel: Parcel) -> Answer | None:
        return REFUSED if parcel.wishes[0].payload == b"2" else None

    caplog.set_level(logging.INFO)
    app.many(9, "ordering_key => 'key-' || mod(n, 3)")
    app.many(3)
    rota.before = refuse
    async with relaying(app, rota):
        await until(lambda: len(rota.created) == 9)
        app.enqueue(payload=Jsonb(11), ordering_key="key-2")
        app.enqueue(payload=Jsonb(10), ordering_key="key-1")
        await until(lambda: "10" in rota.created)
        await until(lambda: app.count == 4)
    assert not {"5", "8", "11"} & set(rota.created)
    (parked,) = app.parked()
    assert (parked.seq, parked.ordering_key, parked.reason, parked.error) == (
        2,
        "key-2",
        *(REFUSED.reason, REFUSED.message),
    )
    assert len(app.parked()) == 1
    assert "row 2 (greet, id " in caplog.text
    assert "is parked, and all that follows in 'key-2' waits: RESOURCE_EXISTS" in caplog.text

    assert app.retry(1, 2, 3) == [2]
    rota.before = None
    rota.created.clear()
    async with relaying(app, rota):
        await until(lambda: app.count == 0)
    assert rota.created == ["2", "5", "8", "11"]


async def test_what_is_discarded_makes_way_for_what_follows(app: App, rota: ScriptedRota) -> None:
    async def refuse(parcel: Parcel) -> Answer | None:
        return REFUSED if parcel.wishes[0].payload in (b"1", b"2") else None

    app.many(3, "ordering_key => 'k'")
    rota.before = refuse
    async with relaying(app, rota):
        for _ in range(2):
            await until(lambda: len(app.parked()) == 1)
            assert len(app.discard()) == 1
        await until(lambda: app.count == 0)
    assert rota.created == ["3"]


async def test_a_batch_that_is_refused_is_sent_row_by_row(app: App, rota: ScriptedRota) -> None:
    async def refuse(parcel: Parcel) -> Answer | None:
        if all(wish.payload != b"17" for wish in parcel.wishes):
            return None
        return Answer(Fate.DISSOLVE) if parcel.batch else REFUSED

    app.many(40)
    rota.before = refuse
    async with relaying(app, rota):
        await until(lambda: app.count == 1)
    assert sorted(map(int, rota.created)) == [n for n in range(1, 41) if n != 17]
    assert [(row.seq, row.reason) for row in app.parked()] == [(17, "RESOURCE_EXISTS")]


async def test_nothing_is_sent_again_once_rota_may_have_forgotten_it(app: App, rota: ScriptedRota) -> None:
    app.many(3)
    app.many(1, "ordering_key => 'k'")
    app.run("update rota_outbox set sent_at = now() - interval '6 days 19 hours', claimed_until = now(), attempts = 1")
    app.run("update rota_outbox set batch_first = 1, batch_last = 3, batch_size = 3 where seq <= 3")
    app.run("update rota_outbox set enqueued_at = now() - interval '30 days'")
    # Old, and never sent.
    app.enqueue(payload=Jsonb(5))
    app.run("update rota_outbox set enqueued_at = now() - interval '30 days'")
    async with relaying(app, rota):
        await until(lambda: len(app.parked()) == 4)
        await until(lambda: rota.created == ["5"])
    assert {row.reason for row in app.parked()} == {"IN_DOUBT"}
    assert len(rota.sent) == 1

    assert app.retry() == [1, 2, 3, 4]
    async with relaying(app, rota):
        await until(lambda: app.count == 0)
    assert sorted(rota.created) == ["1", "1", "2", "3", "5"]


async def test_a_relay_that_slept_sends_nothing_of_what_it_had_claimed(app: App, rota: ScriptedRota) -> None:
    """Its rows may be gone since, with the memory of their request ids."""

    class Suspended(SystemClock):
        """The wall clock jumps once rows are claimed, the monotonic one stands still, as with a machine that sleeps."""

        looks = 0

        def utc(self) -> datetime:
            self.looks += 1
            return super().utc() + (timedelta(days=8) if self.looks > 1 else timedelta(0))

    app.many(3)
    clock = Suspended()
    async with relaying(app, rota, clock):
        await until(lambda: app.count == 0)
    assert clock.looks > 2
    assert [parcel.wishes[0].attempts for parcel in rota.sent] == [2]
    rota.check_each_once(3)


async def test_while_rota_is_away_one_row_asks_for_it(
    app: App, rota: ScriptedRota, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was sent is in doubt after a week; the rest may wait for ever."""
    monkeypatch.setattr("rota.outbox.relay.RETRY_MOST_S", 0.2)

    async def away(parcel: Parcel) -> Answer:
        return DOWN

    app.many(5 * WINDOW_ROWS)
    rota.before = away
    async with relaying(app, rota):
        await until(lambda: len(rota.sent) >= 8 + WINDOW_ROWS // BATCH_ROWS)
        seqs = {seq for parcel in rota.sent for seq in parcel.seqs}
        assert len(seqs) <= WINDOW_ROWS + BATCH_ROWS
        assert app.run("select count(*) from rota_outbox where sent_at is null") == [(5 * WINDOW_ROWS - len(seqs),)]
        rota.before = None
        await until(lambda: app.count == 0)
    rota.check_each_once(5 * WINDOW_ROWS)


async def test_a_row_that_rota_does_not_take_now_comes_later(app: App, rota: ScriptedRota) -> None:
    answers = [Answer(Fate.BUSY, "RATE_LIMITED", "slow down", 0.05), Answer(Fate.FAULT, "INTERNAL", "oops")]

    async def busy(parcel: Parcel) -> Answer | None:
        return answers.pop() if answers else None

    app.many(1)
    rota.before = busy
    async with relaying(app, rota):
        await until(lambda: app.count == 0)
    rota.check_each_once(1)
    assert len(rota.sent) == 3


async def test_low_priority_holds_nothing_else_up(app: App, rota: ScriptedRota) -> None:
    async def under_pressure(parcel: Parcel) -> Answer | None:
        low = any(wish.options.get("priority", 4) < 4 for wish in parcel.wishes)
        return Answer(Fate.BUSY, "RATE_LIMITED", "low priority waits") if low else None

    app.many(200, "priority => mod(n, 10)")
    rota.before = under_pressure
    async with relaying(app, rota):
        await until(lambda: len(rota.created) == 120)
        rota.before = None
        await until(lambda: app.count == 0)
    rota.check_each_once(200)


async def test_a_key_that_is_not_accepted_ends_the_relay_and_loses_nothing(app: App, rota: ScriptedRota) -> None:
    async def refuse(parcel: Parcel) -> Answer | None:
        raise FailedPrecondition("Rota does not take jobs with this key")

    app.many(10)
    rota.before = refuse
    with pytest.raises(FailedPrecondition, match="with this key"):
        async with relaying(app, rota):
            await until(lambda: rota.sent)
    assert app.count == 10
    assert app.parked() == []


async def test_the_database_may_go_away_and_come_back(app: App, rota: ScriptedRota) -> None:
    async def slowly(parcel: Parcel) -> None:
        await asyncio.sleep(0.02)

    rota.before = slowly
    async with relaying(app, rota):
        for start in range(0, 400, 50):
            app.run("select rota_enqueue('greet', to_jsonb(%(a)s + n)) from generate_series(1, 50) n", a=start)
            await asyncio.sleep(0.03)
            app.run(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where datname = current_database() and application_name = 'rota outbox'"
            )
        await asyncio.sleep(0.2)
        app.expire_claims()
        await until(lambda: app.count == 0)
    rota.check_each_once(400)


async def test_a_long_transaction_stops_nothing(app: App, rota: ScriptedRota) -> None:
    with app.connect() as conn:
        conn.execute("set transaction isolation level repeatable read")
        enqueue(conn, payload=Jsonb(301), ordering_key="slow")
        async with relaying(app, rota):
            app.many(200)
            app.run("select rota_enqueue('greet', to_jsonb(n), ordering_key => 'k') from generate_series(201, 300) n")
            await until(lambda: app.count == 0)
            rota.check_each_once(300)
            conn.commit()
            await until(lambda: len(rota.created) == 301)
    rota.check_each_once(301)


async def test_a_batch_fits_into_a_call(app: App, rota: ScriptedRota) -> None:
    app.run("select rota_enqueue('greet', to_jsonb(repeat('x', 200000))) from generate_series(1, 40) n")
    async with relaying(app, rota):
        await until(lambda: app.count == 0)
    assert sum(len(parcel.wishes) for parcel in rota.sent) == 40
    assert all(parcel.bytes <= BATCH_BYTES for parcel in rota.sent)


async def test_keys_without_rows_are_forgotten(app: App, rota: ScriptedRota, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.outbox.relay.TIDY_EVERY_S", 0.1)
    monkeypatch.setattr("rota.outbox.table.TIDY_KEYS", 7)
    app.many(30, "ordering_key => 'key-' || n")
    with app.connect() as conn:
        enqueue(conn, ordering_key="key-3")
        async with relaying(app, rota):
            await until(lambda: app.run("select ordering_key from rota_outbox_keys") == [("key-3",)])
            conn.commit()
            await until(lambda: app.run("select count(*) from rota_outbox_keys") == [(0,)])
    assert len(rota.created) == 31
