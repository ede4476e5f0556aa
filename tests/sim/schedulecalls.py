"""What stands where the servicer of schedules stands."""

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from rota.domain.model import CancelMode, Identity
from rota.domain.schedule import Backfill, Definition, Fate, MissedPolicy, Schedule
from rota.service.drafts import Draft
from rota.service.schedules import Triggered
from rota.store.scheduleport import OccurrenceFilter, RequestKey

if TYPE_CHECKING:
    from rota.coordinator.node import Node

CREATE = 11
UPDATE = 12
TRIGGER = 13
BACKFILL = 14


class ScheduleCalls:
    _identity: Identity

    async def _create_schedule(
        self, node: "Node", *, id: str, definition: Definition, paused: bool, request_id: str, left_s: float
    ) -> Schedule:
        request = RequestKey(CREATE, request_id, b"same")
        (made,) = await shielded(node.schedules.create(self._identity, [Draft(id, definition, paused=paused)], request))
        found: Schedule = made
        return found

    async def _edit_schedule(
        self, node: "Node", *, id: str, definition: Definition, request_id: str, left_s: float
    ) -> Schedule:
        request = RequestKey(UPDATE, request_id, b"same")
        found: Schedule = await shielded(
            node.schedules.update(self._identity, id, lambda old: definition, etag="", request=request)
        )
        return found

    async def _pause_schedule(self, node: "Node", *, id: str, left_s: float) -> Schedule:
        found: Schedule = await shielded(node.schedules.pause(self._identity, id, "by hand", etag=""))
        return found

    async def _resume_schedule(
        self, node: "Node", *, id: str, catch_up: MissedPolicy | None, left_s: float
    ) -> Schedule:
        found: Schedule = await shielded(
            node.schedules.resume(self._identity, id, "by hand", etag="", catch_up=catch_up)
        )
        return found

    async def _trigger(self, node: "Node", *, id: str, force: bool, request_id: str, left_s: float) -> Triggered:
        request = RequestKey(TRIGGER, request_id, b"same")
        found: Triggered = await shielded(
            node.schedules.trigger(self._identity, id, force=force, payload=None, reason="", request=request)
        )
        return found

    async def _backfill(self, node: "Node", *, id: str, wish: Backfill, request_id: str, left_s: float) -> Backfill:
        request = RequestKey(BACKFILL, request_id, b"same")
        found: Backfill = await shielded(
            node.backfills.start(self._identity, id, wish, request=request, validate_only=False)
        )
        return found

    async def _cancel_newest(self, node: "Node", *, id: str, left_s: float) -> None:
        """The job that was made last, which may be ahead of its time."""
        where = OccurrenceFilter(Fate.FIRED)
        for found in await node.schedules.occurrences(self._identity, id, where, None, 1):
            if found.job_id is not None:
                await shielded(
                    node.jobs.cancel(self._identity.tenant_id, found.job_id, CancelMode.IF_NOT_STARTED, "not wanted")
                )

    async def _delete_schedule(self, node: "Node", *, id: str, cancel: CancelMode | None, left_s: float) -> None:
        await shielded(node.schedules.delete(self._identity, id, etag="", cancel=cancel, allow_missing=True))


async def shielded(work: Coroutine[Any, Any, Any]) -> Any:
    return await asyncio.shield(asyncio.ensure_future(work))
