"""Rota's client and worker for Python.

    from rota_sdk import Client, Worker

Names are loaded when first used, so that a program that needs only the client or the generated stubs
(`rota_sdk.gen`) does not pay for the worker.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from rota_sdk.version import VERSION as __version__

if TYPE_CHECKING:
    from rota_sdk.aioclient import AsyncClient
    from rota_sdk.channel import Tls
    from rota_sdk.client import Client
    from rota_sdk.errors import (
        Aborted,
        AlreadyExists,
        ConnectionFailed,
        DeadlineExceeded,
        FailedPrecondition,
        Internal,
        InvalidArgument,
        NotFound,
        NotImplementedByServer,
        NotLeaseOwner,
        OutcomeConflict,
        PermissionDenied,
        ResourceExhausted,
        RotaError,
        SessionGone,
        StaleFence,
        Unauthenticated,
        Unavailable,
        Violation,
    )
    from rota_sdk.lease import (
        Lease,
        Stop,
    )
    from rota_sdk.model import (
        Attempt,
        AttemptOutcome,
        CancelMode,
        Dedupe,
        DedupeConflict,
        DedupeScope,
        EffectReceipt,
        EffectState,
        Failure,
        Job,
        JobChange,
        JobPage,
        JobState,
        NewJob,
        Payload,
        RetryPolicy,
        Timeouts,
    )
    from rota_sdk.outcome import (
        Cancelled,
        EffectUnknown,
        Failed,
        Fatal,
        Release,
        Retry,
    )
    from rota_sdk.watch import AsyncJobWatch, JobWatch
    from rota_sdk.worker import Worker

_HOMES: Final = {
    "aioclient": ("AsyncClient",),
    "channel": ("Tls",),
    "client": ("Client",),
    "errors": (
        "Aborted",
        "AlreadyExists",
        "ConnectionFailed",
        "DeadlineExceeded",
        "FailedPrecondition",
        "Internal",
        "InvalidArgument",
        "NotFound",
        "NotImplementedByServer",
        "NotLeaseOwner",
        "OutcomeConflict",
        "PermissionDenied",
        "ResourceExhausted",
        "RotaError",
        "SessionGone",
        "StaleFence",
        "Unauthenticated",
        "Unavailable",
        "Violation",
    ),
    "lease": (
        "Lease",
        "Stop",
    ),
    "model": (
        "Attempt",
        "AttemptOutcome",
        "CancelMode",
        "Dedupe",
        "DedupeConflict",
        "DedupeScope",
        "EffectReceipt",
        "EffectState",
        "Failure",
        "Job",
        "JobChange",
        "JobPage",
        "JobState",
        "NewJob",
        "Payload",
        "RetryPolicy",
        "Timeouts",
    ),
    "outcome": (
        "Cancelled",
        "EffectUnknown",
        "Failed",
        "Fatal",
        "Release",
        "Retry",
    ),
    "watch": ("AsyncJobWatch", "JobWatch"),
    "worker": ("Worker",),
}
_HOME_OF: Final = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Aborted",
    "AlreadyExists",
    "AsyncClient",
    "AsyncJobWatch",
    "Attempt",
    "AttemptOutcome",
    "CancelMode",
    "Cancelled",
    "Client",
    "ConnectionFailed",
    "DeadlineExceeded",
    "Dedupe",
    "DedupeConflict",
    "DedupeScope",
    "EffectReceipt",
    "EffectState",
    "EffectUnknown",
    "Failed",
    "FailedPrecondition",
    "Failure",
    "Fatal",
    "Internal",
    "InvalidArgument",
    "Job",
    "JobChange",
    "JobPage",
    "JobState",
    "JobWatch",
    "Lease",
    "NewJob",
    "NotFound",
    "NotImplementedByServer",
    "NotLeaseOwner",
    "OutcomeConflict",
    "Payload",
    "PermissionDenied",
    "Release",
    "ResourceExhausted",
    "Retry",
    "RetryPolicy",
    "RotaError",
    "SessionGone",
    "StaleFence",
    "Stop",
    "Timeouts",
    "Tls",
    "Unauthenticated",
    "Unavailable",
    "Violation",
    "Worker",
    "__version__",
]


def __getattr__(name: str) -> Any:
    module = _HOME_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
