"""What a relay says to Rota, and what the answers mean."""

from dataclasses import dataclass
from enum import Enum
from typing import Final

import grpc
from rota_sdk import AsyncClient, requests
from rota_sdk.errors import (
    Internal,
    NotImplementedByServer,
    PermissionDenied,
    ResourceExhausted,
    RotaError,
    Unauthenticated,
    from_rpc,
    transient,
)

from rota.domain.errors import FailedPrecondition, InvalidArgument
from rota.outbox.limits import CALL_TIMEOUT_S
from rota.outbox.wish import Parcel

IN_DOUBT: Final = "IN_DOUBT"


class Fate(Enum):
    """What became of a parcel."""

    CREATED = "created"
    REFUSED = "refused"
    DISSOLVE = "dissolve"
    """Refused as a batch, and certainly not created: each row is to be sent by itself."""

    BUSY = "busy"
    """Not now; Rota answers, though."""

    FAULT = "fault"
    """A fault that may be the row's own."""

    DOWN = "down"
    """Nobody answered."""

    UNSENT = "unsent"
    """No call was made."""


@dataclass(frozen=True, slots=True)
class Answer:
    fate: Fate
    reason: str = ""
    message: str = ""
    retry_after_s: float | None = None


class Sender:
    """Creates jobs at a coordinator. Safe for many calls at once."""

    def __init__(self, address: str | None, api_key: str | None) -> None:
        try:
            self._client = AsyncClient(address, api_key=api_key)
        except ValueError as error:
            raise InvalidArgument(str(error)) from None

    @property
    def address(self) -> str:
        return self._client.address

    async def send(self, parcel: Parcel) -> Answer:
        """One call. Raises what no repetition can cure and no row is to blame for: a key that is not accepted."""
        trace = parcel.wishes[0].traceparent
        metadata = (("traceparent", trace),) if trace else ()
        jobs = [wish.job() for wish in parcel.wishes]
        try:
            if parcel.batch:
                batch = requests.create_batch(jobs, parcel.request_id, names_only=True)
                await self._client.stubs.jobs.BatchCreateJobs(batch, timeout=CALL_TIMEOUT_S, metadata=metadata)
            else:
                one = requests.create(jobs[0], parcel.request_id)
                await self._client.stubs.jobs.CreateJob(one, timeout=CALL_TIMEOUT_S, metadata=metadata)
        except grpc.RpcError as error:
            return read(from_rpc(error, self.address), parcel)
        return Answer(Fate.CREATED)

    async def close(self) -> None:
        await self._client.close()


def read(error: RotaError, parcel: Parcel) -> Answer:
    """What an error means for the parcel that met it."""
    if isinstance(error, Unauthenticated | PermissionDenied):
        raise FailedPrecondition(
            f"Rota does not take jobs with this key ({error.message}); give the relay one with the role client"
        ) from error
    if isinstance(error, NotImplementedByServer):
        raise FailedPrecondition(
            f"expected a Rota server that creates jobs, found another ({error.message}); correct --address"
        ) from error
    if error.reason == "REQUEST_ID_REUSED" and parcel.own_id:
        # Nobody else can have used it: an earlier call did create them, as another version of the relay spelled them.
        return Answer(Fate.CREATED, error.reason, error.message)
    if isinstance(error, ResourceExhausted):
        return Answer(Fate.BUSY, error.reason, error.message, error.retry_after)
    if not isinstance(error, Internal) and transient(error):
        return Answer(Fate.DOWN, error.reason, error.message, error.retry_after)
    if isinstance(error, Internal) or not error.reason:
        # Without a reason it is not Rota that refuses, but something between.
        return Answer(Fate.FAULT, error.reason or error.code.name, error.message)
    if not parcel.batch:
        return Answer(Fate.REFUSED, error.reason, error.message)
    if not parcel.repeated:
        return Answer(Fate.DISSOLVE, error.reason, error.message)
    return Answer(
        Fate.REFUSED,
        IN_DOUBT,
        "Rota refuses a batch that an earlier call, whose answer was lost, may have created; look whether its jobs "
        f"exist, then retry or discard: {error.message}",
    )
