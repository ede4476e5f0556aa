"""The jobs that `rota dev --examples` submits over and over: DIR/jobs.json, checked before anything starts.

{"jobs": [{"type": "greet", "payload": {"name": "Ada"}, "every": "1s", "count": 2}, …]}

Of each entry `count` jobs are created `every` so often, one by one or, with `batch`, in one call. In `dedupe_key` and
in texts of the payload `{n}` stands for the number within the round, from 1, and `{round}` for that of the round.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rota.domain.duration import parse_duration
from rota.domain.errors import InvalidArgument
from rota.domain.limits import CREATE_BATCH_MAX, MAX_ATTEMPTS_MAX, PRIORITY_MAX
from rota.domain.wording import suggestion

if TYPE_CHECKING:
    from rota_sdk import NewJob

PLAN: Final = "jobs.json"
FILE_BYTES_MAX: Final = 1024 * 1024
EVERY_MIN_S: Final = 0.1
"""Examples are to be looked at."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One kind of job and how often it comes. Spans are seconds."""

    type: str
    every: float = 1.0
    count: int = 1
    batch: bool = False
    payload: Any = None
    queue: str = "default"
    priority: int | None = None
    delay: float | None = None
    max_attempts: int | None = None
    initial_backoff: float | None = None
    max_backoff: float | None = None
    run_timeout: float | None = None
    dedupe_key: str = ""
    dedupe_window: float | None = None
    labels: Mapping[str, str] | None = None

    def jobs(self, round: int) -> "list[NewJob]":
        """The jobs of one round."""
        from rota_sdk import Dedupe, NewJob, RetryPolicy, Timeouts

        retry = RetryPolicy(self.max_attempts, self.initial_backoff, self.max_backoff)
        return [
            NewJob(
                self.type,
                _fill(self.payload, n, round),
                queue=self.queue,
                priority=self.priority,
                delay=self.delay,
                retry=retry,
                timeouts=Timeouts(run=self.run_timeout),
                labels=self.labels or {},
                dedupe=Dedupe(_fill(self.dedupe_key, n, round), window=self.dedupe_window) if self.dedupe_key else None,
            )
            for n in range(1, self.count + 1)
        ]


def load(folder: Path) -> list[Entry]:
    """Reads DIR/jobs.json. Raises InvalidArgument, naming the entry and the key."""
    file = folder / PLAN
    try:
        with file.open("rb") as stream:
            content = stream.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidArgument.field(
            "--examples", f"expected a readable {file}, found none ({error.strerror})"
        ) from None
    try:
        if len(content) > FILE_BYTES_MAX:
            raise ValueError(f"more than {FILE_BYTES_MAX} bytes")
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument.field(str(file), f"expected JSON, found otherwise ({error})") from None
    entries = document.get("jobs") if isinstance(document, dict) else None
    if not isinstance(entries, list) or not entries:
        raise InvalidArgument.field(str(file), 'expected {"jobs": [{"type": "…", …}, …]}, found something else')
    return [_entry(f"{file}: jobs[{index}]", entry) for index, entry in enumerate(entries)]


def _entry(at: str, given: object) -> Entry:
    if not isinstance(given, dict) or "type" not in given:
        raise InvalidArgument.field(at, 'expected an object with at least "type", found something else')
    values: dict[str, Any] = {}
    for key, value in given.items():
        read = _READERS.get(key)
        if read is None:
            raise InvalidArgument.field(f"{at}.{key}", f"no such key; {suggestion(key, sorted(_READERS))}")
        try:
            values[key] = read(value)
        except ValueError as error:
            raise InvalidArgument.field(f"{at}.{key}", str(error)) from None
    return Entry(**values)


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"expected a text, found {value!r:.60}")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"expected true or false, found {value!r:.60}")
    return value


def _integer(low: int, high: int) -> Callable[[object], int]:
    def read(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise ValueError(f"expected a number from {low} to {high}, found {value!r:.60}")
        return value

    return read


def _every(value: object) -> float:
    span_s = parse_duration(value)
    if span_s < EVERY_MIN_S:
        raise ValueError(f"expected at least {EVERY_MIN_S:g}s, found {value!r:.60}")
    return span_s


def _labels(value: object) -> Mapping[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise ValueError(f"expected an object of texts, found {value!r:.60}")
    return value


def _fill(value: Any, n: int, round: int) -> Any:
    if isinstance(value, str):
        return value.replace("{n}", str(n)).replace("{round}", str(round))
    if isinstance(value, dict):
        return {key: _fill(item, n, round) for key, item in value.items()}
    return [_fill(item, n, round) for item in value] if isinstance(value, list) else value


_READERS: Final[Mapping[str, Callable[[object], Any]]] = {
    "type": _text,
    "every": _every,
    "count": _integer(1, CREATE_BATCH_MAX),
    "batch": _flag,
    "payload": lambda value: value,
    "queue": _text,
    "priority": _integer(0, PRIORITY_MAX),
    "delay": parse_duration,
    "max_attempts": _integer(1, MAX_ATTEMPTS_MAX),
    "initial_backoff": parse_duration,
    "max_backoff": parse_duration,
    "run_timeout": parse_duration,
    "dedupe_key": _text,
    "dedupe_window": parse_duration,
    "labels": _labels,
}
