"""The relay: rows of the outbox become jobs, each once.

A row is claimed, sent under a request id that is its own for ever, and deleted when Rota has answered. Whatever dies in
between, the row is still there and is sent again, and Rota answers a request id that it knows with the job that it made
then. Only when an answer was lost for so long that request ids are forgotten does a row wait for a person.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from rota_sdk.backoff import Backoff

from rota.clock import Clock, wait_for_event
from rota.domain.errors import Unavailable
from rota.outbox.limits import (
    CALL_TIMEOUT_S,
    CLAIM_S,
    DRAIN_S,
    LINGER_S,
    POLL_IDLE_S,
    RETRY_FIRST_S,
    RETRY_MOST_S,
    ROW_OVERHEAD_BYTES,
    ROW_RETRY_FIRST_S,
    ROW_RETRY_MOST_S,
    TIDY_EVERY_S,
    WINDOW_BYTES,
    WINDOW_ROWS,
)
from rota.outbox.seeker import Room, Seeker
from rota.outbox.sender import IN_DOUBT, Answer, Fate
from rota.outbox.table import Table
from rota.outbox.wish import Parcel

log = logging.getLogger(__name__)

PARKED_LINES_MAX = 20
"""Parked rows that are told one by one between two summaries."""

SUMMARY_EVERY_S = 60.0


class Sends(Protocol):
    """What the relay asks of Rota."""

    async def send(self, parcel: Parcel) -> Answer: ...


@dataclass(slots=True)
class Totals:
    """What a relay has done so far, in rows."""

    created: int = 0
    parked: int = 0
    repeated: int = 0
    """Sent in vain: to be sent again."""


class Relay:
    """One relay; any number may run on one outbox. `stop` ends `run` once what is on its way has been answered."""

    def __init__(self, table: Table, sender: Sends, clock: Clock, *, poll_s: float = POLL_IDLE_S) -> None:
        self._table = table
        self._sender = sender
        self._clock = clock
        self._seeker = Seeker(table, clock, poll_s)
        self.totals = Totals()
        self._flying: dict[asyncio.Task[None], Parcel] = {}
        self._answers: list[tuple[Parcel, Answer]] = []
        """What the table has not been told of yet."""

        self._failure: BaseException | None = None
        self._wake = asyncio.Event()
        self._stopping = False
        self._window_rows = WINDOW_ROWS
        self._paused_until = 0.0
        self._rota_backoff = Backoff(RETRY_FIRST_S, RETRY_MOST_S)
        self._database_backoff = Backoff(RETRY_FIRST_S, RETRY_MOST_S)
        self._rota_down = False
        self._database_down = False
        self._next_tidy = clock.monotonic() + TIDY_EVERY_S
        self._tidied = ""
        self._next_summary = clock.monotonic() + SUMMARY_EVERY_S
        self._summed_up = Totals()

    def stop(self) -> None:
        """From the thread of the loop; safe to repeat."""
        self._stopping = True
        self._wake.set()

    async def run(self) -> None:
        """Relays until `stop`. Raises RotaError when only a person can help."""
        try:
            while not self._stopping:
                try:
                    await self._turn()
                except Unavailable as error:
                    await self._wait_for_database(error)
            await self._drain()
        finally:
            for task in self._flying:
                task.cancel()

    async def _turn(self) -> None:
        self._wake.clear()
        await self._write_answers()
        if self._failure is not None:
            raise self._failure
        now = self._clock.monotonic()
        room = self._room()
        if now >= self._paused_until and room.rows > 0:
            self._send(await self._seeker.seek(room))
        await self._tidy(now)
        if self._database_down:
            log.info("the application's database answers again")
        self._database_down = False
        self._database_backoff.reset()
        self._sum_up(now)
        await self._wait()

    async def _wait(self) -> None:
        """Until there is something to do: an answer, or the time of a look."""
        now = self._clock.monotonic()
        # Without room only an answer makes any.
        until = max(self._seeker.next_at, self._paused_until) if self._room().rows > 0 else now + CLAIM_S
        if await wait_for_event(self._wake, until - now, self._clock) and not self._stopping:
            await self._clock.sleep(LINGER_S)

    def _room(self) -> Room:
        """What may be claimed. Less than a quarter of the window is not worth a look; and while Rota is down, one row
        at a time finds out whether it is back."""
        rows = sum(len(parcel.wishes) for parcel in self._flying.values())
        if self._rota_down:
            return Room(0 if rows else 1, WINDOW_BYTES)
        bytes = sum(parcel.bytes + ROW_OVERHEAD_BYTES * len(parcel.wishes) for parcel in self._flying.values())
        enough = rows <= self._window_rows * 3 // 4 and bytes <= WINDOW_BYTES * 3 // 4
        return Room(self._window_rows - rows if enough else 0, WINDOW_BYTES - bytes)

    # Sending.

    def _send(self, parcels: Sequence[Parcel]) -> None:
        claimed_at = (self._clock.monotonic(), self._clock.utc())
        for parcel in parcels:
            if any(wish.in_doubt for wish in parcel.wishes):
                self._answers.append((parcel, _IN_DOUBT))
                self._wake.set()
                continue
            task = asyncio.create_task(self._fly(parcel, *claimed_at))
            self._flying[task] = parcel
            task.add_done_callback(self._landed)

    async def _fly(self, parcel: Parcel, claimed_at: float, claimed_on: datetime) -> None:
        """Nothing is sent that was claimed long ago, by either clock: this process, or its machine, has slept, and the
        row may be gone since, and its request id forgotten."""
        slept_s = max(self._clock.monotonic() - claimed_at, (self._clock.utc() - claimed_on).total_seconds())
        if slept_s > CLAIM_S - CALL_TIMEOUT_S:
            self._answers.append((parcel, _UNSENT))
            return
        self._answers.append((parcel, await self._sender.send(parcel)))

    def _landed(self, task: "asyncio.Task[None]") -> None:
        parcel = self._flying.pop(task)
        if task.cancelled():
            self._answers.append((parcel, _UNANSWERED))
        elif (error := task.exception()) is not None:
            self._answers.append((parcel, _UNANSWERED))
            self._failure = error
        self._wake.set()

    # What became of it.

    async def _write_answers(self) -> None:
        """Tells the table, each kind in a statement. What fails is told again: all of it can be repeated."""
        answers = list(self._answers)
        by_fate: dict[Fate, list[tuple[Parcel, Answer]]] = {}
        for parcel, answer in answers:
            by_fate.setdefault(answer.fate, []).append((parcel, answer))
        created = [parcel for parcel, _ in by_fate.pop(Fate.CREATED, ())]
        if created:
            await self._table.delete(_seqs(created))
        for fate, found in by_fate.items():
            await self._write(fate, found)
        del self._answers[: len(answers)]
        for parcel in created:
            self.totals.created += len(parcel.wishes)
            if key := parcel.wishes[0].ordering_key:
                self._seeker.published(key, parcel.wishes[0].seq)
        self._judge(answers)

    async def _write(self, fate: Fate, found: Sequence[tuple[Parcel, Answer]]) -> None:
        parcels = [parcel for parcel, _ in found]
        if fate is Fate.REFUSED:
            for parcel, answer in found:
                await self._table.park(parcel.seqs, answer.reason, answer.message)
        elif fate is Fate.DISSOLVE:
            await self._table.dissolve(_seqs(parcels))
        elif fate in (Fate.DOWN, Fate.UNSENT):
            await self._table.release(_seqs(parcels), 0.0)
        else:
            for parcel, answer in found:
                await self._table.release(parcel.seqs, self._row_delay_s(parcel, answer))

    def _row_delay_s(self, parcel: Parcel, answer: Answer) -> float:
        attempts = max(wish.attempts for wish in parcel.wishes)
        delay_s: float = min(ROW_RETRY_FIRST_S * 2.0 ** min(attempts - 1, 16), ROW_RETRY_MOST_S)
        return max(delay_s * self._clock.rng.uniform(0.5, 1.0), answer.retry_after_s or 0.0)

    def _judge(self, answers: Sequence[tuple[Parcel, Answer]]) -> None:
        """What the answers say about Rota, and what is worth telling."""
        for parcel, answer in answers:
            if answer.fate is Fate.REFUSED:
                self._tell_parked(parcel, answer)
            elif answer.fate in (Fate.BUSY, Fate.FAULT, Fate.DOWN):
                if answer.fate is Fate.FAULT and self.totals.repeated == self._summed_up.repeated:
                    log.warning("Rota failed at row %d and others: %s", parcel.wishes[0].seq, answer.message)
                self.totals.repeated += len(parcel.wishes)
        fates = {answer.fate for _, answer in answers}
        if Fate.BUSY in fates:
            self._window_rows = max(self._window_rows // 2, 1)
        elif Fate.CREATED in fates:
            self._window_rows = min(self._window_rows + WINDOW_ROWS // 20, WINDOW_ROWS)
        if fates - {Fate.DOWN, Fate.UNSENT}:
            self._rota_backoff.reset()
            if self._rota_down:
                log.info("Rota answers again")
                self._rota_down = False
                self._seeker.hurry()
        elif Fate.DOWN in fates:
            worst = next(answer for _, answer in answers if answer.fate is Fate.DOWN)
            if not self._rota_down:
                log.warning("Rota does not answer, rows wait: %s", worst.message)
            self._rota_down = True
            pause_s = self._rota_backoff.next(min(worst.retry_after_s or 0.0, RETRY_MOST_S))
            self._paused_until = self._clock.monotonic() + pause_s
            self._seeker.hurry()

    def _tell_parked(self, parcel: Parcel, answer: Answer) -> None:
        self.totals.parked += len(parcel.wishes)
        for wish in parcel.wishes:
            if self.totals.parked - self._summed_up.parked <= PARKED_LINES_MAX:
                blocks = f", and all that follows in {wish.ordering_key!r} waits" if wish.ordering_key else ""
                log.warning(
                    "row %d (%s, id %s) is parked%s: %s: %s",
                    wish.seq,
                    wish.type,
                    wish.id,
                    blocks,
                    answer.reason,
                    answer.message,
                )

    def _sum_up(self, now: float) -> None:
        if now < self._next_summary:
            return
        self._next_summary = now + SUMMARY_EVERY_S
        before, self._summed_up = self._summed_up, Totals(self.totals.created, self.totals.parked, self.totals.repeated)
        if self.totals != before:
            log.info(
                "in the last %g s: %d jobs created, %d rows sent in vain, %d parked (see rota outbox status)",
                SUMMARY_EVERY_S,
                self.totals.created - before.created,
                self.totals.repeated - before.repeated,
                self.totals.parked - before.parked,
            )

    # Now and then, and at the end.

    async def _tidy(self, now: float) -> None:
        if now >= self._next_tidy:
            after = await self._table.tidy(self._tidied)
            self._tidied = after or ""
            if after is None:
                self._next_tidy = now + TIDY_EVERY_S

    async def _wait_for_database(self, error: Unavailable) -> None:
        if not self._database_down:
            log.warning("%s", error.message)
        self._database_down = True
        # `stop` ends the wait; answers come in meanwhile and are kept.
        until = self._clock.monotonic() + self._database_backoff.next()
        while not self._stopping and (left_s := until - self._clock.monotonic()) > 0:
            self._wake.clear()
            await wait_for_event(self._wake, left_s, self._clock)

    async def _drain(self) -> None:
        """Waits for what is on its way, and tells the table. What does not end by then another relay repeats."""
        until = self._clock.monotonic() + DRAIN_S
        while self._flying and (left_s := until - self._clock.monotonic()) > 0:
            self._wake.clear()
            await wait_for_event(self._wake, left_s, self._clock)
        flying = list(self._flying)
        for task in flying:
            task.cancel()
        await asyncio.gather(*flying, return_exceptions=True)
        try:
            await self._write_answers()
        except Unavailable as error:
            log.warning("rows that are answered are sent once more by another relay: %s", error.message)
        if self._failure is not None:
            raise self._failure


_IN_DOUBT = Answer(
    Fate.REFUSED,
    IN_DOUBT,
    "the answer to an earlier call was lost, and Rota may have forgotten its request id since; look whether the job "
    "exists, then retry or discard",
)
_UNSENT = Answer(Fate.UNSENT)
_UNANSWERED = Answer(Fate.DOWN, message="the call was cut off")


def _seqs(parcels: Sequence[Parcel]) -> list[int]:
    return [seq for parcel in parcels for seq in parcel.seqs]
