from google.api import field_behavior_pb2 as _field_behavior_pb2
from rota_sdk.gen.rota.worker.v1 import worker_pb2 as _worker_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Hello(_message.Message):
    __slots__ = ("coordinator", "protocol_version", "callee")
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    CALLEE_FIELD_NUMBER: _ClassVar[int]
    coordinator: str
    protocol_version: int
    callee: str
    def __init__(self, coordinator: _Optional[str] = ..., protocol_version: _Optional[int] = ..., callee: _Optional[str] = ...) -> None: ...

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
    tenant: int
    queue: str
    types: _containers.RepeatedScalarFieldContainer[str]
    free_slots: int
    def __init__(self, id: _Optional[int] = ..., tenant: _Optional[int] = ..., queue: _Optional[str] = ..., types: _Optional[_Iterable[str]] = ..., free_slots: _Optional[int] = ...) -> None: ...

class Demand(_message.Message):
    __slots__ = ("entries",)
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[DemandEntry]
    def __init__(self, entries: _Optional[_Iterable[_Union[DemandEntry, _Mapping]]] = ...) -> None: ...

class AvailabilityEntry(_message.Message):
    __slots__ = ("demand_id", "ready_count", "order")
    DEMAND_ID_FIELD_NUMBER: _ClassVar[int]
    READY_COUNT_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    demand_id: int
    ready_count: int
    order: float
    def __init__(self, demand_id: _Optional[int] = ..., ready_count: _Optional[int] = ..., order: _Optional[float] = ...) -> None: ...

class Availability(_message.Message):
    __slots__ = ("entries",)
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[AvailabilityEntry]
    def __init__(self, entries: _Optional[_Iterable[_Union[AvailabilityEntry, _Mapping]]] = ...) -> None: ...

class WaitingJob(_message.Message):
    __slots__ = ("tenant", "id", "shard", "queue", "type", "priority", "due_us", "size", "start_by", "concurrency_key")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    DUE_US_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    START_BY_FIELD_NUMBER: _ClassVar[int]
    CONCURRENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    tenant: int
    id: str
    shard: int
    queue: str
    type: str
    priority: int
    due_us: int
    size: int
    start_by: float
    concurrency_key: str
    def __init__(self, tenant: _Optional[int] = ..., id: _Optional[str] = ..., shard: _Optional[int] = ..., queue: _Optional[str] = ..., type: _Optional[str] = ..., priority: _Optional[int] = ..., due_us: _Optional[int] = ..., size: _Optional[int] = ..., start_by: _Optional[float] = ..., concurrency_key: _Optional[str] = ...) -> None: ...

class Waiting(_message.Message):
    __slots__ = ("jobs",)
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[WaitingJob]
    def __init__(self, jobs: _Optional[_Iterable[_Union[WaitingJob, _Mapping]]] = ...) -> None: ...

