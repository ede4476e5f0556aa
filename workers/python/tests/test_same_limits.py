"""The SDKs of all languages have the same limits and defaults, by the same names. Their sources are read and nothing is
built, so that this runs where a language's tools are missing."""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
from rota_sdk import effects, limits

WORKERS: Final = Path(__file__).parents[2]
PYTHON: Final = WORKERS / "python/src/rota_sdk"
GO: Final = WORKERS / "go"
TYPESCRIPT: Final = WORKERS / "typescript/src"
JAVA: Final = WORKERS / "java/src/main/java/dev/rota"

# Seconds, by how Go spells them.
GO_SPANS: Final = {
    "time.Hour": "3600",
    "time.Second": "1",
    "time.Millisecond": "0.001",
}
JAVA_SPAN: Final = re.compile(r"Duration\.of(Days|Hours|Seconds|Millis)\(([\d_]+)\)")
JAVA_UNITS: Final = {"Days": "86400", "Hours": "3600", "Seconds": "1", "Millis": "0.001"}

# For what only Python's SDK does. Of CALL_ATTEMPTS the others tell their service config: see below.
PYTHON_ONLY: Final = {
    "KIB",
    "MIB",
    "PAGE_JOBS",
    "WAIT_POLL_FIRST",
    "WAIT_POLL",
    "OUTCOME_LINGER_STEP",
    "EFFECT_CALL_TIMEOUT",
    "CALL_ATTEMPTS",
}
# gRPC for Java does not let one choose it.
MISSING: Final = {"go": set[str](), "typescript": set[str](), "java": {"CONNECT_BACKOFF_FIRST"}}
# Go's `keepalive` is a package of gRPC's, and what is public says that it is a default.
RENAMED: Final = {"KEEPALIVE_PING": "KEEPALIVE", "REDRIVE_DEFAULT": "REDRIVE"}


def test_limits_of_python() -> None:
    """That the comparison sees what it compares: a few values of the contract, by hand."""
    known = python_limits()
    assert known["RESULTS_PER_CALL"] == 500 and known["RECEIVE_BYTES"] == 16 * 1024 * 1024
    assert known["RESULT_CALL_BYTES"] == 3_670_016 - 65_536 and known["BEAT_INTERVAL"] == 5


@pytest.mark.parametrize("language", ["go", "typescript", "java"])
def test_limits_are_the_same(language: str) -> None:
    expected = {name: value for name, value in python_limits().items() if name not in PYTHON_ONLY | MISSING[language]}
    found = limits_of(language)
    assert expected.keys() ^ found.keys() == set()
    assert {n: (found[n], value) for n, value in expected.items() if not math.isclose(found[n], value)} == {}


# What stands where it is used: file and pattern for each language; the groups have to be equal in all of them.
ELSEWHERE: Final = {
    "from when on a handler is warned, as a part of the TTL": (
        (PYTHON / "session.py", r"_AT_RISK: Final = (\d) / (\d)"),
        (GO / "session.go", r"riskNumerator, riskDenominator = (\d), (\d)"),
        (TYPESCRIPT / "engine/session.ts", r"AT_RISK = (\d) / (\d)"),
        (JAVA / "Session.java", r"aliveFor\.toNanos\(\) \* (\d) / (\d)"),
    ),
    "how many beats there are in a TTL at least": (
        (PYTHON / "session.py", r"self\.ttl / (\d)"),
        (GO / "session.go", r"made\.ttl/(\d)"),
        (TYPESCRIPT / "engine/session.ts", r"this\.ttl / (\d)\)"),
        (JAVA / "Session.java", r"ttl\.dividedBy\((\d)\)"),
    ),
    "jitter of a poll's wait": (
        (PYTHON / "poller.py", r"session\.wait \* random\.uniform\(([\d.]+), ([\d.]+)\)"),
        (GO / "poller.go", r"jittered\(p\.session\.wait, ([\d.]+), ([\d.]+)\)"),
        (TYPESCRIPT / "engine/poller.ts", r"jittered\(session\.wait, ([\d.]+), ([\d.]+)\)"),
        (JAVA / "Poller.java", r"jittered\(session\.wait, ([\d.]+), ([\d.]+)\)"),
    ),
    "jitter of pauses after SLOW_DOWN": (
        (PYTHON / "poller.py", r"SLOW_DOWN_S \* random\.uniform\(([\d.]+), ([\d.]+)\)"),
        (GO / "poller.go", r"jittered\(slowDown, ([\d.]+), ([\d.]+)\)"),
        (TYPESCRIPT / "engine/poller.ts", r"jittered\(limits\.SLOW_DOWN_MS, ([\d.]+), ([\d.]+)\)"),
        (JAVA / "Poller.java", r"jittered\(Limits\.SLOW_DOWN, ([\d.]+), ([\d.]+)\)"),
    ),
    "jitter of backoff": (
        (PYTHON / "backoff.py", r"bound \* random\.uniform\(([\d.]+), ([\d.]+)\)"),
        (GO / "backoff.go", r"jittered\(b\.bound, ([\d.]+), ([\d.]+)\)"),
        (TYPESCRIPT / "backoff.ts", r"jittered\(this\.#next, ([\d.]+), ([\d.]+)\)"),
        (JAVA / "Backoff.java", r"jittered\(bound, ([\d.]+), ([\d.]+)\)"),
    ),
    "growth of backoff": (
        (PYTHON / "backoff.py", r"bound \* (\d)"),
        (GO / "backoff.go", r"b\.bound\*(\d)"),
        (TYPESCRIPT / "backoff.ts", r"this\.#next \* (\d)"),
        (JAVA / "Backoff.java", r"bound\.multipliedBy\((\d)\)"),
    ),
    "how gRPC repeats calls: first wait, longest, growth": tuple(
        (
            file,
            r'initialBackoff"?[:,] "([\d.]+)s",\s*"?maxBackoff"?[:,] "([\d.]+)s",\s*"?backoffMultiplier"?[:,] ([\d.]+)',
        )
        for file in (PYTHON / "channel.py", GO / "endpoint.go", TYPESCRIPT / "channel.ts", JAVA / "Endpoint.java")
    ),
    "which answers it repeats": tuple(
        (file, r'retryableStatusCodes"?[:,] (?:List\.of\(|\[)"([A-Z_", ]+)"')
        for file in (PYTHON / "channel.py", GO / "endpoint.go", TYPESCRIPT / "channel.ts", JAVA / "Endpoint.java")
    ),
    "where the coordinator is": (
        (PYTHON / "channel.py", r'DEFAULT_ADDRESS: Final = "([^"]+)"'),
        (GO / "endpoint.go", r'defaultAddress += "([^"]+)"'),
        (TYPESCRIPT / "endpoint.ts", r'DEFAULT_ADDRESS = "([^"]+)"'),
        (JAVA / "Endpoint.java", r'DEFAULT_ADDRESS = "([^"]+)"'),
    ),
    "slots": (
        (PYTHON / "worker.py", r"slots: int = (\d+)"),
        (GO / "worker.go", r"config\.Slots = (\d+)\n"),
        (TYPESCRIPT / "worker.ts", r"options\.slots \?\? (\d+)"),
        (JAVA / "Worker.java", r"int slots = (\d+)"),
    ),
}


