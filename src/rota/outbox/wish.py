"""A row of the outbox as a job to create, and rows that travel in one call."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rota_sdk import Dedupe, DedupeConflict, DedupeScope, NewJob, Payload, RetryPolicy, Timeouts


@dataclass(frozen=True, slots=True)
class Wish:
    """A row. `seq` is its place in order; `attempts` counts claims, this one included."""

    seq: int
    id: str
    request_id: str | None
    ordering_key: str | None
    type: str
    queue: str
    payload: bytes
    content_type: str
    run_time: datetime | None
    options: Mapping[str, Any]
    bytes: int
    attempts: int
    in_doubt: bool
    """First sent so long ago that Rota may have forgotten its request id."""

    @property
    def traceparent(self) -> str:
        return str(self.options.get("traceparent", ""))

    def job(self) -> NewJob:
        """The same every time, to the byte: Rota compares a repetition with what it saw first."""
        given = self.options
        attempts = given.get("max_attempts")
        bounds = given.keys() & {"start_by_s", "run_timeout_s", "total_timeout_s"}
        return NewJob(
            type=self.type,
            payload=Payload(self.payload, self.content_type),
            queue=self.queue,
            priority=given.get("priority"),
            run_time=self.run_time,
            retry=None if attempts is None else RetryPolicy(max_attempts=attempts),
            timeouts=Timeouts(given.get("start_by_s"), given.get("run_timeout_s"), given.get("total_timeout_s"))
            if bounds
            else None,
            headers=given.get("headers", {}),
            labels=given.get("labels", {}),
            effect_key=given.get("effect_key", ""),
            concurrency_key=given.get("concurrency_key", ""),
            dedupe=_dedupe(given),
        )


@dataclass(frozen=True, slots=True)
class Parcel:
    """Rows that one call creates, under one request id. More than one are a batch, which stays as it is until its fate
    is known: Rota takes a repetition for one only if it is the same."""

    wishes: tuple[Wish, ...]
    batch: bool

    @property
    def seqs(self) -> list[int]:
        return [wish.seq for wish in self.wishes]

    @property
    def bytes(self) -> int:
        return sum(wish.bytes for wish in self.wishes)

    @property
    def request_id(self) -> str:
        first = self.wishes[0]
        return first.request_id or first.id

    @property
    def own_id(self) -> bool:
        """The request id is one of the outbox's own, which nobody else can have used."""
        return self.wishes[0].request_id is None

    @property
    def repeated(self) -> bool:
        """It was sent before, perhaps, by whomever."""
        return any(wish.attempts > 1 for wish in self.wishes)


def _dedupe(given: Mapping[str, Any]) -> Dedupe | None:
    if "dedupe_key" not in given:
        return None
    return Dedupe(
        given["dedupe_key"],
        scope=DedupeScope[given.get("dedupe_scope", "unspecified").upper()],
        window=given.get("dedupe_window_s"),
        on_conflict=DedupeConflict[given.get("on_conflict", "unspecified").upper()],
    )