class Armed(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class QueuesChanged(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LeaseRef(_message.Message):
    __slots__ = ("job", "fence")
    JOB_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    job: str
    fence: int
    def __init__(self, job: _Optional[str] = ..., fence: _Optional[int] = ...) -> None: ...

class Settled(_message.Message):
    __slots__ = ("leases",)
    LEASES_FIELD_NUMBER: _ClassVar[int]
    leases: _containers.RepeatedCompositeFieldContainer[LeaseRef]
    def __init__(self, leases: _Optional[_Iterable[_Union[LeaseRef, _Mapping]]] = ...) -> None: ...

class Proven(_message.Message):
    __slots__ = ("leases",)
    LEASES_FIELD_NUMBER: _ClassVar[int]
    leases: _containers.RepeatedCompositeFieldContainer[LeaseRef]
    def __init__(self, leases: _Optional[_Iterable[_Union[LeaseRef, _Mapping]]] = ...) -> None: ...

class SessionDirective(_message.Message):
    __slots__ = ("session", "directive")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    DIRECTIVE_FIELD_NUMBER: _ClassVar[int]
    session: str
    directive: _worker_pb2.Directive
    def __init__(self, session: _Optional[str] = ..., directive: _Optional[_Union[_worker_pb2.Directive, _Mapping]] = ...) -> None: ...

class Directives(_message.Message):
    __slots__ = ("entries",)
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[SessionDirective]
    def __init__(self, entries: _Optional[_Iterable[_Union[SessionDirective, _Mapping]]] = ...) -> None: ...

class SessionInventory(_message.Message):
    __slots__ = ("session", "tenant", "inventory", "beat_seq")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    INVENTORY_FIELD_NUMBER: _ClassVar[int]
    BEAT_SEQ_FIELD_NUMBER: _ClassVar[int]
    session: str
    tenant: int
    inventory: _worker_pb2.Inventory
    beat_seq: int
    def __init__(self, session: _Optional[str] = ..., tenant: _Optional[int] = ..., inventory: _Optional[_Union[_worker_pb2.Inventory, _Mapping]] = ..., beat_seq: _Optional[int] = ...) -> None: ...

class SessionsEnded(_message.Message):
    __slots__ = ("sessions",)
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    sessions: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, sessions: _Optional[_Iterable[str]] = ...) -> None: ...

class Gate(_message.Message):
    __slots__ = ("tenant", "queue", "key")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    tenant: int
    queue: str
    key: str
    def __init__(self, tenant: _Optional[int] = ..., queue: _Optional[str] = ..., key: _Optional[str] = ...) -> None: ...

class Freed(_message.Message):
    __slots__ = ("gates",)
    GATES_FIELD_NUMBER: _ClassVar[int]
    gates: _containers.RepeatedCompositeFieldContainer[Gate]
    def __init__(self, gates: _Optional[_Iterable[_Union[Gate, _Mapping]]] = ...) -> None: ...

class LinkRequest(_message.Message):
    __slots__ = ("seq", "hello", "demand", "availability", "waiting", "armed", "settled", "proven", "directives", "inventories", "queues_changed", "sessions_ended", "freed")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    DEMAND_FIELD_NUMBER: _ClassVar[int]
    AVAILABILITY_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    ARMED_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    PROVEN_FIELD_NUMBER: _ClassVar[int]
    DIRECTIVES_FIELD_NUMBER: _ClassVar[int]
    INVENTORIES_FIELD_NUMBER: _ClassVar[int]
    QUEUES_CHANGED_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_ENDED_FIELD_NUMBER: _ClassVar[int]
    FREED_FIELD_NUMBER: _ClassVar[int]
    seq: int
    hello: Hello
    demand: Demand
    availability: Availability
    waiting: Waiting
    armed: Armed
    settled: Settled
    proven: Proven
    directives: Directives
    inventories: _containers.RepeatedCompositeFieldContainer[SessionInventory]
    queues_changed: QueuesChanged
    sessions_ended: SessionsEnded
    freed: Freed
    def __init__(self, seq: _Optional[int] = ..., hello: _Optional[_Union[Hello, _Mapping]] = ..., demand: _Optional[_Union[Demand, _Mapping]] = ..., availability: _Optional[_Union[Availability, _Mapping]] = ..., waiting: _Optional[_Union[Waiting, _Mapping]] = ..., armed: _Optional[_Union[Armed, _Mapping]] = ..., settled: _Optional[_Union[Settled, _Mapping]] = ..., proven: _Optional[_Union[Proven, _Mapping]] = ..., directives: _Optional[_Union[Directives, _Mapping]] = ..., inventories: _Optional[_Iterable[_Union[SessionInventory, _Mapping]]] = ..., queues_changed: _Optional[_Union[QueuesChanged, _Mapping]] = ..., sessions_ended: _Optional[_Union[SessionsEnded, _Mapping]] = ..., freed: _Optional[_Union[Freed, _Mapping]] = ...) -> None: ...

class LinkAck(_message.Message):
    __slots__ = ("seq",)
    SEQ_FIELD_NUMBER: _ClassVar[int]
    seq: int
    def __init__(self, seq: _Optional[int] = ...) -> None: ...

class LinkResponse(_message.Message):
    __slots__ = ("welcome", "ack")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    ack: LinkAck
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., ack: _Optional[_Union[LinkAck, _Mapping]] = ...) -> None: ...

class ClaimRequest(_message.Message):
    __slots__ = ("coordinator", "tenant", "tenant_name", "session", "poller", "batch", "demand_ids", "capacity", "max_bytes")
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    TENANT_NAME_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    POLLER_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    DEMAND_IDS_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    coordinator: str
    tenant: int
    tenant_name: str
    session: str
    poller: int
    batch: int
    demand_ids: _containers.RepeatedScalarFieldContainer[int]
    capacity: int
    max_bytes: int
    def __init__(self, coordinator: _Optional[str] = ..., tenant: _Optional[int] = ..., tenant_name: _Optional[str] = ..., session: _Optional[str] = ..., poller: _Optional[int] = ..., batch: _Optional[int] = ..., demand_ids: _Optional[_Iterable[int]] = ..., capacity: _Optional[int] = ..., max_bytes: _Optional[int] = ...) -> None: ...

class ClaimedJob(_message.Message):
    __slots__ = ("lease", "shard", "generation", "schedule_uid", "occurrence_generation")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_UID_FIELD_NUMBER: _ClassVar[int]
    OCCURRENCE_GENERATION_FIELD_NUMBER: _ClassVar[int]
    lease: _worker_pb2.Lease
    shard: int
    generation: int
    schedule_uid: str
    occurrence_generation: int
    def __init__(self, lease: _Optional[_Union[_worker_pb2.Lease, _Mapping]] = ..., shard: _Optional[int] = ..., generation: _Optional[int] = ..., schedule_uid: _Optional[str] = ..., occurrence_generation: _Optional[int] = ...) -> None: ...

class ClaimResponse(_message.Message):
    __slots__ = ("jobs", "left")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[ClaimedJob]
    left: Availability
    def __init__(self, jobs: _Optional[_Iterable[_Union[ClaimedJob, _Mapping]]] = ..., left: _Optional[_Union[Availability, _Mapping]] = ...) -> None: ...

class HandOverShardsRequest(_message.Message):
    __slots__ = ("coordinator", "shards")
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    coordinator: str
    shards: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, coordinator: _Optional[str] = ..., shards: _Optional[_Iterable[int]] = ...) -> None: ...

class HandOverShardsResponse(_message.Message):
    __slots__ = ("shards",)
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    shards: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, shards: _Optional[_Iterable[int]] = ...) -> None: ...
