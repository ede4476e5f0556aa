"""Reading what is due, and claims."""

from collections.abc import Sequence

from rota.domain.fairness import Entry, LaneKey, Position
from rota.domain.ids import CoordinatorId, ShardNo, epoch_of
from rota.domain.limiting import LimitedGrants
from rota.domain.model import (
    Grant,
    JobState,
)
from rota.store.codec import instant
from rota.store.port import (
    Claim,
    DueRow,
)

from .tables import HELD, WAITING, JobRow, Port, entry_of


class FakeLeases(Port):
    """LeaseStore."""

    async def read_due(
        self, after: Sequence[tuple[ShardNo, Position]], until_us: int, page: int, lane: LaneKey | None = None
    ) -> list[DueRow]:
        def work() -> list[DueRow]:
            by_shard: dict[ShardNo, list[JobRow]] = {}
            for row in self._db.jobs.values():
                if row.due_us <= until_us and (lane is None or lane.covers(entry_of(row))):
                    by_shard.setdefault(row.spec.shard, []).append(row)
            found: list[DueRow] = []
            for shard, position in after:
                rows = [row for row in by_shard.get(shard, ()) if (row.due_us, row.spec.id) > position]
                rows.sort(key=lambda row: (row.due_us, row.spec.id))
                found += [self._due(row) for row in rows[:page]]
            return found

        return await self._read("read_due", work, "reads")

    async def claim(self, claims: Sequence[Claim], owner: CoordinatorId) -> list[Grant]:
        def work() -> list[Grant]:
            db, guard, now_us = self._db, self._db.guard, self._db.now_us
            grants = []
            for claim in claims:
                row = db.jobs.get((claim.entry.tenant_id, claim.entry.id))
                if row is None:
                    continue
                shard = db.shards[row.spec.shard]
                if not (
                    guard("claim: state", row.state in WAITING)
                    and guard("claim: due", row.due_us <= now_us)
                    and guard("claim: fence grows", row.fence < claim.fence)
                    and guard(
                        "claim: start_by", not row.start_by_us or row.start_by_s is None or row.start_by_us > now_us
                    )
                    and guard("claim: deadline", row.deadline_us is None or row.deadline_us > now_us)
                    and guard("claim: owner", shard.owner == owner)
                    and guard("claim: epoch", shard.epoch == epoch_of(claim.fence))
                ):
                    continue
                row.state = JobState.LEASED
                row.fence = claim.fence
                row.session_id = claim.session_id
                row.attempt += 1
                row.leased_us = now_us
                grants.append(self._grant(row, claim.entry))
                db.history.note(
                    "claimed",
                    job=row.spec.id,
                    fence=claim.fence,
                    session=claim.session_id,
                    owner=owner,
                    shard=row.spec.shard,
                    attempt=row.attempt,
                    type=claim.entry.type,
                )
            return grants

        return await self._write("claim", work, "claims")

    async def claim_limited(self, claims: Sequence[Claim], owner: CoordinatorId) -> LimitedGrants:
        """Nothing is limited here: what limits promise is shown on PostgreSQL."""
        return LimitedGrants(await self.claim(claims, owner), {})

    def _due(self, row: JobRow) -> DueRow:
        leased_for_s = None if row.leased_us is None else (self._db.now_us - row.leased_us) / 1e6
        return DueRow(
            entry_of(row),
            row.state,
            row.fence,
            row.session_id,
            leased_for_s,
            row.run_timeout_ms / 1000,
            row.state in HELD and self._db.alive(row.session_id),
        )

    def _grant(self, row: JobRow, entry: Entry) -> Grant:
        spec, deadline_us = row.spec, row.deadline_us
        assert row.session_id is not None
        return Grant(
            tenant_id=entry.tenant_id,
            job_id=entry.id,
            shard=entry.shard,
            fence=row.fence,
            session_id=row.session_id,
            attempt=row.attempt,
            attempts_counted=row.attempts_counted,
            max_attempts=spec.retry.max_attempts,
            type=entry.type,
            queue=entry.queue,
            priority=entry.priority,
            payload=spec.payload.data,
            content_type=spec.payload.content_type,
            headers=dict(spec.headers) or None,
            effect_key=spec.effect_key,
            generation=0,
            run_timeout_s=row.run_timeout_ms / 1000,
            deadline_s=None if deadline_us is None else (deadline_us - self._db.now_us) / 1e6,
            due_at=instant(row.due_us),
            traceparent=spec.traceparent,
            tracestate=spec.tracestate,
            origin=row.origin,
        )
