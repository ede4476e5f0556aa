"""The traces that the jobs of schedules begin."""

from collections.abc import Sequence

from rota.domain.ids import JobId
from rota.domain.overlap import Record
from rota.domain.schedule import Fate, Schedule
from rota.telemetry import Traces


def begin_traces(traces: Traces | None, schedule: Schedule, records: Sequence[Record]) -> dict[JobId, str]:
    """A trace of its own for each job, linked to the schedule's creation; the context that the job keeps."""
    if traces is None:
        return {}
    job = schedule.definition.job
    return {
        record.job_id: traces.fire(
            origin=schedule.traceparent,
            job_id=record.job_id,
            type=job.type,
            queue=job.queue,
            schedule=schedule.id,
        )
        for record in records
        if record.fate is Fate.FIRED and record.job_id is not None
    }
