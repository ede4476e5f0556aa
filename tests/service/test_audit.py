"""The ledger adds up, and what does not is found."""

import pytest

from rota.service.audit import audit
from rota.store.doctor import PgDoctor

from .clockwork import Clockwork, timing

WEEK_S = 7 * 86_400.0
OF_S = "WHERE uid = (SELECT uid FROM schedules WHERE id = 's')"
LAST_GONE = "DELETE FROM occurrences WHERE nominal_at = (SELECT max(nominal_at) FROM occurrences)"


async def wrong(clockwork: Clockwork) -> tuple[int, tuple[str, ...]]:
    found = await audit(clockwork.fires_store, await PgDoctor(clockwork.db).ledgers(WEEK_S, 100))
    return found.by_rule, found.wrong


@pytest.mark.parametrize(
    "damage",
    [
        LAST_GONE,
        "UPDATE occurrences SET fate = 9 WHERE nominal_at = (SELECT max(nominal_at) FROM occurrences)",
        f"UPDATE schedule_timers SET fates[1] = fates[1] + 1 {OF_S}",
        # Both agree, and the rule does not.
        f"WITH gone AS ({LAST_GONE} RETURNING 1) "
        f"UPDATE schedule_timers SET fates[1] = fates[1] - (SELECT count(*) FROM gone) {OF_S}",
    ],
)
async def test_what_does_not_add_up_is_named(clockwork: Clockwork, damage: str) -> None:
    await clockwork.create("good", timing("0 3 * * *"))
    await clockwork.create("s", timing("*/5 * * * *", dates=("2026-03-03",)))
    await clockwork.go(2 * 86_400, tick=1800)
    assert await wrong(clockwork) == (2, ())
    await clockwork.sql(damage)
    _, found = await wrong(clockwork)
    assert [text.partition(":")[0] for text in found] == ["schedules/s"]


async def test_the_overview_counts_what_is_late_and_what_waits_for_nothing(clockwork: Clockwork) -> None:
    for id in ("a", "b", "c"):
        await clockwork.create(id)
    doctor = PgDoctor(clockwork.db)
    found = await doctor.schedules()
    assert (found.active, found.failed, found.unarmed, found.late) == (3, 0, 0, 0)
    await clockwork.sleep(300)
    await clockwork.sql(
        "UPDATE schedule_timers t SET arm_at = NULL FROM schedules s WHERE s.uid = t.uid AND s.id = 'a'"
    )
    await clockwork.sql("UPDATE schedule_timers t SET state = 4 FROM schedules s WHERE s.uid = t.uid AND s.id = 'b'")
    found = await doctor.schedules()
    assert (found.active, found.failed, found.unarmed, found.late, found.latest_s) == (2, 1, 1, 2, 240.0)