@pytest.mark.parametrize("what", ELSEWHERE)
def test_values_where_they_are_used_are_the_same(what: str) -> None:
    found = {}
    for file, pattern in ELSEWHERE[what]:
        text = file.read_text()
        seen = {tuple(map(_number, match.groups())) for match in re.finditer(pattern, text)}
        assert len(seen) == 1, f"{file.name}: expected one value for {pattern}, found {seen}"
        found[file] = seen.pop()
    assert len(set(found.values())) == 1, found


def test_calls_are_repeated_as_often() -> None:
    for file in (GO / "endpoint.go", TYPESCRIPT / "channel.ts", JAVA / "Endpoint.java"):
        found = set(re.findall(r'maxAttempts"?[:,] (\d+)', file.read_text()))
        assert found == {str(limits.CALL_ATTEMPTS)}, file


def test_all_name_the_same_environment() -> None:
    files = (PYTHON / "channel.py", GO / "endpoint.go", TYPESCRIPT / "endpoint.ts", JAVA / "Endpoint.java")
    found = {file: set(re.findall(r"\bROTA_[A-Z_]*[A-Z]", file.read_text())) for file in files}
    assert all(names == found[files[0]] for names in found.values()), found
    assert len(found[files[0]]) >= 6


def python_limits() -> dict[str, float]:
    found = {name: float(value) for name, value in vars(limits).items() if name.isupper()}
    return _plain({**found, "REDRIVE_S": effects.REDRIVE.total_seconds()})


def limits_of(language: str) -> dict[str, float]:
    """Name → value of every limit; spans in seconds."""
    if language == "go":
        rows = re.findall(r"^\t(\w+) += (.+)$", (GO / "limits.go").read_text(), re.M)
        rows += re.findall(r"^const (Redrive\w+) = (.+)$", (GO / "window.go").read_text(), re.M)
    elif language == "typescript":
        rows = re.findall(r"^export const (\w+) = (.+);$", (TYPESCRIPT / "limits.ts").read_text(), re.M)
    else:
        rows = re.findall(r"^ +static final \w+ (\w+) = (.+);$", (JAVA / "Limits.java").read_text(), re.M)
    known: dict[str, float] = {}
    for name, words in rows:
        known[name] = _value(words, known) * (0.001 if name.endswith("_MS") else 1)
    return _plain(known)


def _plain(known: Mapping[str, float]) -> dict[str, float]:
    """By the name alone: units and the word for the most are each language's own matter."""
    found = {}
    for name, value in known.items():
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()
        name = re.sub(r"_M?S$", "", name)
        found[RENAMED.get(name, name)] = value
    stems = {name: re.sub(r"_(MAX|MOST)$", "", name) for name in found}
    return {f"{stem}_MAX" if name != stem and stem in found else stem: found[name] for name, stem in stems.items()}


def _value(words: str, known: Mapping[str, float]) -> float:
    """Of sums and products of numbers and of names known so far."""
    words = JAVA_SPAN.sub(lambda span: f"{span[2]} * {JAVA_UNITS[span[1]]}", words)
    for name, seconds in GO_SPANS.items():
        words = words.replace(name, seconds)
    first, *less = (math.prod(_factor(each, known) for each in term.split("*")) for term in words.split(" - "))
    return first - sum(less)


def _factor(words: str, known: Mapping[str, float]) -> float:
    number, _, bits = words.strip().partition("<<")
    value = known[number] if number in known else float(number.replace("_", ""))
    return value * (1 << int(bits or 0))


def _number(words: str) -> float | str:
    try:
        return float(words)
    except ValueError:
        return words
