"""What the sweeper puts right, independent of the path that fires."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from rota.domain import zones
from rota.domain.errors import InvalidArgument
from rota.domain.ids import CoordinatorId, ShardNo
from rota.domain.model import ShardTerm
from rota.domain.schedule import ScheduleState
from rota.domain.step import Step, armed, failed
from rota.service.fires import Fires
from rota.store.scheduleport import Armed, FireStore, Move
from rota.telemetry import Metrics

log = logging.getLogger(__name__)


class Repairs:
    def __init__(self, store: FireStore, fires: Fires, owner: CoordinatorId, metrics: Metrics) -> None:
        self._store = store
        self._fires = fires
        self._owner = owner
        self._metrics = metrics

    async def fire_overdue(self, terms: Mapping[ShardNo, ShardTerm], overdue: Sequence[Armed], now: datetime) -> None:
        """Takes the steps that nobody took, each by itself."""
        for each in overdue:
            log.warning("schedule %s has been overdue since %s: taking its step", each.uid, each.timer.arm_at)
            self._metrics.add("rota.schedules.repaired", 1, "overdue")
            await self._fires.run(terms, [each], now)

    async def rearm(self, terms: Mapping[ShardNo, ShardTerm], unfit: Sequence[Armed], now: datetime) -> None:
        """Arms schedules that are ACTIVE and wait for nothing, and computes next times again by this version's
        time-zone data; only those that change are told of."""
        mine = [each for each in unfit if each.shard in terms]
        known = await self._fires.learn(mine, now, terms)
        moves = []
        for each in mine:
            found = known.get(each.uid)
            if found is None:
                continue
            before = each.timer
            try:
                coming = found.rule.next_after(before.cursor)
                timer = armed(before, found.schedule.definition.overlap, coming, now)
            except InvalidArgument as error:
                timer = failed(before, error.message, now)
            if before.state is ScheduleState.ACTIVE and before.arm_at is None:
                log.warning("schedules/%s was active and not armed: armed for %s", found.schedule.id, timer.arm_at)
                self._metrics.add("rota.schedules.repaired", 1, "unarmed")
            elif timer.next_nominal != before.next_nominal:
                log.info(
                    "schedules/%s: by time-zone data %s instead of %s it fires next at %s instead of %s",
                    found.schedule.id,
                    zones.version(),
                    before.tzdata,
                    timer.next_nominal,
                    before.next_nominal,
                )
                self._metrics.add("rota.schedules.repaired", 1, "tzdata")
            term = terms[each.shard]
            moves.append(Move(each, Step(replace(timer, tzdata=zones.version())), term.epoch))
        if moves:
            await self._store.fire(moves, self._owner)
