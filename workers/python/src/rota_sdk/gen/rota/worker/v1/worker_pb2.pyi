import datetime

from google.api import annotations_pb2 as _annotations_pb2
from google.api import field_behavior_pb2 as _field_behavior_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.rpc import status_pb2 as _status_pb2
from rota_sdk.gen.rota.v1 import common_pb2 as _common_pb2
from rota_sdk.gen.rota.v1 import jobs_pb2 as _jobs_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DirectiveKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DIRECTIVE_KIND_UNSPECIFIED: _ClassVar[DirectiveKind]
    DIRECTIVE_KIND_CANCEL: _ClassVar[DirectiveKind]
    DIRECTIVE_KIND_LOST: _ClassVar[DirectiveKind]
    DIRECTIVE_KIND_DRAIN: _ClassVar[DirectiveKind]
    DIRECTIVE_KIND_RECONNECT: _ClassVar[DirectiveKind]
    DIRECTIVE_KIND_SLOW_DOWN: _ClassVar[DirectiveKind]
    DIRECTIVE_KIND_RESYNC: _ClassVar[DirectiveKind]

class InDoubtPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    IN_DOUBT_POLICY_UNSPECIFIED: _ClassVar[InDoubtPolicy]
    IN_DOUBT_POLICY_ASK: _ClassVar[InDoubtPolicy]
    IN_DOUBT_POLICY_ASSUME_DONE: _ClassVar[InDoubtPolicy]
    IN_DOUBT_POLICY_REDO: _ClassVar[InDoubtPolicy]

class CloseMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CLOSE_MODE_UNSPECIFIED: _ClassVar[CloseMode]
    CLOSE_MODE_DRAIN: _ClassVar[CloseMode]
    CLOSE_MODE_NOW: _ClassVar[CloseMode]
DIRECTIVE_KIND_UNSPECIFIED: DirectiveKind
DIRECTIVE_KIND_CANCEL: DirectiveKind
DIRECTIVE_KIND_LOST: DirectiveKind
DIRECTIVE_KIND_DRAIN: DirectiveKind
DIRECTIVE_KIND_RECONNECT: DirectiveKind
DIRECTIVE_KIND_SLOW_DOWN: DirectiveKind
DIRECTIVE_KIND_RESYNC: DirectiveKind
IN_DOUBT_POLICY_UNSPECIFIED: InDoubtPolicy
IN_DOUBT_POLICY_ASK: InDoubtPolicy
IN_DOUBT_POLICY_ASSUME_DONE: InDoubtPolicy
IN_DOUBT_POLICY_REDO: InDoubtPolicy
CLOSE_MODE_UNSPECIFIED: CloseMode
CLOSE_MODE_DRAIN: CloseMode
CLOSE_MODE_NOW: CloseMode

