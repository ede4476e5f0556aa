import datetime

from google.api import annotations_pb2 as _annotations_pb2
from google.api import field_behavior_pb2 as _field_behavior_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import field_mask_pb2 as _field_mask_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from rota_sdk.gen.rota.v1 import common_pb2 as _common_pb2
from rota_sdk.gen.rota.v1 import jobs_pb2 as _jobs_pb2
from rota_sdk.gen.rota.v1 import schedules_pb2 as _schedules_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DeadCause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DEAD_CAUSE_UNSPECIFIED: _ClassVar[DeadCause]
    DEAD_CAUSE_ATTEMPTS_EXHAUSTED: _ClassVar[DeadCause]
    DEAD_CAUSE_NOT_RETRYABLE: _ClassVar[DeadCause]
    DEAD_CAUSE_TOTAL_TIMEOUT: _ClassVar[DeadCause]

class RedriveState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REDRIVE_STATE_UNSPECIFIED: _ClassVar[RedriveState]
    REDRIVE_STATE_RUNNING: _ClassVar[RedriveState]
    REDRIVE_STATE_SUCCEEDED: _ClassVar[RedriveState]
    REDRIVE_STATE_CANCELLED: _ClassVar[RedriveState]

class SessionState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SESSION_STATE_UNSPECIFIED: _ClassVar[SessionState]
    SESSION_STATE_ACTIVE: _ClassVar[SessionState]
    SESSION_STATE_STALLED: _ClassVar[SessionState]
    SESSION_STATE_DRAINING: _ClassVar[SessionState]
    SESSION_STATE_CLOSED: _ClassVar[SessionState]
    SESSION_STATE_EXPIRED: _ClassVar[SessionState]

class TenantState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TENANT_STATE_UNSPECIFIED: _ClassVar[TenantState]
    TENANT_STATE_ACTIVE: _ClassVar[TenantState]
    TENANT_STATE_SUSPENDED: _ClassVar[TenantState]

class Role(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROLE_UNSPECIFIED: _ClassVar[Role]
    ROLE_CLIENT: _ClassVar[Role]
    ROLE_WORKER: _ClassVar[Role]
    ROLE_OPERATOR: _ClassVar[Role]
DEAD_CAUSE_UNSPECIFIED: DeadCause
DEAD_CAUSE_ATTEMPTS_EXHAUSTED: DeadCause
DEAD_CAUSE_NOT_RETRYABLE: DeadCause
DEAD_CAUSE_TOTAL_TIMEOUT: DeadCause
REDRIVE_STATE_UNSPECIFIED: RedriveState
REDRIVE_STATE_RUNNING: RedriveState
REDRIVE_STATE_SUCCEEDED: RedriveState
REDRIVE_STATE_CANCELLED: RedriveState
SESSION_STATE_UNSPECIFIED: SessionState
SESSION_STATE_ACTIVE: SessionState
SESSION_STATE_STALLED: SessionState
SESSION_STATE_DRAINING: SessionState
SESSION_STATE_CLOSED: SessionState
SESSION_STATE_EXPIRED: SessionState
TENANT_STATE_UNSPECIFIED: TenantState
TENANT_STATE_ACTIVE: TenantState
TENANT_STATE_SUSPENDED: TenantState
ROLE_UNSPECIFIED: Role
ROLE_CLIENT: Role
ROLE_WORKER: Role
ROLE_OPERATOR: Role

class DeadLetter(_message.Message):
    __slots__ = ("name", "job", "cause", "dead_time", "redrive_count", "last_redriven_by")
    NAME_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    DEAD_TIME_FIELD_NUMBER: _ClassVar[int]
    REDRIVE_COUNT_FIELD_NUMBER: _ClassVar[int]
    LAST_REDRIVEN_BY_FIELD_NUMBER: _ClassVar[int]
    name: str
    job: _jobs_pb2.Job
    cause: DeadCause
    dead_time: _timestamp_pb2.Timestamp
    redrive_count: int
    last_redriven_by: str
    def __init__(self, name: _Optional[str] = ..., job: _Optional[_Union[_jobs_pb2.Job, _Mapping]] = ..., cause: _Optional[_Union[DeadCause, str]] = ..., dead_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., redrive_count: _Optional[int] = ..., last_redriven_by: _Optional[str] = ...) -> None: ...

class DeadLetterFilter(_message.Message):
    __slots__ = ("queue", "type", "schedule", "failure_type", "cause", "start_time", "end_time", "labels")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    FAILURE_TYPE_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    queue: str
    type: str
    schedule: str
    failure_type: str
    cause: DeadCause
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    labels: _containers.ScalarMap[str, str]
    def __init__(self, queue: _Optional[str] = ..., type: _Optional[str] = ..., schedule: _Optional[str] = ..., failure_type: _Optional[str] = ..., cause: _Optional[_Union[DeadCause, str]] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., labels: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ListDeadLettersRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "filter")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    filter: DeadLetterFilter
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., filter: _Optional[_Union[DeadLetterFilter, _Mapping]] = ...) -> None: ...

