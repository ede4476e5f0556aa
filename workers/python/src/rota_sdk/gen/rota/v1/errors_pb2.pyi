from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from typing import ClassVar as _ClassVar

DESCRIPTOR: _descriptor.FileDescriptor

class ErrorReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ERROR_REASON_UNSPECIFIED: _ClassVar[ErrorReason]
    ERROR_REASON_VALIDATION_FAILED: _ClassVar[ErrorReason]
    ERROR_REASON_NEVER_FIRES: _ClassVar[ErrorReason]
    ERROR_REASON_PAYLOAD_TOO_LARGE: _ClassVar[ErrorReason]
    ERROR_REASON_ETAG_MISMATCH: _ClassVar[ErrorReason]
    ERROR_REASON_RESOURCE_EXISTS: _ClassVar[ErrorReason]
    ERROR_REASON_REQUEST_ID_REUSED: _ClassVar[ErrorReason]
    ERROR_REASON_RESOURCE_NOT_FOUND: _ClassVar[ErrorReason]
    ERROR_REASON_STALE_FENCE: _ClassVar[ErrorReason]
    ERROR_REASON_OUTCOME_CONFLICT: _ClassVar[ErrorReason]
    ERROR_REASON_NOT_LEASE_OWNER: _ClassVar[ErrorReason]
    ERROR_REASON_PERMISSION_DENIED: _ClassVar[ErrorReason]
    ERROR_REASON_UNAUTHENTICATED: _ClassVar[ErrorReason]
    ERROR_REASON_SESSION_GONE: _ClassVar[ErrorReason]
    ERROR_REASON_INVALID_STATE: _ClassVar[ErrorReason]
    ERROR_REASON_QUOTA_EXCEEDED: _ClassVar[ErrorReason]
    ERROR_REASON_RATE_LIMITED: _ClassVar[ErrorReason]
    ERROR_REASON_DRAINING: _ClassVar[ErrorReason]
    ERROR_REASON_STORE_UNAVAILABLE: _ClassVar[ErrorReason]
    ERROR_REASON_SHARD_MOVED: _ClassVar[ErrorReason]
    ERROR_REASON_PAGE_TOKEN_INVALID: _ClassVar[ErrorReason]
    ERROR_REASON_NOT_IMPLEMENTED: _ClassVar[ErrorReason]
    ERROR_REASON_INTERNAL: _ClassVar[ErrorReason]
ERROR_REASON_UNSPECIFIED: ErrorReason
ERROR_REASON_VALIDATION_FAILED: ErrorReason
ERROR_REASON_NEVER_FIRES: ErrorReason
ERROR_REASON_PAYLOAD_TOO_LARGE: ErrorReason
ERROR_REASON_ETAG_MISMATCH: ErrorReason
ERROR_REASON_RESOURCE_EXISTS: ErrorReason
ERROR_REASON_REQUEST_ID_REUSED: ErrorReason
ERROR_REASON_RESOURCE_NOT_FOUND: ErrorReason
ERROR_REASON_STALE_FENCE: ErrorReason
ERROR_REASON_OUTCOME_CONFLICT: ErrorReason
ERROR_REASON_NOT_LEASE_OWNER: ErrorReason
ERROR_REASON_PERMISSION_DENIED: ErrorReason
ERROR_REASON_UNAUTHENTICATED: ErrorReason
ERROR_REASON_SESSION_GONE: ErrorReason
ERROR_REASON_INVALID_STATE: ErrorReason
ERROR_REASON_QUOTA_EXCEEDED: ErrorReason
ERROR_REASON_RATE_LIMITED: ErrorReason
ERROR_REASON_DRAINING: ErrorReason
ERROR_REASON_STORE_UNAVAILABLE: ErrorReason
ERROR_REASON_SHARD_MOVED: ErrorReason
ERROR_REASON_PAGE_TOKEN_INVALID: ErrorReason
ERROR_REASON_NOT_IMPLEMENTED: ErrorReason
ERROR_REASON_INTERNAL: ErrorReason
