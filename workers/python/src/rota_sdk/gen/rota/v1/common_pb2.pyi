import datetime

from google.api import field_behavior_pb2 as _field_behavior_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EffectState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EFFECT_STATE_UNSPECIFIED: _ClassVar[EffectState]
    EFFECT_STATE_NOT_APPLIED: _ClassVar[EffectState]
    EFFECT_STATE_APPLIED: _ClassVar[EffectState]
    EFFECT_STATE_UNKNOWN: _ClassVar[EffectState]

class DedupeConflict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DEDUPE_CONFLICT_UNSPECIFIED: _ClassVar[DedupeConflict]
    DEDUPE_CONFLICT_RETURN_EXISTING: _ClassVar[DedupeConflict]
    DEDUPE_CONFLICT_FAIL: _ClassVar[DedupeConflict]

class DedupeScope(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DEDUPE_SCOPE_UNSPECIFIED: _ClassVar[DedupeScope]
    DEDUPE_SCOPE_TYPE: _ClassVar[DedupeScope]
    DEDUPE_SCOPE_QUEUE: _ClassVar[DedupeScope]
    DEDUPE_SCOPE_TENANT: _ClassVar[DedupeScope]
EFFECT_STATE_UNSPECIFIED: EffectState
EFFECT_STATE_NOT_APPLIED: EffectState
EFFECT_STATE_APPLIED: EffectState
EFFECT_STATE_UNKNOWN: EffectState
DEDUPE_CONFLICT_UNSPECIFIED: DedupeConflict
DEDUPE_CONFLICT_RETURN_EXISTING: DedupeConflict
DEDUPE_CONFLICT_FAIL: DedupeConflict
DEDUPE_SCOPE_UNSPECIFIED: DedupeScope
DEDUPE_SCOPE_TYPE: DedupeScope
DEDUPE_SCOPE_QUEUE: DedupeScope
DEDUPE_SCOPE_TENANT: DedupeScope

class Payload(_message.Message):
    __slots__ = ("data", "content_type")
    DATA_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    content_type: str
    def __init__(self, data: _Optional[bytes] = ..., content_type: _Optional[str] = ...) -> None: ...

class RetryPolicy(_message.Message):
    __slots__ = ("max_attempts", "initial_backoff", "max_backoff", "multiplier", "non_retryable_types")
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    INITIAL_BACKOFF_FIELD_NUMBER: _ClassVar[int]
    MAX_BACKOFF_FIELD_NUMBER: _ClassVar[int]
    MULTIPLIER_FIELD_NUMBER: _ClassVar[int]
    NON_RETRYABLE_TYPES_FIELD_NUMBER: _ClassVar[int]
    max_attempts: int
    initial_backoff: _duration_pb2.Duration
    max_backoff: _duration_pb2.Duration
    multiplier: float
    non_retryable_types: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, max_attempts: _Optional[int] = ..., initial_backoff: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., max_backoff: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., multiplier: _Optional[float] = ..., non_retryable_types: _Optional[_Iterable[str]] = ...) -> None: ...

class Timeouts(_message.Message):
    __slots__ = ("start_by", "run", "total")
    START_BY_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    start_by: _duration_pb2.Duration
    run: _duration_pb2.Duration
    total: _duration_pb2.Duration
    def __init__(self, start_by: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., run: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., total: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("type", "message", "stack")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    STACK_FIELD_NUMBER: _ClassVar[int]
    type: str
    message: str
    stack: str
    def __init__(self, type: _Optional[str] = ..., message: _Optional[str] = ..., stack: _Optional[str] = ...) -> None: ...

class EffectReceipt(_message.Message):
    __slots__ = ("effect_key", "reference")
    EFFECT_KEY_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    effect_key: str
    reference: str
    def __init__(self, effect_key: _Optional[str] = ..., reference: _Optional[str] = ...) -> None: ...

class Dedupe(_message.Message):
    __slots__ = ("key", "scope", "window", "on_conflict")
    KEY_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    ON_CONFLICT_FIELD_NUMBER: _ClassVar[int]
    key: str
    scope: DedupeScope
    window: _duration_pb2.Duration
    on_conflict: DedupeConflict
    def __init__(self, key: _Optional[str] = ..., scope: _Optional[_Union[DedupeScope, str]] = ..., window: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., on_conflict: _Optional[_Union[DedupeConflict, str]] = ...) -> None: ...