class ListDeadLettersResponse(_message.Message):
    __slots__ = ("dead_letters", "next_page_token")
    DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    dead_letters: _containers.RepeatedCompositeFieldContainer[DeadLetter]
    next_page_token: str
    def __init__(self, dead_letters: _Optional[_Iterable[_Union[DeadLetter, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class GetDeadLetterRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetDeadLetterResponse(_message.Message):
    __slots__ = ("dead_letter",)
    DEAD_LETTER_FIELD_NUMBER: _ClassVar[int]
    dead_letter: DeadLetter
    def __init__(self, dead_letter: _Optional[_Union[DeadLetter, _Mapping]] = ...) -> None: ...

class Redrive(_message.Message):
    __slots__ = ("name", "dead_letters", "filter", "rate", "max_count", "new_generation", "reason", "state", "total_count", "redriven_count", "refused_count", "author", "create_time", "finish_time")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    MAX_COUNT_FIELD_NUMBER: _ClassVar[int]
    NEW_GENERATION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_COUNT_FIELD_NUMBER: _ClassVar[int]
    REDRIVEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    REFUSED_COUNT_FIELD_NUMBER: _ClassVar[int]
    AUTHOR_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    FINISH_TIME_FIELD_NUMBER: _ClassVar[int]
    name: str
    dead_letters: _containers.RepeatedScalarFieldContainer[str]
    filter: DeadLetterFilter
    rate: float
    max_count: int
    new_generation: bool
    reason: str
    state: RedriveState
    total_count: int
    redriven_count: int
    refused_count: int
    author: str
    create_time: _timestamp_pb2.Timestamp
    finish_time: _timestamp_pb2.Timestamp
    def __init__(self, name: _Optional[str] = ..., dead_letters: _Optional[_Iterable[str]] = ..., filter: _Optional[_Union[DeadLetterFilter, _Mapping]] = ..., rate: _Optional[float] = ..., max_count: _Optional[int] = ..., new_generation: bool = ..., reason: _Optional[str] = ..., state: _Optional[_Union[RedriveState, str]] = ..., total_count: _Optional[int] = ..., redriven_count: _Optional[int] = ..., refused_count: _Optional[int] = ..., author: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., finish_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class RedriveDeadLettersRequest(_message.Message):
    __slots__ = ("redrive", "request_id", "validate_only")
    REDRIVE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    redrive: Redrive
    request_id: str
    validate_only: bool
    def __init__(self, redrive: _Optional[_Union[Redrive, _Mapping]] = ..., request_id: _Optional[str] = ..., validate_only: bool = ...) -> None: ...

class RedriveDeadLettersResponse(_message.Message):
    __slots__ = ("redrive", "examples")
    REDRIVE_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    redrive: Redrive
    examples: _containers.RepeatedCompositeFieldContainer[DeadLetter]
    def __init__(self, redrive: _Optional[_Union[Redrive, _Mapping]] = ..., examples: _Optional[_Iterable[_Union[DeadLetter, _Mapping]]] = ...) -> None: ...

class DiscardDeadLettersRequest(_message.Message):
    __slots__ = ("dead_letters", "filter", "max_count", "reason", "validate_only")
    DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    MAX_COUNT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    dead_letters: _containers.RepeatedScalarFieldContainer[str]
    filter: DeadLetterFilter
    max_count: int
    reason: str
    validate_only: bool
    def __init__(self, dead_letters: _Optional[_Iterable[str]] = ..., filter: _Optional[_Union[DeadLetterFilter, _Mapping]] = ..., max_count: _Optional[int] = ..., reason: _Optional[str] = ..., validate_only: bool = ...) -> None: ...

class DiscardDeadLettersResponse(_message.Message):
    __slots__ = ("discarded_count", "more")
    DISCARDED_COUNT_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    discarded_count: int
    more: bool
    def __init__(self, discarded_count: _Optional[int] = ..., more: bool = ...) -> None: ...

class GetRedriveRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetRedriveResponse(_message.Message):
    __slots__ = ("redrive",)
    REDRIVE_FIELD_NUMBER: _ClassVar[int]
    redrive: Redrive
    def __init__(self, redrive: _Optional[_Union[Redrive, _Mapping]] = ...) -> None: ...

class ListRedrivesRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListRedrivesResponse(_message.Message):
    __slots__ = ("redrives", "next_page_token")
    REDRIVES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    redrives: _containers.RepeatedCompositeFieldContainer[Redrive]
    next_page_token: str
    def __init__(self, redrives: _Optional[_Iterable[_Union[Redrive, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class CancelRedriveRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class CancelRedriveResponse(_message.Message):
    __slots__ = ("redrive",)
    REDRIVE_FIELD_NUMBER: _ClassVar[int]
    redrive: Redrive
    def __init__(self, redrive: _Optional[_Union[Redrive, _Mapping]] = ...) -> None: ...

class Effect(_message.Message):
    __slots__ = ("name", "effect_key", "job", "fence", "state", "begin_time", "receipt", "holding", "resolved_by")
    NAME_FIELD_NUMBER: _ClassVar[int]
    EFFECT_KEY_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    BEGIN_TIME_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    HOLDING_FIELD_NUMBER: _ClassVar[int]
    RESOLVED_BY_FIELD_NUMBER: _ClassVar[int]
    name: str
    effect_key: str
    job: str
    fence: int
    state: _common_pb2.EffectState
    begin_time: _timestamp_pb2.Timestamp
    receipt: _common_pb2.EffectReceipt
    holding: bool
    resolved_by: str
    def __init__(self, name: _Optional[str] = ..., effect_key: _Optional[str] = ..., job: _Optional[str] = ..., fence: _Optional[int] = ..., state: _Optional[_Union[_common_pb2.EffectState, str]] = ..., begin_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., receipt: _Optional[_Union[_common_pb2.EffectReceipt, _Mapping]] = ..., holding: bool = ..., resolved_by: _Optional[str] = ...) -> None: ...

class ListEffectsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "job", "holding")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    HOLDING_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    job: str
    holding: bool
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., job: _Optional[str] = ..., holding: bool = ...) -> None: ...

class ListEffectsResponse(_message.Message):
    __slots__ = ("effects", "next_page_token")
    EFFECTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    effects: _containers.RepeatedCompositeFieldContainer[Effect]
    next_page_token: str
    def __init__(self, effects: _Optional[_Iterable[_Union[Effect, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ResolveEffectRequest(_message.Message):
    __slots__ = ("name", "state", "reference", "reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    state: _common_pb2.EffectState
    reference: str
    reason: str
    def __init__(self, name: _Optional[str] = ..., state: _Optional[_Union[_common_pb2.EffectState, str]] = ..., reference: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class ResolveEffectResponse(_message.Message):
    __slots__ = ("effect",)
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    effect: Effect
    def __init__(self, effect: _Optional[_Union[Effect, _Mapping]] = ...) -> None: ...

class Queue(_message.Message):
    __slots__ = ("name", "weight", "rate", "rate_burst", "max_in_flight", "max_in_flight_per_key", "etag", "paused", "pause_reason", "pause_author", "pause_time", "scheduled_count", "ready_count", "leased_count", "retry_wait_count", "dead_count", "oldest_ready_age", "session_count")
    NAME_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    RATE_BURST_FIELD_NUMBER: _ClassVar[int]
    MAX_IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    MAX_IN_FLIGHT_PER_KEY_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    PAUSE_REASON_FIELD_NUMBER: _ClassVar[int]
    PAUSE_AUTHOR_FIELD_NUMBER: _ClassVar[int]
    PAUSE_TIME_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_COUNT_FIELD_NUMBER: _ClassVar[int]
    READY_COUNT_FIELD_NUMBER: _ClassVar[int]
    LEASED_COUNT_FIELD_NUMBER: _ClassVar[int]
    RETRY_WAIT_COUNT_FIELD_NUMBER: _ClassVar[int]
    DEAD_COUNT_FIELD_NUMBER: _ClassVar[int]
    OLDEST_READY_AGE_FIELD_NUMBER: _ClassVar[int]
    SESSION_COUNT_FIELD_NUMBER: _ClassVar[int]
    name: str
    weight: int
    rate: float
    rate_burst: int
    max_in_flight: int
    max_in_flight_per_key: int
    etag: str
    paused: bool
    pause_reason: str
    pause_author: str
    pause_time: _timestamp_pb2.Timestamp
    scheduled_count: int
    ready_count: int
    leased_count: int
    retry_wait_count: int
    dead_count: int
    oldest_ready_age: _duration_pb2.Duration
    session_count: int
    def __init__(self, name: _Optional[str] = ..., weight: _Optional[int] = ..., rate: _Optional[float] = ..., rate_burst: _Optional[int] = ..., max_in_flight: _Optional[int] = ..., max_in_flight_per_key: _Optional[int] = ..., etag: _Optional[str] = ..., paused: bool = ..., pause_reason: _Optional[str] = ..., pause_author: _Optional[str] = ..., pause_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., scheduled_count: _Optional[int] = ..., ready_count: _Optional[int] = ..., leased_count: _Optional[int] = ..., retry_wait_count: _Optional[int] = ..., dead_count: _Optional[int] = ..., oldest_ready_age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., session_count: _Optional[int] = ...) -> None: ...

class ListQueuesRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListQueuesResponse(_message.Message):
    __slots__ = ("queues", "next_page_token")
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedCompositeFieldContainer[Queue]
    next_page_token: str
    def __init__(self, queues: _Optional[_Iterable[_Union[Queue, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class GetQueueRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetQueueResponse(_message.Message):
    __slots__ = ("queue",)
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    queue: Queue
    def __init__(self, queue: _Optional[_Union[Queue, _Mapping]] = ...) -> None: ...

class UpdateQueueRequest(_message.Message):
    __slots__ = ("queue", "update_mask")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    queue: Queue
    update_mask: _field_mask_pb2.FieldMask
    def __init__(self, queue: _Optional[_Union[Queue, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ...) -> None: ...

class UpdateQueueResponse(_message.Message):
    __slots__ = ("queue",)
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    queue: Queue
    def __init__(self, queue: _Optional[_Union[Queue, _Mapping]] = ...) -> None: ...

class PauseQueueRequest(_message.Message):
    __slots__ = ("name", "reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    reason: str
    def __init__(self, name: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class PauseQueueResponse(_message.Message):
    __slots__ = ("queue",)
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    queue: Queue
    def __init__(self, queue: _Optional[_Union[Queue, _Mapping]] = ...) -> None: ...

class ResumeQueueRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ResumeQueueResponse(_message.Message):
    __slots__ = ("queue",)
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    queue: Queue
    def __init__(self, queue: _Optional[_Union[Queue, _Mapping]] = ...) -> None: ...

class PurgeQueueRequest(_message.Message):
    __slots__ = ("name", "states", "type", "max_count", "reason", "validate_only")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    MAX_COUNT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    name: str
    states: _containers.RepeatedScalarFieldContainer[_jobs_pb2.JobState]
    type: str
    max_count: int
    reason: str
    validate_only: bool
    def __init__(self, name: _Optional[str] = ..., states: _Optional[_Iterable[_Union[_jobs_pb2.JobState, str]]] = ..., type: _Optional[str] = ..., max_count: _Optional[int] = ..., reason: _Optional[str] = ..., validate_only: bool = ...) -> None: ...

class PurgeQueueResponse(_message.Message):
    __slots__ = ("purged_count", "more")
    PURGED_COUNT_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    purged_count: int
    more: bool
    def __init__(self, purged_count: _Optional[int] = ..., more: bool = ...) -> None: ...

class Session(_message.Message):
    __slots__ = ("name", "worker", "sdk", "build_id", "queues", "types", "slots", "free_slots", "labels", "state", "open_time", "last_beat_time", "expire_time", "leases", "coordinator", "protocol_version", "epoch")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    SDK_FIELD_NUMBER: _ClassVar[int]
    BUILD_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    TYPES_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    FREE_SLOTS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    OPEN_TIME_FIELD_NUMBER: _ClassVar[int]
    LAST_BEAT_TIME_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    name: str
    worker: str
    sdk: str
    build_id: str
    queues: _containers.RepeatedScalarFieldContainer[str]
    types: _containers.RepeatedScalarFieldContainer[str]
    slots: int
    free_slots: int
    labels: _containers.ScalarMap[str, str]
    state: SessionState
    open_time: _timestamp_pb2.Timestamp
    last_beat_time: _timestamp_pb2.Timestamp
    expire_time: _timestamp_pb2.Timestamp
    leases: int
    coordinator: str
    protocol_version: int
    epoch: int
    def __init__(self, name: _Optional[str] = ..., worker: _Optional[str] = ..., sdk: _Optional[str] = ..., build_id: _Optional[str] = ..., queues: _Optional[_Iterable[str]] = ..., types: _Optional[_Iterable[str]] = ..., slots: _Optional[int] = ..., free_slots: _Optional[int] = ..., labels: _Optional[_Mapping[str, str]] = ..., state: _Optional[_Union[SessionState, str]] = ..., open_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_beat_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., leases: _Optional[int] = ..., coordinator: _Optional[str] = ..., protocol_version: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class ListSessionsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "state", "queue", "show_ended")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    SHOW_ENDED_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    state: SessionState
    queue: str
    show_ended: bool
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., state: _Optional[_Union[SessionState, str]] = ..., queue: _Optional[str] = ..., show_ended: bool = ...) -> None: ...

class ListSessionsResponse(_message.Message):
    __slots__ = ("sessions", "next_page_token")
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    sessions: _containers.RepeatedCompositeFieldContainer[Session]
    next_page_token: str
    def __init__(self, sessions: _Optional[_Iterable[_Union[Session, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class GetSessionRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetSessionResponse(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: Session
    def __init__(self, session: _Optional[_Union[Session, _Mapping]] = ...) -> None: ...

class DrainSessionRequest(_message.Message):
    __slots__ = ("name", "reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    reason: str
    def __init__(self, name: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class DrainSessionResponse(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: Session
    def __init__(self, session: _Optional[_Union[Session, _Mapping]] = ...) -> None: ...

class ExpireSessionRequest(_message.Message):
    __slots__ = ("name", "reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    reason: str
    def __init__(self, name: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class ExpireSessionResponse(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: Session
    def __init__(self, session: _Optional[_Union[Session, _Mapping]] = ...) -> None: ...

class Coordinator(_message.Message):
    __slots__ = ("name", "address", "version", "start_time", "expire_time", "draining", "shard_count", "session_count")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    SHARD_COUNT_FIELD_NUMBER: _ClassVar[int]
    SESSION_COUNT_FIELD_NUMBER: _ClassVar[int]
    name: str
    address: str
    version: str
    start_time: _timestamp_pb2.Timestamp
    expire_time: _timestamp_pb2.Timestamp
    draining: bool
    shard_count: int
    session_count: int
    def __init__(self, name: _Optional[str] = ..., address: _Optional[str] = ..., version: _Optional[str] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., draining: bool = ..., shard_count: _Optional[int] = ..., session_count: _Optional[int] = ...) -> None: ...

class ListCoordinatorsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListCoordinatorsResponse(_message.Message):
    __slots__ = ("coordinators", "next_page_token")
    COORDINATORS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    coordinators: _containers.RepeatedCompositeFieldContainer[Coordinator]
    next_page_token: str
    def __init__(self, coordinators: _Optional[_Iterable[_Union[Coordinator, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class Shard(_message.Message):
    __slots__ = ("name", "epoch", "coordinator", "expire_time", "watermark_time")
    NAME_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    WATERMARK_TIME_FIELD_NUMBER: _ClassVar[int]
    name: str
    epoch: int
    coordinator: str
    expire_time: _timestamp_pb2.Timestamp
    watermark_time: _timestamp_pb2.Timestamp
    def __init__(self, name: _Optional[str] = ..., epoch: _Optional[int] = ..., coordinator: _Optional[str] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., watermark_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ListShardsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "coordinator")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    coordinator: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., coordinator: _Optional[str] = ...) -> None: ...

class ListShardsResponse(_message.Message):
    __slots__ = ("shards", "next_page_token")
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    shards: _containers.RepeatedCompositeFieldContainer[Shard]
    next_page_token: str
    def __init__(self, shards: _Optional[_Iterable[_Union[Shard, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class MoveShardRequest(_message.Message):
    __slots__ = ("name", "coordinator")
    NAME_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    name: str
    coordinator: str
    def __init__(self, name: _Optional[str] = ..., coordinator: _Optional[str] = ...) -> None: ...

class MoveShardResponse(_message.Message):
    __slots__ = ("shard",)
    SHARD_FIELD_NUMBER: _ClassVar[int]
    shard: Shard
    def __init__(self, shard: _Optional[_Union[Shard, _Mapping]] = ...) -> None: ...

class Quota(_message.Message):
    __slots__ = ("max_schedules", "max_pending_jobs", "max_payload_bytes", "max_sessions", "max_in_flight", "create_rate", "create_burst")
    MAX_SCHEDULES_FIELD_NUMBER: _ClassVar[int]
    MAX_PENDING_JOBS_FIELD_NUMBER: _ClassVar[int]
    MAX_PAYLOAD_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_SESSIONS_FIELD_NUMBER: _ClassVar[int]
    MAX_IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    CREATE_RATE_FIELD_NUMBER: _ClassVar[int]
    CREATE_BURST_FIELD_NUMBER: _ClassVar[int]
    max_schedules: int
    max_pending_jobs: int
    max_payload_bytes: int
    max_sessions: int
    max_in_flight: int
    create_rate: float
    create_burst: int
    def __init__(self, max_schedules: _Optional[int] = ..., max_pending_jobs: _Optional[int] = ..., max_payload_bytes: _Optional[int] = ..., max_sessions: _Optional[int] = ..., max_in_flight: _Optional[int] = ..., create_rate: _Optional[float] = ..., create_burst: _Optional[int] = ...) -> None: ...

class Tenant(_message.Message):
    __slots__ = ("name", "display_name", "weight", "quota", "history_retention", "etag", "state", "suspend_reason", "suspend_time", "create_time")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_NAME_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    QUOTA_FIELD_NUMBER: _ClassVar[int]
    HISTORY_RETENTION_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SUSPEND_REASON_FIELD_NUMBER: _ClassVar[int]
    SUSPEND_TIME_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    name: str
    display_name: str
    weight: int
    quota: Quota
    history_retention: _duration_pb2.Duration
    etag: str
    state: TenantState
    suspend_reason: str
    suspend_time: _timestamp_pb2.Timestamp
    create_time: _timestamp_pb2.Timestamp
    def __init__(self, name: _Optional[str] = ..., display_name: _Optional[str] = ..., weight: _Optional[int] = ..., quota: _Optional[_Union[Quota, _Mapping]] = ..., history_retention: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., etag: _Optional[str] = ..., state: _Optional[_Union[TenantState, str]] = ..., suspend_reason: _Optional[str] = ..., suspend_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class CreateTenantRequest(_message.Message):
    __slots__ = ("tenant", "tenant_id")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    tenant: Tenant
    tenant_id: str
    def __init__(self, tenant: _Optional[_Union[Tenant, _Mapping]] = ..., tenant_id: _Optional[str] = ...) -> None: ...

class CreateTenantResponse(_message.Message):
    __slots__ = ("tenant",)
    TENANT_FIELD_NUMBER: _ClassVar[int]
    tenant: Tenant
    def __init__(self, tenant: _Optional[_Union[Tenant, _Mapping]] = ...) -> None: ...

class GetTenantRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetTenantResponse(_message.Message):
    __slots__ = ("tenant",)
    TENANT_FIELD_NUMBER: _ClassVar[int]
    tenant: Tenant
    def __init__(self, tenant: _Optional[_Union[Tenant, _Mapping]] = ...) -> None: ...

class ListTenantsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "state")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    state: TenantState
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., state: _Optional[_Union[TenantState, str]] = ...) -> None: ...

class ListTenantsResponse(_message.Message):
    __slots__ = ("tenants", "next_page_token")
    TENANTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    tenants: _containers.RepeatedCompositeFieldContainer[Tenant]
    next_page_token: str
    def __init__(self, tenants: _Optional[_Iterable[_Union[Tenant, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class UpdateTenantRequest(_message.Message):
    __slots__ = ("tenant", "update_mask")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    tenant: Tenant
    update_mask: _field_mask_pb2.FieldMask
    def __init__(self, tenant: _Optional[_Union[Tenant, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ...) -> None: ...

class UpdateTenantResponse(_message.Message):
    __slots__ = ("tenant",)
    TENANT_FIELD_NUMBER: _ClassVar[int]
    tenant: Tenant
    def __init__(self, tenant: _Optional[_Union[Tenant, _Mapping]] = ...) -> None: ...

class TenantUsage(_message.Message):
    __slots__ = ("name", "schedules", "pending_jobs", "payload_bytes", "dead_letters", "sessions", "in_flight", "create_rate", "quota")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SCHEDULES_FIELD_NUMBER: _ClassVar[int]
    PENDING_JOBS_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_BYTES_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    CREATE_RATE_FIELD_NUMBER: _ClassVar[int]
    QUOTA_FIELD_NUMBER: _ClassVar[int]
    name: str
    schedules: int
    pending_jobs: int
    payload_bytes: int
    dead_letters: int
    sessions: int
    in_flight: int
    create_rate: float
    quota: Quota
    def __init__(self, name: _Optional[str] = ..., schedules: _Optional[int] = ..., pending_jobs: _Optional[int] = ..., payload_bytes: _Optional[int] = ..., dead_letters: _Optional[int] = ..., sessions: _Optional[int] = ..., in_flight: _Optional[int] = ..., create_rate: _Optional[float] = ..., quota: _Optional[_Union[Quota, _Mapping]] = ...) -> None: ...

class GetTenantUsageRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetTenantUsageResponse(_message.Message):
    __slots__ = ("usage",)
    USAGE_FIELD_NUMBER: _ClassVar[int]
    usage: TenantUsage
    def __init__(self, usage: _Optional[_Union[TenantUsage, _Mapping]] = ...) -> None: ...

class SuspendTenantRequest(_message.Message):
    __slots__ = ("name", "reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    reason: str
    def __init__(self, name: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class SuspendTenantResponse(_message.Message):
    __slots__ = ("tenant",)
    TENANT_FIELD_NUMBER: _ClassVar[int]
    tenant: Tenant
    def __init__(self, tenant: _Optional[_Union[Tenant, _Mapping]] = ...) -> None: ...

class ResumeTenantRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ResumeTenantResponse(_message.Message):
    __slots__ = ("tenant",)
    TENANT_FIELD_NUMBER: _ClassVar[int]
    tenant: Tenant
    def __init__(self, tenant: _Optional[_Union[Tenant, _Mapping]] = ...) -> None: ...

class ApiKey(_message.Message):
    __slots__ = ("name", "display_name", "roles", "expire_time", "tenant", "prefix", "author", "create_time", "revoke_time", "last_use_time")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_NAME_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    AUTHOR_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    REVOKE_TIME_FIELD_NUMBER: _ClassVar[int]
    LAST_USE_TIME_FIELD_NUMBER: _ClassVar[int]
    name: str
    display_name: str
    roles: _containers.RepeatedScalarFieldContainer[Role]
    expire_time: _timestamp_pb2.Timestamp
    tenant: str
    prefix: str
    author: str
    create_time: _timestamp_pb2.Timestamp
    revoke_time: _timestamp_pb2.Timestamp
    last_use_time: _timestamp_pb2.Timestamp
    def __init__(self, name: _Optional[str] = ..., display_name: _Optional[str] = ..., roles: _Optional[_Iterable[_Union[Role, str]]] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., tenant: _Optional[str] = ..., prefix: _Optional[str] = ..., author: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., revoke_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_use_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class CreateApiKeyRequest(_message.Message):
    __slots__ = ("api_key",)
    API_KEY_FIELD_NUMBER: _ClassVar[int]
    api_key: ApiKey
    def __init__(self, api_key: _Optional[_Union[ApiKey, _Mapping]] = ...) -> None: ...

class CreateApiKeyResponse(_message.Message):
    __slots__ = ("api_key", "secret")
    API_KEY_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    api_key: ApiKey
    secret: str
    def __init__(self, api_key: _Optional[_Union[ApiKey, _Mapping]] = ..., secret: _Optional[str] = ...) -> None: ...

class ListApiKeysRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "tenant")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    tenant: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., tenant: _Optional[str] = ...) -> None: ...

class ListApiKeysResponse(_message.Message):
    __slots__ = ("api_keys", "next_page_token")
    API_KEYS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    api_keys: _containers.RepeatedCompositeFieldContainer[ApiKey]
    next_page_token: str
    def __init__(self, api_keys: _Optional[_Iterable[_Union[ApiKey, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class RevokeApiKeyRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class RevokeApiKeyResponse(_message.Message):
    __slots__ = ("api_key",)
    API_KEY_FIELD_NUMBER: _ClassVar[int]
    api_key: ApiKey
    def __init__(self, api_key: _Optional[_Union[ApiKey, _Mapping]] = ...) -> None: ...

class GetStatsRequest(_message.Message):
    __slots__ = ("queue",)
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    queue: str
    def __init__(self, queue: _Optional[str] = ...) -> None: ...

class JobStateCount(_message.Message):
    __slots__ = ("state", "count")
    STATE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    state: _jobs_pb2.JobState
    count: int
    def __init__(self, state: _Optional[_Union[_jobs_pb2.JobState, str]] = ..., count: _Optional[int] = ...) -> None: ...

class ScheduleStateCount(_message.Message):
    __slots__ = ("state", "count")
    STATE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    state: _schedules_pb2.ScheduleState
    count: int
    def __init__(self, state: _Optional[_Union[_schedules_pb2.ScheduleState, str]] = ..., count: _Optional[int] = ...) -> None: ...

class PriorityLag(_message.Message):
    __slots__ = ("priority", "eligible_p50", "eligible_p99", "dispatch_p50", "dispatch_p99", "leased_count")
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    ELIGIBLE_P50_FIELD_NUMBER: _ClassVar[int]
    ELIGIBLE_P99_FIELD_NUMBER: _ClassVar[int]
    DISPATCH_P50_FIELD_NUMBER: _ClassVar[int]
    DISPATCH_P99_FIELD_NUMBER: _ClassVar[int]
    LEASED_COUNT_FIELD_NUMBER: _ClassVar[int]
    priority: int
    eligible_p50: _duration_pb2.Duration
    eligible_p99: _duration_pb2.Duration
    dispatch_p50: _duration_pb2.Duration
    dispatch_p99: _duration_pb2.Duration
    leased_count: int
    def __init__(self, priority: _Optional[int] = ..., eligible_p50: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., eligible_p99: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., dispatch_p50: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., dispatch_p99: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., leased_count: _Optional[int] = ...) -> None: ...

class Stats(_message.Message):
    __slots__ = ("read_time", "jobs", "schedules", "sessions", "slots", "free_slots", "create_rate", "lease_rate", "success_rate", "failure_rate", "lags", "oldest_ready_age")
    READ_TIME_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    SCHEDULES_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    FREE_SLOTS_FIELD_NUMBER: _ClassVar[int]
    CREATE_RATE_FIELD_NUMBER: _ClassVar[int]
    LEASE_RATE_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_RATE_FIELD_NUMBER: _ClassVar[int]
    FAILURE_RATE_FIELD_NUMBER: _ClassVar[int]
    LAGS_FIELD_NUMBER: _ClassVar[int]
    OLDEST_READY_AGE_FIELD_NUMBER: _ClassVar[int]
    read_time: _timestamp_pb2.Timestamp
    jobs: _containers.RepeatedCompositeFieldContainer[JobStateCount]
    schedules: _containers.RepeatedCompositeFieldContainer[ScheduleStateCount]
    sessions: int
    slots: int
    free_slots: int
    create_rate: float
    lease_rate: float
    success_rate: float
    failure_rate: float
    lags: _containers.RepeatedCompositeFieldContainer[PriorityLag]
    oldest_ready_age: _duration_pb2.Duration
    def __init__(self, read_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., jobs: _Optional[_Iterable[_Union[JobStateCount, _Mapping]]] = ..., schedules: _Optional[_Iterable[_Union[ScheduleStateCount, _Mapping]]] = ..., sessions: _Optional[int] = ..., slots: _Optional[int] = ..., free_slots: _Optional[int] = ..., create_rate: _Optional[float] = ..., lease_rate: _Optional[float] = ..., success_rate: _Optional[float] = ..., failure_rate: _Optional[float] = ..., lags: _Optional[_Iterable[_Union[PriorityLag, _Mapping]]] = ..., oldest_ready_age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class GetStatsResponse(_message.Message):
    __slots__ = ("stats",)
    STATS_FIELD_NUMBER: _ClassVar[int]
    stats: Stats
    def __init__(self, stats: _Optional[_Union[Stats, _Mapping]] = ...) -> None: ...

class GetClockRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Clock(_message.Message):
    __slots__ = ("coordinator", "database_time", "skew", "uncertainty", "read_age", "hold_until_time", "tzdata_version")
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    DATABASE_TIME_FIELD_NUMBER: _ClassVar[int]
    SKEW_FIELD_NUMBER: _ClassVar[int]
    UNCERTAINTY_FIELD_NUMBER: _ClassVar[int]
    READ_AGE_FIELD_NUMBER: _ClassVar[int]
    HOLD_UNTIL_TIME_FIELD_NUMBER: _ClassVar[int]
    TZDATA_VERSION_FIELD_NUMBER: _ClassVar[int]
    coordinator: str
    database_time: _timestamp_pb2.Timestamp
    skew: _duration_pb2.Duration
    uncertainty: _duration_pb2.Duration
    read_age: _duration_pb2.Duration
    hold_until_time: _timestamp_pb2.Timestamp
    tzdata_version: str
    def __init__(self, coordinator: _Optional[str] = ..., database_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., skew: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., uncertainty: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., read_age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., hold_until_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., tzdata_version: _Optional[str] = ...) -> None: ...

class GetClockResponse(_message.Message):
    __slots__ = ("clock",)
    CLOCK_FIELD_NUMBER: _ClassVar[int]
    clock: Clock
    def __init__(self, clock: _Optional[_Union[Clock, _Mapping]] = ...) -> None: ...

class CheckInvariantsRequest(_message.Message):
    __slots__ = ("names", "repair", "max_examples")
    NAMES_FIELD_NUMBER: _ClassVar[int]
    REPAIR_FIELD_NUMBER: _ClassVar[int]
    MAX_EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    repair: bool
    max_examples: int
    def __init__(self, names: _Optional[_Iterable[str]] = ..., repair: bool = ..., max_examples: _Optional[int] = ...) -> None: ...

class InvariantResult(_message.Message):
    __slots__ = ("name", "description", "holds", "violation_count", "examples", "repaired_count")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    HOLDS_FIELD_NUMBER: _ClassVar[int]
    VIOLATION_COUNT_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    REPAIRED_COUNT_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    holds: bool
    violation_count: int
    examples: _containers.RepeatedScalarFieldContainer[str]
    repaired_count: int
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., holds: bool = ..., violation_count: _Optional[int] = ..., examples: _Optional[_Iterable[str]] = ..., repaired_count: _Optional[int] = ...) -> None: ...

class CheckInvariantsResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[InvariantResult]
    def __init__(self, results: _Optional[_Iterable[_Union[InvariantResult, _Mapping]]] = ...) -> None: ...
