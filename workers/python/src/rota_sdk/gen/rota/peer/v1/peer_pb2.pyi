import datetime

from google.api import field_behavior_pb2 as _field_behavior_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from rota_sdk.gen.rota.worker.v1 import worker_pb2 as _worker_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Hello(_message.Message):
    __slots__ = ("coordinator", "protocol_version")
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    coordinator: str
    protocol_version: int
    def __init__(self, coordinator: _Optional[str] = ..., protocol_version: _Optional[int] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("coordinator", "protocol_version")
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    coordinator: str
    protocol_version: int
    def __init__(self, coordinator: _Optional[str] = ..., protocol_version: _Optional[int] = ...) -> None: ...

class DemandEntry(_message.Message):
    __slots__ = ("id", "tenant", "queue", "types", "free_slots")
    ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    TYPES_FIELD_NUMBER: _ClassVar[int]
    FREE_SLOTS_FIELD_NUMBER: _ClassVar[int]
    id: int
    tenant: str
    queue: str
    types: _containers.RepeatedScalarFieldContainer[str]
    free_slots: int
    def __init__(self, id: _Optional[int] = ..., tenant: _Optional[str] = ..., queue: _Optional[str] = ..., types: _Optional[_Iterable[str]] = ..., free_slots: _Optional[int] = ...) -> None: ...

class Demand(_message.Message):
    __slots__ = ("entries",)
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[DemandEntry]
    def __init__(self, entries: _Optional[_Iterable[_Union[DemandEntry, _Mapping]]] = ...) -> None: ...

class AvailabilityEntry(_message.Message):
    __slots__ = ("demand_id", "ready_count", "priority", "oldest_age")
    DEMAND_ID_FIELD_NUMBER: _ClassVar[int]
    READY_COUNT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    OLDEST_AGE_FIELD_NUMBER: _ClassVar[int]
    demand_id: int
    ready_count: int
    priority: int
    oldest_age: _duration_pb2.Duration
    def __init__(self, demand_id: _Optional[int] = ..., ready_count: _Optional[int] = ..., priority: _Optional[int] = ..., oldest_age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Availability(_message.Message):
    __slots__ = ("entries",)
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[AvailabilityEntry]
    def __init__(self, entries: _Optional[_Iterable[_Union[AvailabilityEntry, _Mapping]]] = ...) -> None: ...

class DueEntry(_message.Message):
    __slots__ = ("shard", "due_time", "count")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    DUE_TIME_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    shard: int
    due_time: _timestamp_pb2.Timestamp
    count: int
    def __init__(self, shard: _Optional[int] = ..., due_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., count: _Optional[int] = ...) -> None: ...

class Due(_message.Message):
    __slots__ = ("jobs", "schedules")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    SCHEDULES_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[DueEntry]
    schedules: _containers.RepeatedCompositeFieldContainer[DueEntry]
    def __init__(self, jobs: _Optional[_Iterable[_Union[DueEntry, _Mapping]]] = ..., schedules: _Optional[_Iterable[_Union[DueEntry, _Mapping]]] = ...) -> None: ...

class SettledLease(_message.Message):
    __slots__ = ("job", "fence", "shard")
    JOB_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    job: str
    fence: int
    shard: int
    def __init__(self, job: _Optional[str] = ..., fence: _Optional[int] = ..., shard: _Optional[int] = ...) -> None: ...

class Settled(_message.Message):
    __slots__ = ("leases",)
    LEASES_FIELD_NUMBER: _ClassVar[int]
    leases: _containers.RepeatedCompositeFieldContainer[SettledLease]
    def __init__(self, leases: _Optional[_Iterable[_Union[SettledLease, _Mapping]]] = ...) -> None: ...

class LinkRequest(_message.Message):
    __slots__ = ("seq", "hello", "demand", "availability", "due", "settled")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    DEMAND_FIELD_NUMBER: _ClassVar[int]
    AVAILABILITY_FIELD_NUMBER: _ClassVar[int]
    DUE_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    seq: int
    hello: Hello
    demand: Demand
    availability: Availability
    due: Due
    settled: Settled
    def __init__(self, seq: _Optional[int] = ..., hello: _Optional[_Union[Hello, _Mapping]] = ..., demand: _Optional[_Union[Demand, _Mapping]] = ..., availability: _Optional[_Union[Availability, _Mapping]] = ..., due: _Optional[_Union[Due, _Mapping]] = ..., settled: _Optional[_Union[Settled, _Mapping]] = ...) -> None: ...

class LinkAck(_message.Message):
    __slots__ = ("seq",)
    SEQ_FIELD_NUMBER: _ClassVar[int]
    seq: int
    def __init__(self, seq: _Optional[int] = ...) -> None: ...

class Goodbye(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LinkResponse(_message.Message):
    __slots__ = ("welcome", "ack", "goodbye")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    ack: LinkAck
    goodbye: Goodbye
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., ack: _Optional[_Union[LinkAck, _Mapping]] = ..., goodbye: _Optional[_Union[Goodbye, _Mapping]] = ...) -> None: ...

class ClaimRequest(_message.Message):
    __slots__ = ("coordinator", "tenant", "session", "session_epoch", "poller", "request_id", "batch", "demand_ids", "capacity", "max_bytes")
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SESSION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    POLLER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    DEMAND_IDS_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    coordinator: str
    tenant: str
    session: str
    session_epoch: int
    poller: int
    request_id: str
    batch: int
    demand_ids: _containers.RepeatedScalarFieldContainer[int]
    capacity: int
    max_bytes: int
    def __init__(self, coordinator: _Optional[str] = ..., tenant: _Optional[str] = ..., session: _Optional[str] = ..., session_epoch: _Optional[int] = ..., poller: _Optional[int] = ..., request_id: _Optional[str] = ..., batch: _Optional[int] = ..., demand_ids: _Optional[_Iterable[int]] = ..., capacity: _Optional[int] = ..., max_bytes: _Optional[int] = ...) -> None: ...

class ClaimResponse(_message.Message):
    __slots__ = ("leases", "left")
    LEASES_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    leases: _containers.RepeatedCompositeFieldContainer[_worker_pb2.Lease]
    left: Availability
    def __init__(self, leases: _Optional[_Iterable[_Union[_worker_pb2.Lease, _Mapping]]] = ..., left: _Optional[_Union[Availability, _Mapping]] = ...) -> None: ...

class ShardOffer(_message.Message):
    __slots__ = ("shard", "epoch", "watermark_time")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    WATERMARK_TIME_FIELD_NUMBER: _ClassVar[int]
    shard: int
    epoch: int
    watermark_time: _timestamp_pb2.Timestamp
    def __init__(self, shard: _Optional[int] = ..., epoch: _Optional[int] = ..., watermark_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class HandOverShardsRequest(_message.Message):
    __slots__ = ("coordinator", "shards", "reason")
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    coordinator: str
    shards: _containers.RepeatedCompositeFieldContainer[ShardOffer]
    reason: str
    def __init__(self, coordinator: _Optional[str] = ..., shards: _Optional[_Iterable[_Union[ShardOffer, _Mapping]]] = ..., reason: _Optional[str] = ...) -> None: ...

class ShardTaken(_message.Message):
    __slots__ = ("shard", "epoch")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    shard: int
    epoch: int
    def __init__(self, shard: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class HandOverShardsResponse(_message.Message):
    __slots__ = ("shards",)
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    shards: _containers.RepeatedCompositeFieldContainer[ShardTaken]
    def __init__(self, shards: _Optional[_Iterable[_Union[ShardTaken, _Mapping]]] = ...) -> None: ...

class SendDirectivesRequest(_message.Message):
    __slots__ = ("session", "session_epoch", "directives")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SESSION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    DIRECTIVES_FIELD_NUMBER: _ClassVar[int]
    session: str
    session_epoch: int
    directives: _containers.RepeatedCompositeFieldContainer[_worker_pb2.Directive]
    def __init__(self, session: _Optional[str] = ..., session_epoch: _Optional[int] = ..., directives: _Optional[_Iterable[_Union[_worker_pb2.Directive, _Mapping]]] = ...) -> None: ...

class SendDirectivesResponse(_message.Message):
    __slots__ = ("attached",)
    ATTACHED_FIELD_NUMBER: _ClassVar[int]
    attached: bool
    def __init__(self, attached: bool = ...) -> None: ...