class OpenSessionRequest(_message.Message):
    __slots__ = ("worker", "sdk", "build_id", "queues", "types", "slots", "labels", "protocol_version", "request_id")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    WORKER_FIELD_NUMBER: _ClassVar[int]
    SDK_FIELD_NUMBER: _ClassVar[int]
    BUILD_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    TYPES_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    worker: str
    sdk: str
    build_id: str
    queues: _containers.RepeatedScalarFieldContainer[str]
    types: _containers.RepeatedScalarFieldContainer[str]
    slots: int
    labels: _containers.ScalarMap[str, str]
    protocol_version: int
    request_id: str
    def __init__(self, worker: _Optional[str] = ..., sdk: _Optional[str] = ..., build_id: _Optional[str] = ..., queues: _Optional[_Iterable[str]] = ..., types: _Optional[_Iterable[str]] = ..., slots: _Optional[int] = ..., labels: _Optional[_Mapping[str, str]] = ..., protocol_version: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class OpenSessionResponse(_message.Message):
    __slots__ = ("session", "epoch", "lease_ttl", "delivery_ttl", "beat_interval", "max_wait", "max_results", "protocol_version")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LEASE_TTL_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_TTL_FIELD_NUMBER: _ClassVar[int]
    BEAT_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    MAX_WAIT_FIELD_NUMBER: _ClassVar[int]
    MAX_RESULTS_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    session: str
    epoch: int
    lease_ttl: _duration_pb2.Duration
    delivery_ttl: _duration_pb2.Duration
    beat_interval: _duration_pb2.Duration
    max_wait: _duration_pb2.Duration
    max_results: int
    protocol_version: int
    def __init__(self, session: _Optional[str] = ..., epoch: _Optional[int] = ..., lease_ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., delivery_ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., beat_interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., max_wait: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., max_results: _Optional[int] = ..., protocol_version: _Optional[int] = ...) -> None: ...

class LeaseRequest(_message.Message):
    __slots__ = ("session", "poller", "request_id", "ack_batch", "capacity", "max_bytes", "wait")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    POLLER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ACK_BATCH_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    session: str
    poller: int
    request_id: str
    ack_batch: int
    capacity: int
    max_bytes: int
    wait: _duration_pb2.Duration
    def __init__(self, session: _Optional[str] = ..., poller: _Optional[int] = ..., request_id: _Optional[str] = ..., ack_batch: _Optional[int] = ..., capacity: _Optional[int] = ..., max_bytes: _Optional[int] = ..., wait: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class LeaseResponse(_message.Message):
    __slots__ = ("batch", "leases", "next_poll_after", "directives")
    BATCH_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    NEXT_POLL_AFTER_FIELD_NUMBER: _ClassVar[int]
    DIRECTIVES_FIELD_NUMBER: _ClassVar[int]
    batch: int
    leases: _containers.RepeatedCompositeFieldContainer[Lease]
    next_poll_after: _duration_pb2.Duration
    directives: _containers.RepeatedCompositeFieldContainer[Directive]
    def __init__(self, batch: _Optional[int] = ..., leases: _Optional[_Iterable[_Union[Lease, _Mapping]]] = ..., next_poll_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., directives: _Optional[_Iterable[_Union[Directive, _Mapping]]] = ...) -> None: ...

class Lease(_message.Message):
    __slots__ = ("job", "fence", "attempt", "ttl", "delivery_ttl", "run_timeout", "deadline", "type", "queue", "payload", "headers", "effect_key", "traceparent", "tracestate", "nominal_time", "due_time", "priority", "max_attempts", "attempts_counted", "schedule")
    class HeadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    JOB_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_TTL_FIELD_NUMBER: _ClassVar[int]
    RUN_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    EFFECT_KEY_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    TRACESTATE_FIELD_NUMBER: _ClassVar[int]
    NOMINAL_TIME_FIELD_NUMBER: _ClassVar[int]
    DUE_TIME_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_COUNTED_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    job: str
    fence: int
    attempt: int
    ttl: _duration_pb2.Duration
    delivery_ttl: _duration_pb2.Duration
    run_timeout: _duration_pb2.Duration
    deadline: _duration_pb2.Duration
    type: str
    queue: str
    payload: _common_pb2.Payload
    headers: _containers.ScalarMap[str, str]
    effect_key: str
    traceparent: str
    tracestate: str
    nominal_time: _timestamp_pb2.Timestamp
    due_time: _timestamp_pb2.Timestamp
    priority: int
    max_attempts: int
    attempts_counted: int
    schedule: str
    def __init__(self, job: _Optional[str] = ..., fence: _Optional[int] = ..., attempt: _Optional[int] = ..., ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., delivery_ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., run_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., deadline: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., type: _Optional[str] = ..., queue: _Optional[str] = ..., payload: _Optional[_Union[_common_pb2.Payload, _Mapping]] = ..., headers: _Optional[_Mapping[str, str]] = ..., effect_key: _Optional[str] = ..., traceparent: _Optional[str] = ..., tracestate: _Optional[str] = ..., nominal_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., due_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., priority: _Optional[int] = ..., max_attempts: _Optional[int] = ..., attempts_counted: _Optional[int] = ..., schedule: _Optional[str] = ...) -> None: ...

class Inventory(_message.Message):
    __slots__ = ("leases", "batches")
    class BatchesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    LEASES_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    leases: _containers.RepeatedCompositeFieldContainer[HeldLease]
    batches: _containers.ScalarMap[int, int]
    def __init__(self, leases: _Optional[_Iterable[_Union[HeldLease, _Mapping]]] = ..., batches: _Optional[_Mapping[int, int]] = ...) -> None: ...

class HeldLease(_message.Message):
    __slots__ = ("job", "fence")
    JOB_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    job: str
    fence: int
    def __init__(self, job: _Optional[str] = ..., fence: _Optional[int] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("job", "fence", "note")
    JOB_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    job: str
    fence: int
    note: str
    def __init__(self, job: _Optional[str] = ..., fence: _Optional[int] = ..., note: _Optional[str] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("session", "inventory")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    INVENTORY_FIELD_NUMBER: _ClassVar[int]
    session: str
    inventory: Inventory
    def __init__(self, session: _Optional[str] = ..., inventory: _Optional[_Union[Inventory, _Mapping]] = ...) -> None: ...

class Beat(_message.Message):
    __slots__ = ("seq", "inventory", "free_slots", "progress", "acked_directives")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    INVENTORY_FIELD_NUMBER: _ClassVar[int]
    FREE_SLOTS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    ACKED_DIRECTIVES_FIELD_NUMBER: _ClassVar[int]
    seq: int
    inventory: Inventory
    free_slots: int
    progress: _containers.RepeatedCompositeFieldContainer[Progress]
    acked_directives: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, seq: _Optional[int] = ..., inventory: _Optional[_Union[Inventory, _Mapping]] = ..., free_slots: _Optional[int] = ..., progress: _Optional[_Iterable[_Union[Progress, _Mapping]]] = ..., acked_directives: _Optional[_Iterable[int]] = ...) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ("hello", "beat")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    BEAT_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    beat: Beat
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., beat: _Optional[_Union[Beat, _Mapping]] = ...) -> None: ...

class BeatAck(_message.Message):
    __slots__ = ("seq", "renewed_for", "lost", "directives")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    RENEWED_FOR_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    DIRECTIVES_FIELD_NUMBER: _ClassVar[int]
    seq: int
    renewed_for: _duration_pb2.Duration
    lost: _containers.RepeatedCompositeFieldContainer[HeldLease]
    directives: _containers.RepeatedCompositeFieldContainer[Directive]
    def __init__(self, seq: _Optional[int] = ..., renewed_for: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., lost: _Optional[_Iterable[_Union[HeldLease, _Mapping]]] = ..., directives: _Optional[_Iterable[_Union[Directive, _Mapping]]] = ...) -> None: ...

class HeartbeatResponse(_message.Message):
    __slots__ = ("ack", "directive")
    ACK_FIELD_NUMBER: _ClassVar[int]
    DIRECTIVE_FIELD_NUMBER: _ClassVar[int]
    ack: BeatAck
    directive: Directive
    def __init__(self, ack: _Optional[_Union[BeatAck, _Mapping]] = ..., directive: _Optional[_Union[Directive, _Mapping]] = ...) -> None: ...

class Directive(_message.Message):
    __slots__ = ("id", "kind", "job", "fence", "reason")
    ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    id: int
    kind: DirectiveKind
    job: str
    fence: int
    reason: str
    def __init__(self, id: _Optional[int] = ..., kind: _Optional[_Union[DirectiveKind, str]] = ..., job: _Optional[str] = ..., fence: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class SendHeartbeatRequest(_message.Message):
    __slots__ = ("session", "beat")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    BEAT_FIELD_NUMBER: _ClassVar[int]
    session: str
    beat: Beat
    def __init__(self, session: _Optional[str] = ..., beat: _Optional[_Union[Beat, _Mapping]] = ...) -> None: ...

class SendHeartbeatResponse(_message.Message):
    __slots__ = ("ack",)
    ACK_FIELD_NUMBER: _ClassVar[int]
    ack: BeatAck
    def __init__(self, ack: _Optional[_Union[BeatAck, _Mapping]] = ...) -> None: ...

class Succeeded(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: _common_pb2.Payload
    def __init__(self, result: _Optional[_Union[_common_pb2.Payload, _Mapping]] = ...) -> None: ...

class Failed(_message.Message):
    __slots__ = ("failure", "retryable", "retry_after", "effect_state")
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    EFFECT_STATE_FIELD_NUMBER: _ClassVar[int]
    failure: _common_pb2.Failure
    retryable: bool
    retry_after: _duration_pb2.Duration
    effect_state: _common_pb2.EffectState
    def __init__(self, failure: _Optional[_Union[_common_pb2.Failure, _Mapping]] = ..., retryable: bool = ..., retry_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., effect_state: _Optional[_Union[_common_pb2.EffectState, str]] = ...) -> None: ...

class Released(_message.Message):
    __slots__ = ("reason", "delay")
    REASON_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    reason: str
    delay: _duration_pb2.Duration
    def __init__(self, reason: _Optional[str] = ..., delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Cancelled(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class Result(_message.Message):
    __slots__ = ("job", "fence", "request_id", "succeeded", "failed", "released", "cancelled", "effect_receipts", "spawned", "traceparent")
    JOB_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    EFFECT_RECEIPTS_FIELD_NUMBER: _ClassVar[int]
    SPAWNED_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    job: str
    fence: int
    request_id: str
    succeeded: Succeeded
    failed: Failed
    released: Released
    cancelled: Cancelled
    effect_receipts: _containers.RepeatedCompositeFieldContainer[_common_pb2.EffectReceipt]
    spawned: _containers.RepeatedCompositeFieldContainer[_jobs_pb2.CreateJobRequest]
    traceparent: str
    def __init__(self, job: _Optional[str] = ..., fence: _Optional[int] = ..., request_id: _Optional[str] = ..., succeeded: _Optional[_Union[Succeeded, _Mapping]] = ..., failed: _Optional[_Union[Failed, _Mapping]] = ..., released: _Optional[_Union[Released, _Mapping]] = ..., cancelled: _Optional[_Union[Cancelled, _Mapping]] = ..., effect_receipts: _Optional[_Iterable[_Union[_common_pb2.EffectReceipt, _Mapping]]] = ..., spawned: _Optional[_Iterable[_Union[_jobs_pb2.CreateJobRequest, _Mapping]]] = ..., traceparent: _Optional[str] = ...) -> None: ...

class CompleteRequest(_message.Message):
    __slots__ = ("session", "results")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    session: str
    results: _containers.RepeatedCompositeFieldContainer[Result]
    def __init__(self, session: _Optional[str] = ..., results: _Optional[_Iterable[_Union[Result, _Mapping]]] = ...) -> None: ...

class ResultStatus(_message.Message):
    __slots__ = ("status", "duplicate", "state")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    status: _status_pb2.Status
    duplicate: bool
    state: _jobs_pb2.JobState
    def __init__(self, status: _Optional[_Union[_status_pb2.Status, _Mapping]] = ..., duplicate: bool = ..., state: _Optional[_Union[_jobs_pb2.JobState, str]] = ...) -> None: ...

class CompleteResponse(_message.Message):
    __slots__ = ("statuses",)
    STATUSES_FIELD_NUMBER: _ClassVar[int]
    statuses: _containers.RepeatedCompositeFieldContainer[ResultStatus]
    def __init__(self, statuses: _Optional[_Iterable[_Union[ResultStatus, _Mapping]]] = ...) -> None: ...

class CompleteJobRequest(_message.Message):
    __slots__ = ("job", "session", "fence", "request_id", "succeeded", "failed", "released", "cancelled", "effect_receipts", "spawned", "traceparent")
    JOB_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    EFFECT_RECEIPTS_FIELD_NUMBER: _ClassVar[int]
    SPAWNED_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    job: str
    session: str
    fence: int
    request_id: str
    succeeded: Succeeded
    failed: Failed
    released: Released
    cancelled: Cancelled
    effect_receipts: _containers.RepeatedCompositeFieldContainer[_common_pb2.EffectReceipt]
    spawned: _containers.RepeatedCompositeFieldContainer[_jobs_pb2.CreateJobRequest]
    traceparent: str
    def __init__(self, job: _Optional[str] = ..., session: _Optional[str] = ..., fence: _Optional[int] = ..., request_id: _Optional[str] = ..., succeeded: _Optional[_Union[Succeeded, _Mapping]] = ..., failed: _Optional[_Union[Failed, _Mapping]] = ..., released: _Optional[_Union[Released, _Mapping]] = ..., cancelled: _Optional[_Union[Cancelled, _Mapping]] = ..., effect_receipts: _Optional[_Iterable[_Union[_common_pb2.EffectReceipt, _Mapping]]] = ..., spawned: _Optional[_Iterable[_Union[_jobs_pb2.CreateJobRequest, _Mapping]]] = ..., traceparent: _Optional[str] = ...) -> None: ...

class CompleteJobResponse(_message.Message):
    __slots__ = ("duplicate", "state")
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    duplicate: bool
    state: _jobs_pb2.JobState
    def __init__(self, duplicate: bool = ..., state: _Optional[_Union[_jobs_pb2.JobState, str]] = ...) -> None: ...

class BeginEffectRequest(_message.Message):
    __slots__ = ("job", "fence", "effect_key", "in_doubt")
    JOB_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    EFFECT_KEY_FIELD_NUMBER: _ClassVar[int]
    IN_DOUBT_FIELD_NUMBER: _ClassVar[int]
    job: str
    fence: int
    effect_key: str
    in_doubt: InDoubtPolicy
    def __init__(self, job: _Optional[str] = ..., fence: _Optional[int] = ..., effect_key: _Optional[str] = ..., in_doubt: _Optional[_Union[InDoubtPolicy, str]] = ...) -> None: ...

class BeginEffectResponse(_message.Message):
    __slots__ = ("proceed", "state", "receipt")
    PROCEED_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    proceed: bool
    state: _common_pb2.EffectState
    receipt: _common_pb2.EffectReceipt
    def __init__(self, proceed: bool = ..., state: _Optional[_Union[_common_pb2.EffectState, str]] = ..., receipt: _Optional[_Union[_common_pb2.EffectReceipt, _Mapping]] = ...) -> None: ...

class CommitEffectRequest(_message.Message):
    __slots__ = ("job", "fence", "effect_key", "state", "receipt")
    JOB_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    EFFECT_KEY_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    job: str
    fence: int
    effect_key: str
    state: _common_pb2.EffectState
    receipt: _common_pb2.EffectReceipt
    def __init__(self, job: _Optional[str] = ..., fence: _Optional[int] = ..., effect_key: _Optional[str] = ..., state: _Optional[_Union[_common_pb2.EffectState, str]] = ..., receipt: _Optional[_Union[_common_pb2.EffectReceipt, _Mapping]] = ...) -> None: ...

class CommitEffectResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CloseSessionRequest(_message.Message):
    __slots__ = ("session", "mode")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    session: str
    mode: CloseMode
    def __init__(self, session: _Optional[str] = ..., mode: _Optional[_Union[CloseMode, str]] = ...) -> None: ...

class CloseSessionResponse(_message.Message):
    __slots__ = ("released",)
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    released: int
    def __init__(self, released: _Optional[int] = ...) -> None: ...
