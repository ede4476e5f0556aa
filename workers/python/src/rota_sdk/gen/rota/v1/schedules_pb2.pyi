import datetime

from google.api import annotations_pb2 as _annotations_pb2
from google.api import field_behavior_pb2 as _field_behavior_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import field_mask_pb2 as _field_mask_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from rota_sdk.gen.rota.v1 import common_pb2 as _common_pb2
from rota_sdk.gen.rota.v1 import jobs_pb2 as _jobs_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DstGap(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DST_GAP_UNSPECIFIED: _ClassVar[DstGap]
    DST_GAP_RUN_AFTER: _ClassVar[DstGap]
    DST_GAP_SHIFT: _ClassVar[DstGap]
    DST_GAP_SKIP: _ClassVar[DstGap]

class DstOverlap(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DST_OVERLAP_UNSPECIFIED: _ClassVar[DstOverlap]
    DST_OVERLAP_FIRST: _ClassVar[DstOverlap]
    DST_OVERLAP_SECOND: _ClassVar[DstOverlap]
    DST_OVERLAP_BOTH: _ClassVar[DstOverlap]

class JitterMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JITTER_MODE_UNSPECIFIED: _ClassVar[JitterMode]
    JITTER_MODE_HASH: _ClassVar[JitterMode]
    JITTER_MODE_RANDOM: _ClassVar[JitterMode]

class MissedRunMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MISSED_RUN_MODE_UNSPECIFIED: _ClassVar[MissedRunMode]
    MISSED_RUN_MODE_SKIP: _ClassVar[MissedRunMode]
    MISSED_RUN_MODE_COALESCE: _ClassVar[MissedRunMode]
    MISSED_RUN_MODE_CATCH_UP: _ClassVar[MissedRunMode]

class OverlapMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OVERLAP_MODE_UNSPECIFIED: _ClassVar[OverlapMode]
    OVERLAP_MODE_ALLOW: _ClassVar[OverlapMode]
    OVERLAP_MODE_SKIP: _ClassVar[OverlapMode]
    OVERLAP_MODE_BUFFER_ONE: _ClassVar[OverlapMode]
    OVERLAP_MODE_BUFFER_ALL: _ClassVar[OverlapMode]
    OVERLAP_MODE_CANCEL_OTHER: _ClassVar[OverlapMode]
    OVERLAP_MODE_REPLACE: _ClassVar[OverlapMode]

class ScheduleState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SCHEDULE_STATE_UNSPECIFIED: _ClassVar[ScheduleState]
    SCHEDULE_STATE_ACTIVE: _ClassVar[ScheduleState]
    SCHEDULE_STATE_PAUSED: _ClassVar[ScheduleState]
    SCHEDULE_STATE_EXHAUSTED: _ClassVar[ScheduleState]
    SCHEDULE_STATE_ERROR: _ClassVar[ScheduleState]

class OccurrenceFate(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OCCURRENCE_FATE_UNSPECIFIED: _ClassVar[OccurrenceFate]
    OCCURRENCE_FATE_FIRED: _ClassVar[OccurrenceFate]
    OCCURRENCE_FATE_BUFFERED: _ClassVar[OccurrenceFate]
    OCCURRENCE_FATE_COALESCED: _ClassVar[OccurrenceFate]
    OCCURRENCE_FATE_SKIPPED_MISSED: _ClassVar[OccurrenceFate]
    OCCURRENCE_FATE_SKIPPED_WINDOW: _ClassVar[OccurrenceFate]
    OCCURRENCE_FATE_SKIPPED_OVERLAP: _ClassVar[OccurrenceFate]
    OCCURRENCE_FATE_SKIPPED_BUFFER_FULL: _ClassVar[OccurrenceFate]
    OCCURRENCE_FATE_SUPPRESSED_PAUSED: _ClassVar[OccurrenceFate]
    OCCURRENCE_FATE_EXCLUDED: _ClassVar[OccurrenceFate]
    OCCURRENCE_FATE_SUPERSEDED: _ClassVar[OccurrenceFate]

class OccurrenceOrigin(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OCCURRENCE_ORIGIN_UNSPECIFIED: _ClassVar[OccurrenceOrigin]
    OCCURRENCE_ORIGIN_RULE: _ClassVar[OccurrenceOrigin]
    OCCURRENCE_ORIGIN_CATCH_UP: _ClassVar[OccurrenceOrigin]
    OCCURRENCE_ORIGIN_TRIGGER: _ClassVar[OccurrenceOrigin]
    OCCURRENCE_ORIGIN_BACKFILL: _ClassVar[OccurrenceOrigin]

class ApplyAction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    APPLY_ACTION_UNSPECIFIED: _ClassVar[ApplyAction]
    APPLY_ACTION_CREATE: _ClassVar[ApplyAction]
    APPLY_ACTION_UPDATE: _ClassVar[ApplyAction]
    APPLY_ACTION_DELETE: _ClassVar[ApplyAction]
    APPLY_ACTION_NONE: _ClassVar[ApplyAction]

class BackfillState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BACKFILL_STATE_UNSPECIFIED: _ClassVar[BackfillState]
    BACKFILL_STATE_RUNNING: _ClassVar[BackfillState]
    BACKFILL_STATE_SUCCEEDED: _ClassVar[BackfillState]
    BACKFILL_STATE_CANCELLED: _ClassVar[BackfillState]

class PreviewCause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PREVIEW_CAUSE_UNSPECIFIED: _ClassVar[PreviewCause]
    PREVIEW_CAUSE_DST_GAP: _ClassVar[PreviewCause]
    PREVIEW_CAUSE_DST_OVERLAP: _ClassVar[PreviewCause]
    PREVIEW_CAUSE_ZONE_CORRECTION: _ClassVar[PreviewCause]
    PREVIEW_CAUSE_EXCLUDED_DATE: _ClassVar[PreviewCause]
    PREVIEW_CAUSE_EXCLUDED_CALENDAR: _ClassVar[PreviewCause]
    PREVIEW_CAUSE_JITTER: _ClassVar[PreviewCause]
DST_GAP_UNSPECIFIED: DstGap
DST_GAP_RUN_AFTER: DstGap
DST_GAP_SHIFT: DstGap
DST_GAP_SKIP: DstGap
DST_OVERLAP_UNSPECIFIED: DstOverlap
DST_OVERLAP_FIRST: DstOverlap
DST_OVERLAP_SECOND: DstOverlap
DST_OVERLAP_BOTH: DstOverlap
JITTER_MODE_UNSPECIFIED: JitterMode
JITTER_MODE_HASH: JitterMode
JITTER_MODE_RANDOM: JitterMode
MISSED_RUN_MODE_UNSPECIFIED: MissedRunMode
MISSED_RUN_MODE_SKIP: MissedRunMode
MISSED_RUN_MODE_COALESCE: MissedRunMode
MISSED_RUN_MODE_CATCH_UP: MissedRunMode
OVERLAP_MODE_UNSPECIFIED: OverlapMode
OVERLAP_MODE_ALLOW: OverlapMode
OVERLAP_MODE_SKIP: OverlapMode
OVERLAP_MODE_BUFFER_ONE: OverlapMode
OVERLAP_MODE_BUFFER_ALL: OverlapMode
OVERLAP_MODE_CANCEL_OTHER: OverlapMode
OVERLAP_MODE_REPLACE: OverlapMode
SCHEDULE_STATE_UNSPECIFIED: ScheduleState
SCHEDULE_STATE_ACTIVE: ScheduleState
SCHEDULE_STATE_PAUSED: ScheduleState
SCHEDULE_STATE_EXHAUSTED: ScheduleState
SCHEDULE_STATE_ERROR: ScheduleState
OCCURRENCE_FATE_UNSPECIFIED: OccurrenceFate
OCCURRENCE_FATE_FIRED: OccurrenceFate
OCCURRENCE_FATE_BUFFERED: OccurrenceFate
OCCURRENCE_FATE_COALESCED: OccurrenceFate
OCCURRENCE_FATE_SKIPPED_MISSED: OccurrenceFate
OCCURRENCE_FATE_SKIPPED_WINDOW: OccurrenceFate
OCCURRENCE_FATE_SKIPPED_OVERLAP: OccurrenceFate
OCCURRENCE_FATE_SKIPPED_BUFFER_FULL: OccurrenceFate
OCCURRENCE_FATE_SUPPRESSED_PAUSED: OccurrenceFate
OCCURRENCE_FATE_EXCLUDED: OccurrenceFate
OCCURRENCE_FATE_SUPERSEDED: OccurrenceFate
OCCURRENCE_ORIGIN_UNSPECIFIED: OccurrenceOrigin
OCCURRENCE_ORIGIN_RULE: OccurrenceOrigin
OCCURRENCE_ORIGIN_CATCH_UP: OccurrenceOrigin
OCCURRENCE_ORIGIN_TRIGGER: OccurrenceOrigin
OCCURRENCE_ORIGIN_BACKFILL: OccurrenceOrigin
APPLY_ACTION_UNSPECIFIED: ApplyAction
APPLY_ACTION_CREATE: ApplyAction
APPLY_ACTION_UPDATE: ApplyAction
APPLY_ACTION_DELETE: ApplyAction
APPLY_ACTION_NONE: ApplyAction
BACKFILL_STATE_UNSPECIFIED: BackfillState
BACKFILL_STATE_RUNNING: BackfillState
BACKFILL_STATE_SUCCEEDED: BackfillState
BACKFILL_STATE_CANCELLED: BackfillState
PREVIEW_CAUSE_UNSPECIFIED: PreviewCause
PREVIEW_CAUSE_DST_GAP: PreviewCause
PREVIEW_CAUSE_DST_OVERLAP: PreviewCause
PREVIEW_CAUSE_ZONE_CORRECTION: PreviewCause
PREVIEW_CAUSE_EXCLUDED_DATE: PreviewCause
PREVIEW_CAUSE_EXCLUDED_CALENDAR: PreviewCause
PREVIEW_CAUSE_JITTER: PreviewCause

class OnceRule(_message.Message):
    __slots__ = ("run_time", "local_time")
    RUN_TIME_FIELD_NUMBER: _ClassVar[int]
    LOCAL_TIME_FIELD_NUMBER: _ClassVar[int]
    run_time: _timestamp_pb2.Timestamp
    local_time: str
    def __init__(self, run_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., local_time: _Optional[str] = ...) -> None: ...

class CronRule(_message.Message):
    __slots__ = ("expression",)
    EXPRESSION_FIELD_NUMBER: _ClassVar[int]
    expression: str
    def __init__(self, expression: _Optional[str] = ...) -> None: ...

class IntervalRule(_message.Message):
    __slots__ = ("every", "anchor_time")
    EVERY_FIELD_NUMBER: _ClassVar[int]
    ANCHOR_TIME_FIELD_NUMBER: _ClassVar[int]
    every: _duration_pb2.Duration
    anchor_time: _timestamp_pb2.Timestamp
    def __init__(self, every: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., anchor_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class RecurrenceRule(_message.Message):
    __slots__ = ("text",)
    TEXT_FIELD_NUMBER: _ClassVar[int]
    text: str
    def __init__(self, text: _Optional[str] = ...) -> None: ...

class Jitter(_message.Message):
    __slots__ = ("mode", "span")
    MODE_FIELD_NUMBER: _ClassVar[int]
    SPAN_FIELD_NUMBER: _ClassVar[int]
    mode: JitterMode
    span: _duration_pb2.Duration
    def __init__(self, mode: _Optional[_Union[JitterMode, str]] = ..., span: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Exclusions(_message.Message):
    __slots__ = ("dates", "calendars")
    DATES_FIELD_NUMBER: _ClassVar[int]
    CALENDARS_FIELD_NUMBER: _ClassVar[int]
    dates: _containers.RepeatedScalarFieldContainer[str]
    calendars: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, dates: _Optional[_Iterable[str]] = ..., calendars: _Optional[_Iterable[str]] = ...) -> None: ...

class MissedRunPolicy(_message.Message):
    __slots__ = ("mode", "late_tolerance", "catch_up_window", "catch_up_max")
    MODE_FIELD_NUMBER: _ClassVar[int]
    LATE_TOLERANCE_FIELD_NUMBER: _ClassVar[int]
    CATCH_UP_WINDOW_FIELD_NUMBER: _ClassVar[int]
    CATCH_UP_MAX_FIELD_NUMBER: _ClassVar[int]
    mode: MissedRunMode
    late_tolerance: _duration_pb2.Duration
    catch_up_window: _duration_pb2.Duration
    catch_up_max: int
    def __init__(self, mode: _Optional[_Union[MissedRunMode, str]] = ..., late_tolerance: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., catch_up_window: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., catch_up_max: _Optional[int] = ...) -> None: ...

class OverlapPolicy(_message.Message):
    __slots__ = ("mode", "limit")
    MODE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    mode: OverlapMode
    limit: int
    def __init__(self, mode: _Optional[_Union[OverlapMode, str]] = ..., limit: _Optional[int] = ...) -> None: ...

class JobTemplate(_message.Message):
    __slots__ = ("type", "queue", "priority", "payload", "headers", "labels", "retry_policy", "timeouts", "concurrency_key")
    class HeadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TYPE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    RETRY_POLICY_FIELD_NUMBER: _ClassVar[int]
    TIMEOUTS_FIELD_NUMBER: _ClassVar[int]
    CONCURRENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    type: str
    queue: str
    priority: int
    payload: _common_pb2.Payload
    headers: _containers.ScalarMap[str, str]
    labels: _containers.ScalarMap[str, str]
    retry_policy: _common_pb2.RetryPolicy
    timeouts: _common_pb2.Timeouts
    concurrency_key: str
    def __init__(self, type: _Optional[str] = ..., queue: _Optional[str] = ..., priority: _Optional[int] = ..., payload: _Optional[_Union[_common_pb2.Payload, _Mapping]] = ..., headers: _Optional[_Mapping[str, str]] = ..., labels: _Optional[_Mapping[str, str]] = ..., retry_policy: _Optional[_Union[_common_pb2.RetryPolicy, _Mapping]] = ..., timeouts: _Optional[_Union[_common_pb2.Timeouts, _Mapping]] = ..., concurrency_key: _Optional[str] = ...) -> None: ...

class FateCount(_message.Message):
    __slots__ = ("fate", "count")
    FATE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    fate: OccurrenceFate
    count: int
    def __init__(self, fate: _Optional[_Union[OccurrenceFate, str]] = ..., count: _Optional[int] = ...) -> None: ...

class Schedule(_message.Message):
    __slots__ = ("name", "once", "cron", "interval", "rrule", "time_zone", "start_time", "end_time", "max_count", "jitter", "exclusions", "dst_gap", "dst_overlap", "missed_run_policy", "overlap_policy", "pause_after_failures", "job", "notes", "labels", "etag", "uid", "version", "state", "state_reason", "state_author", "state_time", "create_time", "update_time", "next_nominal_time", "next_due_time", "last_nominal_time", "last_fire_time", "last_job", "consecutive_failures", "fate_counts", "tzdata_version", "apply_set", "traceparent")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    ONCE_FIELD_NUMBER: _ClassVar[int]
    CRON_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    RRULE_FIELD_NUMBER: _ClassVar[int]
    TIME_ZONE_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    MAX_COUNT_FIELD_NUMBER: _ClassVar[int]
    JITTER_FIELD_NUMBER: _ClassVar[int]
    EXCLUSIONS_FIELD_NUMBER: _ClassVar[int]
    DST_GAP_FIELD_NUMBER: _ClassVar[int]
    DST_OVERLAP_FIELD_NUMBER: _ClassVar[int]
    MISSED_RUN_POLICY_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_POLICY_FIELD_NUMBER: _ClassVar[int]
    PAUSE_AFTER_FAILURES_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STATE_REASON_FIELD_NUMBER: _ClassVar[int]
    STATE_AUTHOR_FIELD_NUMBER: _ClassVar[int]
    STATE_TIME_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    NEXT_NOMINAL_TIME_FIELD_NUMBER: _ClassVar[int]
    NEXT_DUE_TIME_FIELD_NUMBER: _ClassVar[int]
    LAST_NOMINAL_TIME_FIELD_NUMBER: _ClassVar[int]
    LAST_FIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    LAST_JOB_FIELD_NUMBER: _ClassVar[int]
    CONSECUTIVE_FAILURES_FIELD_NUMBER: _ClassVar[int]
    FATE_COUNTS_FIELD_NUMBER: _ClassVar[int]
    TZDATA_VERSION_FIELD_NUMBER: _ClassVar[int]
    APPLY_SET_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    name: str
    once: OnceRule
    cron: CronRule
    interval: IntervalRule
    rrule: RecurrenceRule
    time_zone: str
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    max_count: int
    jitter: Jitter
    exclusions: Exclusions
    dst_gap: DstGap
    dst_overlap: DstOverlap
    missed_run_policy: MissedRunPolicy
    overlap_policy: OverlapPolicy
    pause_after_failures: int
    job: JobTemplate
    notes: str
    labels: _containers.ScalarMap[str, str]
    etag: str
    uid: str
    version: int
    state: ScheduleState
    state_reason: str
    state_author: str
    state_time: _timestamp_pb2.Timestamp
    create_time: _timestamp_pb2.Timestamp
    update_time: _timestamp_pb2.Timestamp
    next_nominal_time: _timestamp_pb2.Timestamp
    next_due_time: _timestamp_pb2.Timestamp
    last_nominal_time: _timestamp_pb2.Timestamp
    last_fire_time: _timestamp_pb2.Timestamp
    last_job: str
    consecutive_failures: int
    fate_counts: _containers.RepeatedCompositeFieldContainer[FateCount]
    tzdata_version: str
    apply_set: str
    traceparent: str
    def __init__(self, name: _Optional[str] = ..., once: _Optional[_Union[OnceRule, _Mapping]] = ..., cron: _Optional[_Union[CronRule, _Mapping]] = ..., interval: _Optional[_Union[IntervalRule, _Mapping]] = ..., rrule: _Optional[_Union[RecurrenceRule, _Mapping]] = ..., time_zone: _Optional[str] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., max_count: _Optional[int] = ..., jitter: _Optional[_Union[Jitter, _Mapping]] = ..., exclusions: _Optional[_Union[Exclusions, _Mapping]] = ..., dst_gap: _Optional[_Union[DstGap, str]] = ..., dst_overlap: _Optional[_Union[DstOverlap, str]] = ..., missed_run_policy: _Optional[_Union[MissedRunPolicy, _Mapping]] = ..., overlap_policy: _Optional[_Union[OverlapPolicy, _Mapping]] = ..., pause_after_failures: _Optional[int] = ..., job: _Optional[_Union[JobTemplate, _Mapping]] = ..., notes: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., etag: _Optional[str] = ..., uid: _Optional[str] = ..., version: _Optional[int] = ..., state: _Optional[_Union[ScheduleState, str]] = ..., state_reason: _Optional[str] = ..., state_author: _Optional[str] = ..., state_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., update_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., next_nominal_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., next_due_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_nominal_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_fire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_job: _Optional[str] = ..., consecutive_failures: _Optional[int] = ..., fate_counts: _Optional[_Iterable[_Union[FateCount, _Mapping]]] = ..., tzdata_version: _Optional[str] = ..., apply_set: _Optional[str] = ..., traceparent: _Optional[str] = ...) -> None: ...

class Occurrence(_message.Message):
    __slots__ = ("name", "nominal_time", "due_time", "local_time", "generation", "origin", "fate", "reason", "job", "blocking_job", "backfill", "schedule_version", "record_time", "count", "last_nominal_time", "forced")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NOMINAL_TIME_FIELD_NUMBER: _ClassVar[int]
    DUE_TIME_FIELD_NUMBER: _ClassVar[int]
    LOCAL_TIME_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    FATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    BLOCKING_JOB_FIELD_NUMBER: _ClassVar[int]
    BACKFILL_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_VERSION_FIELD_NUMBER: _ClassVar[int]
    RECORD_TIME_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    LAST_NOMINAL_TIME_FIELD_NUMBER: _ClassVar[int]
    FORCED_FIELD_NUMBER: _ClassVar[int]
    name: str
    nominal_time: _timestamp_pb2.Timestamp
    due_time: _timestamp_pb2.Timestamp
    local_time: str
    generation: int
    origin: OccurrenceOrigin
    fate: OccurrenceFate
    reason: str
    job: str
    blocking_job: str
    backfill: str
    schedule_version: int
    record_time: _timestamp_pb2.Timestamp
    count: int
    last_nominal_time: _timestamp_pb2.Timestamp
    forced: bool
    def __init__(self, name: _Optional[str] = ..., nominal_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., due_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., local_time: _Optional[str] = ..., generation: _Optional[int] = ..., origin: _Optional[_Union[OccurrenceOrigin, str]] = ..., fate: _Optional[_Union[OccurrenceFate, str]] = ..., reason: _Optional[str] = ..., job: _Optional[str] = ..., blocking_job: _Optional[str] = ..., backfill: _Optional[str] = ..., schedule_version: _Optional[int] = ..., record_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., count: _Optional[int] = ..., last_nominal_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., forced: bool = ...) -> None: ...

class CreateScheduleRequest(_message.Message):
    __slots__ = ("schedule", "schedule_id", "request_id", "paused")
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    schedule: Schedule
    schedule_id: str
    request_id: str
    paused: bool
    def __init__(self, schedule: _Optional[_Union[Schedule, _Mapping]] = ..., schedule_id: _Optional[str] = ..., request_id: _Optional[str] = ..., paused: bool = ...) -> None: ...

class CreateScheduleResponse(_message.Message):
    __slots__ = ("schedule",)
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    schedule: Schedule
    def __init__(self, schedule: _Optional[_Union[Schedule, _Mapping]] = ...) -> None: ...

class BatchCreateSchedulesRequest(_message.Message):
    __slots__ = ("requests", "request_id", "names_only")
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    NAMES_ONLY_FIELD_NUMBER: _ClassVar[int]
    requests: _containers.RepeatedCompositeFieldContainer[CreateScheduleRequest]
    request_id: str
    names_only: bool
    def __init__(self, requests: _Optional[_Iterable[_Union[CreateScheduleRequest, _Mapping]]] = ..., request_id: _Optional[str] = ..., names_only: bool = ...) -> None: ...

class BatchCreateSchedulesResponse(_message.Message):
    __slots__ = ("schedules",)
    SCHEDULES_FIELD_NUMBER: _ClassVar[int]
    schedules: _containers.RepeatedCompositeFieldContainer[Schedule]
    def __init__(self, schedules: _Optional[_Iterable[_Union[Schedule, _Mapping]]] = ...) -> None: ...

class ApplySchedulesRequest(_message.Message):
    __slots__ = ("apply_set", "schedules", "calendars", "prune", "validate_only", "request_id")
    APPLY_SET_FIELD_NUMBER: _ClassVar[int]
    SCHEDULES_FIELD_NUMBER: _ClassVar[int]
    CALENDARS_FIELD_NUMBER: _ClassVar[int]
    PRUNE_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    apply_set: str
    schedules: _containers.RepeatedCompositeFieldContainer[CreateScheduleRequest]
    calendars: _containers.RepeatedCompositeFieldContainer[CreateCalendarRequest]
    prune: bool
    validate_only: bool
    request_id: str
    def __init__(self, apply_set: _Optional[str] = ..., schedules: _Optional[_Iterable[_Union[CreateScheduleRequest, _Mapping]]] = ..., calendars: _Optional[_Iterable[_Union[CreateCalendarRequest, _Mapping]]] = ..., prune: bool = ..., validate_only: bool = ..., request_id: _Optional[str] = ...) -> None: ...

class ApplyChange(_message.Message):
    __slots__ = ("name", "action", "changed_fields")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELDS_FIELD_NUMBER: _ClassVar[int]
    name: str
    action: ApplyAction
    changed_fields: _field_mask_pb2.FieldMask
    def __init__(self, name: _Optional[str] = ..., action: _Optional[_Union[ApplyAction, str]] = ..., changed_fields: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ...) -> None: ...

class ApplySchedulesResponse(_message.Message):
    __slots__ = ("changes",)
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    changes: _containers.RepeatedCompositeFieldContainer[ApplyChange]
    def __init__(self, changes: _Optional[_Iterable[_Union[ApplyChange, _Mapping]]] = ...) -> None: ...

class GetScheduleRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetScheduleResponse(_message.Message):
    __slots__ = ("schedule",)
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    schedule: Schedule
    def __init__(self, schedule: _Optional[_Union[Schedule, _Mapping]] = ...) -> None: ...

class ListSchedulesRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "state", "labels", "type", "queue", "id_prefix", "apply_set")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    ID_PREFIX_FIELD_NUMBER: _ClassVar[int]
    APPLY_SET_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    state: ScheduleState
    labels: _containers.ScalarMap[str, str]
    type: str
    queue: str
    id_prefix: str
    apply_set: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., state: _Optional[_Union[ScheduleState, str]] = ..., labels: _Optional[_Mapping[str, str]] = ..., type: _Optional[str] = ..., queue: _Optional[str] = ..., id_prefix: _Optional[str] = ..., apply_set: _Optional[str] = ...) -> None: ...

class ListSchedulesResponse(_message.Message):
    __slots__ = ("schedules", "next_page_token")
    SCHEDULES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    schedules: _containers.RepeatedCompositeFieldContainer[Schedule]
    next_page_token: str
    def __init__(self, schedules: _Optional[_Iterable[_Union[Schedule, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class UpdateScheduleRequest(_message.Message):
    __slots__ = ("schedule", "update_mask", "request_id")
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    schedule: Schedule
    update_mask: _field_mask_pb2.FieldMask
    request_id: str
    def __init__(self, schedule: _Optional[_Union[Schedule, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class UpdateScheduleResponse(_message.Message):
    __slots__ = ("schedule",)
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    schedule: Schedule
    def __init__(self, schedule: _Optional[_Union[Schedule, _Mapping]] = ...) -> None: ...

class DeleteScheduleRequest(_message.Message):
    __slots__ = ("name", "etag", "cancel_jobs", "cancel_mode", "allow_missing")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    CANCEL_JOBS_FIELD_NUMBER: _ClassVar[int]
    CANCEL_MODE_FIELD_NUMBER: _ClassVar[int]
    ALLOW_MISSING_FIELD_NUMBER: _ClassVar[int]
    name: str
    etag: str
    cancel_jobs: bool
    cancel_mode: _jobs_pb2.CancelMode
    allow_missing: bool
    def __init__(self, name: _Optional[str] = ..., etag: _Optional[str] = ..., cancel_jobs: bool = ..., cancel_mode: _Optional[_Union[_jobs_pb2.CancelMode, str]] = ..., allow_missing: bool = ...) -> None: ...

class DeleteScheduleResponse(_message.Message):
    __slots__ = ("withdrawn_jobs", "cancelled_jobs")
    WITHDRAWN_JOBS_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_JOBS_FIELD_NUMBER: _ClassVar[int]
    withdrawn_jobs: int
    cancelled_jobs: int
    def __init__(self, withdrawn_jobs: _Optional[int] = ..., cancelled_jobs: _Optional[int] = ...) -> None: ...

class PauseScheduleRequest(_message.Message):
    __slots__ = ("name", "reason", "etag")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    name: str
    reason: str
    etag: str
    def __init__(self, name: _Optional[str] = ..., reason: _Optional[str] = ..., etag: _Optional[str] = ...) -> None: ...

class PauseScheduleResponse(_message.Message):
    __slots__ = ("schedule",)
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    schedule: Schedule
    def __init__(self, schedule: _Optional[_Union[Schedule, _Mapping]] = ...) -> None: ...

class ResumeScheduleRequest(_message.Message):
    __slots__ = ("name", "reason", "etag", "catch_up")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    CATCH_UP_FIELD_NUMBER: _ClassVar[int]
    name: str
    reason: str
    etag: str
    catch_up: MissedRunPolicy
    def __init__(self, name: _Optional[str] = ..., reason: _Optional[str] = ..., etag: _Optional[str] = ..., catch_up: _Optional[_Union[MissedRunPolicy, _Mapping]] = ...) -> None: ...

class ResumeScheduleResponse(_message.Message):
    __slots__ = ("schedule",)
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    schedule: Schedule
    def __init__(self, schedule: _Optional[_Union[Schedule, _Mapping]] = ...) -> None: ...

class TriggerScheduleRequest(_message.Message):
    __slots__ = ("name", "request_id", "force", "payload", "reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    request_id: str
    force: bool
    payload: _common_pb2.Payload
    reason: str
    def __init__(self, name: _Optional[str] = ..., request_id: _Optional[str] = ..., force: bool = ..., payload: _Optional[_Union[_common_pb2.Payload, _Mapping]] = ..., reason: _Optional[str] = ...) -> None: ...

class TriggerScheduleResponse(_message.Message):
    __slots__ = ("occurrence", "job")
    OCCURRENCE_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    occurrence: Occurrence
    job: _jobs_pb2.Job
    def __init__(self, occurrence: _Optional[_Union[Occurrence, _Mapping]] = ..., job: _Optional[_Union[_jobs_pb2.Job, _Mapping]] = ...) -> None: ...

class Backfill(_message.Message):
    __slots__ = ("name", "start_time", "end_time", "include_fired", "rate", "overlap_policy", "priority", "reason", "state", "total_count", "done_count", "fired_count", "next_nominal_time", "author", "create_time", "finish_time")
    NAME_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_FIRED_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_POLICY_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_COUNT_FIELD_NUMBER: _ClassVar[int]
    DONE_COUNT_FIELD_NUMBER: _ClassVar[int]
    FIRED_COUNT_FIELD_NUMBER: _ClassVar[int]
    NEXT_NOMINAL_TIME_FIELD_NUMBER: _ClassVar[int]
    AUTHOR_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    FINISH_TIME_FIELD_NUMBER: _ClassVar[int]
    name: str
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    include_fired: bool
    rate: float
    overlap_policy: OverlapPolicy
    priority: int
    reason: str
    state: BackfillState
    total_count: int
    done_count: int
    fired_count: int
    next_nominal_time: _timestamp_pb2.Timestamp
    author: str
    create_time: _timestamp_pb2.Timestamp
    finish_time: _timestamp_pb2.Timestamp
    def __init__(self, name: _Optional[str] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., include_fired: bool = ..., rate: _Optional[float] = ..., overlap_policy: _Optional[_Union[OverlapPolicy, _Mapping]] = ..., priority: _Optional[int] = ..., reason: _Optional[str] = ..., state: _Optional[_Union[BackfillState, str]] = ..., total_count: _Optional[int] = ..., done_count: _Optional[int] = ..., fired_count: _Optional[int] = ..., next_nominal_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., author: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., finish_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class BackfillScheduleRequest(_message.Message):
    __slots__ = ("name", "backfill", "request_id", "validate_only")
    NAME_FIELD_NUMBER: _ClassVar[int]
    BACKFILL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    name: str
    backfill: Backfill
    request_id: str
    validate_only: bool
    def __init__(self, name: _Optional[str] = ..., backfill: _Optional[_Union[Backfill, _Mapping]] = ..., request_id: _Optional[str] = ..., validate_only: bool = ...) -> None: ...

class BackfillScheduleResponse(_message.Message):
    __slots__ = ("backfill",)
    BACKFILL_FIELD_NUMBER: _ClassVar[int]
    backfill: Backfill
    def __init__(self, backfill: _Optional[_Union[Backfill, _Mapping]] = ...) -> None: ...

class GetBackfillRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetBackfillResponse(_message.Message):
    __slots__ = ("backfill",)
    BACKFILL_FIELD_NUMBER: _ClassVar[int]
    backfill: Backfill
    def __init__(self, backfill: _Optional[_Union[Backfill, _Mapping]] = ...) -> None: ...

class ListBackfillsRequest(_message.Message):
    __slots__ = ("parent", "page_size", "page_token")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    parent: str
    page_size: int
    page_token: str
    def __init__(self, parent: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListBackfillsResponse(_message.Message):
    __slots__ = ("backfills", "next_page_token")
    BACKFILLS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    backfills: _containers.RepeatedCompositeFieldContainer[Backfill]
    next_page_token: str
    def __init__(self, backfills: _Optional[_Iterable[_Union[Backfill, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class CancelBackfillRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class CancelBackfillResponse(_message.Message):
    __slots__ = ("backfill",)
    BACKFILL_FIELD_NUMBER: _ClassVar[int]
    backfill: Backfill
    def __init__(self, backfill: _Optional[_Union[Backfill, _Mapping]] = ...) -> None: ...

class PreviewScheduleRequest(_message.Message):
    __slots__ = ("name", "schedule", "start_time", "count")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    name: str
    schedule: Schedule
    start_time: _timestamp_pb2.Timestamp
    count: int
    def __init__(self, name: _Optional[str] = ..., schedule: _Optional[_Union[Schedule, _Mapping]] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., count: _Optional[int] = ...) -> None: ...

class PreviewReason(_message.Message):
    __slots__ = ("cause", "text")
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    cause: PreviewCause
    text: str
    def __init__(self, cause: _Optional[_Union[PreviewCause, str]] = ..., text: _Optional[str] = ...) -> None: ...

class PreviewedOccurrence(_message.Message):
    __slots__ = ("nominal_time", "due_time", "local_time", "zone_abbreviation", "removed", "reasons")
    NOMINAL_TIME_FIELD_NUMBER: _ClassVar[int]
    DUE_TIME_FIELD_NUMBER: _ClassVar[int]
    LOCAL_TIME_FIELD_NUMBER: _ClassVar[int]
    ZONE_ABBREVIATION_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    nominal_time: _timestamp_pb2.Timestamp
    due_time: _timestamp_pb2.Timestamp
    local_time: str
    zone_abbreviation: str
    removed: bool
    reasons: _containers.RepeatedCompositeFieldContainer[PreviewReason]
    def __init__(self, nominal_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., due_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., local_time: _Optional[str] = ..., zone_abbreviation: _Optional[str] = ..., removed: bool = ..., reasons: _Optional[_Iterable[_Union[PreviewReason, _Mapping]]] = ...) -> None: ...

class PreviewScheduleResponse(_message.Message):
    __slots__ = ("occurrences", "exhausted", "tzdata_version")
    OCCURRENCES_FIELD_NUMBER: _ClassVar[int]
    EXHAUSTED_FIELD_NUMBER: _ClassVar[int]
    TZDATA_VERSION_FIELD_NUMBER: _ClassVar[int]
    occurrences: _containers.RepeatedCompositeFieldContainer[PreviewedOccurrence]
    exhausted: bool
    tzdata_version: str
    def __init__(self, occurrences: _Optional[_Iterable[_Union[PreviewedOccurrence, _Mapping]]] = ..., exhausted: bool = ..., tzdata_version: _Optional[str] = ...) -> None: ...

class ListOccurrencesRequest(_message.Message):
    __slots__ = ("parent", "page_size", "page_token", "fate", "start_time", "end_time")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    FATE_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    parent: str
    page_size: int
    page_token: str
    fate: OccurrenceFate
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    def __init__(self, parent: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., fate: _Optional[_Union[OccurrenceFate, str]] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ListOccurrencesResponse(_message.Message):
    __slots__ = ("occurrences", "next_page_token")
    OCCURRENCES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    occurrences: _containers.RepeatedCompositeFieldContainer[Occurrence]
    next_page_token: str
    def __init__(self, occurrences: _Optional[_Iterable[_Union[Occurrence, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class Calendar(_message.Message):
    __slots__ = ("name", "dates", "notes", "labels", "etag", "uid", "create_time", "update_time")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    DATES_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    name: str
    dates: _containers.RepeatedScalarFieldContainer[str]
    notes: str
    labels: _containers.ScalarMap[str, str]
    etag: str
    uid: str
    create_time: _timestamp_pb2.Timestamp
    update_time: _timestamp_pb2.Timestamp
    def __init__(self, name: _Optional[str] = ..., dates: _Optional[_Iterable[str]] = ..., notes: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., etag: _Optional[str] = ..., uid: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., update_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class CreateCalendarRequest(_message.Message):
    __slots__ = ("calendar", "calendar_id", "request_id")
    CALENDAR_FIELD_NUMBER: _ClassVar[int]
    CALENDAR_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    calendar: Calendar
    calendar_id: str
    request_id: str
    def __init__(self, calendar: _Optional[_Union[Calendar, _Mapping]] = ..., calendar_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class CreateCalendarResponse(_message.Message):
    __slots__ = ("calendar",)
    CALENDAR_FIELD_NUMBER: _ClassVar[int]
    calendar: Calendar
    def __init__(self, calendar: _Optional[_Union[Calendar, _Mapping]] = ...) -> None: ...

class GetCalendarRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetCalendarResponse(_message.Message):
    __slots__ = ("calendar",)
    CALENDAR_FIELD_NUMBER: _ClassVar[int]
    calendar: Calendar
    def __init__(self, calendar: _Optional[_Union[Calendar, _Mapping]] = ...) -> None: ...

class ListCalendarsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "labels")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    labels: _containers.ScalarMap[str, str]
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ListCalendarsResponse(_message.Message):
    __slots__ = ("calendars", "next_page_token")
    CALENDARS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    calendars: _containers.RepeatedCompositeFieldContainer[Calendar]
    next_page_token: str
    def __init__(self, calendars: _Optional[_Iterable[_Union[Calendar, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class UpdateCalendarRequest(_message.Message):
    __slots__ = ("calendar", "update_mask", "request_id")
    CALENDAR_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    calendar: Calendar
    update_mask: _field_mask_pb2.FieldMask
    request_id: str
    def __init__(self, calendar: _Optional[_Union[Calendar, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class UpdateCalendarResponse(_message.Message):
    __slots__ = ("calendar",)
    CALENDAR_FIELD_NUMBER: _ClassVar[int]
    calendar: Calendar
    def __init__(self, calendar: _Optional[_Union[Calendar, _Mapping]] = ...) -> None: ...

class DeleteCalendarRequest(_message.Message):
    __slots__ = ("name", "etag", "allow_missing")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    ALLOW_MISSING_FIELD_NUMBER: _ClassVar[int]
    name: str
    etag: str
    allow_missing: bool
    def __init__(self, name: _Optional[str] = ..., etag: _Optional[str] = ..., allow_missing: bool = ...) -> None: ...

class DeleteCalendarResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
