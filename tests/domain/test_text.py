"""Texts from outside: refused with the field that is wrong, or made storable where refusing would lose an outcome."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.domain.errors import InvalidArgument
from rota.domain.text import QUEUE, TYPE, Problems, clean, too_large

SURROGATE = "\ud83d"
SMILE = "😀"


def violations(problems: Problems) -> list[tuple[str, str]]:
    try:
        problems.raise_any()
    except InvalidArgument as refused:
        return [(v.field, v.description) for v in refused.violations]
    return []


def check_text(value: str, limit: int, complaint: str | None) -> None:
    """`complaint` None: the text is taken as it is."""
    problems = Problems()
    kept = problems.text("job.f", value, limit)
    found = violations(problems)
    if complaint is None:
        assert (kept, found) == (value, [])
        return
    assert kept == ""
    assert [field for field, _ in found] == ["job.f"]
    assert complaint in found[0][1]


@pytest.mark.parametrize(
    ("value", "limit", "complaint"),
    [
        ("", 0, None),
        ("abc", 3, None),
        ("abcd", 3, "at most 3 bytes of UTF-8, found 4"),
        # Bytes count, not characters.
        ("é", 2, None),
        ("é", 1, "found 2"),
        ("€€", 6, None),
        ("€€", 5, "found 6"),
        (SMILE, 4, None),
        (SMILE, 3, "found 4"),
        ("a\u0301", 3, None),
        ("\0", 10, "NUL"),
        ("a\0b", 10, "NUL"),
        ("a" * 100 + "\0", 10, "NUL"),
        (SURROGATE, 10, "lone surrogates"),
        ("a\udc00", 10, "lone surrogates"),
        # A pair that arrives as two halves is two lone surrogates in Python.
        ("\ud83d\ude00", 10, "lone surrogates"),
        ("\x01\x1f\x7f\u2028\ufeff\uffff", 20, None),
    ],
)
def test_text(value: str, limit: int, complaint: str | None) -> None:
    check_text(value, limit, complaint)


@given(st.text(st.characters(exclude_categories=())), st.integers(0, 40))
def test_what_text_lets_pass_can_be_stored(value: str, limit: int) -> None:
    problems = Problems()
    kept = problems.text("f", value, limit)
    assert len(kept.encode()) <= limit
    assert "\0" not in kept
    assert (kept == value) == (not violations(problems))


@pytest.mark.parametrize(
    ("value", "limit", "cleaned"),
    [
        ("plain", 10, "plain"),
        ("plain", 5, "plain"),
        ("plain", 4, "plai"),
        ("a\0b\0", 10, "ab"),
        ("\0" * 20 + "end", 3, "end"),
        (f"x{SURROGATE}y", 10, "x?y"),
        # Never half a character.
        ("aé", 2, "a"),
        ("aé", 3, "aé"),
        ("€", 2, ""),
        (f"ab{SMILE}", 5, "ab"),
        (f"ab{SMILE}", 6, f"ab{SMILE}"),
        ("text", 0, ""),
        ("", 5, ""),
    ],
)
def test_clean(value: str, limit: int, cleaned: str) -> None:
    assert clean(value, limit) == cleaned


@given(st.text(st.characters(exclude_categories=())), st.integers(0, 40))
def test_clean_always_gives_what_can_be_stored(value: str, limit: int) -> None:
    cleaned = clean(value, limit)
    assert len(cleaned.encode()) <= limit
    assert "\0" not in cleaned
    assert value.replace("\0", "").encode("utf-8", "replace").startswith(cleaned.encode())
    assert len(value.replace("\0", "").encode("utf-8", "replace")) <= limit or len(cleaned.encode()) > limit - 4


def test_clean_takes_ten_megabytes() -> None:
    assert clean("é\0" * 5_000_000, 8_192) == "é" * 4_096


@pytest.mark.parametrize(
    ("values", "count_max", "bytes_max", "fields"),
    [
        ({}, 0, 0, []),
        ({"a": "b"}, 1, 2, []),
        ({"a": "b", "c": "d"}, 1, 100, ["m"]),
        # In all, keys included; once for the one value that is over by itself as well.
        ({"a": "é"}, 1, 2, ["m"]),
        ({"a": "bb", "c": "dd"}, 2, 5, ["m"]),
        ({"a": "bbb"}, 1, 2, ["m['a']", "m"]),
        ({"": "b"}, 1, 9, ["m"]),
        ({"a": "\0"}, 1, 9, ["m['a']"]),
        ({"\0": "b"}, 1, 9, ["m['\\x00'] (key)"]),
        ({SURROGATE: "b"}, 1, 99, ["m['\\ud83d'] (key)"]),
        ({"a": SURROGATE}, 1, 99, ["m['a']"]),
        ({"k" * 128: ""}, 1, 999, []),
        ({"k" * 129: ""}, 1, 999, [f"m['{'k' * 40}'] (key)"]),
    ],
)
def test_text_map(values: dict[str, str], count_max: int, bytes_max: int, fields: list[str]) -> None:
    problems = Problems()
    problems.text_map("m", values, count_max, bytes_max)
    assert [field for field, _ in violations(problems)] == fields


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (1.0, None),
        (2.5, None),
        (5.0, None),
        (0.999, "must be from 1 s to 5 s, found 0.999 s"),
        (5.001, "found 5.001 s"),
        (-1.0, "found -1 s"),
        (float("nan"), "found nan s"),
        (float("inf"), "found inf s"),
    ],
)
def test_span(value: float, complaint: str | None) -> None:
    problems = Problems()
    kept = problems.span("delay", value, 1.0, 5.0)
    found = violations(problems)
    assert kept == (value if complaint is None else 1.0)
    assert found == [] if complaint is None else complaint in found[0][1]


@pytest.mark.parametrize(("value", "kept", "refused"), [(0, 0, False), (9, 9, False), (-1, 0, True), (10, 0, True)])
def test_integer(value: int, kept: int, refused: bool) -> None:
    problems = Problems()
    assert problems.integer("priority", value, 0, 9) == kept
    assert bool(violations(problems)) == refused


@pytest.mark.parametrize(
    ("pattern", "value", "taken"),
    [
        (TYPE, "a", True),
        (TYPE, "A9._:/-z", True),
        (TYPE, "a" * 128, True),
        (TYPE, "a" * 129, False),
        (TYPE, "", False),
        (TYPE, ".a", False),
        (TYPE, "a b", False),
        (TYPE, "a\n", False),
        (TYPE, "é", False),
        (TYPE, "a\0", False),
        (QUEUE, "a" * 64, True),
        (QUEUE, "a" * 65, False),
        (QUEUE, "a/b", False),
        (QUEUE, "a:b", False),
        (QUEUE, "٣", False),
        (QUEUE, SURROGATE, False),
    ],
)
def test_names(pattern: re.Pattern[str], value: str, taken: bool) -> None:
    problems = Problems()
    problems.pattern("name", value, pattern, "a name")
    found = violations(problems)
    assert bool(found) != taken
    for _, description in found:
        description.encode()


def test_all_problems_are_told_at_once_and_the_message_stays_short() -> None:
    problems = Problems()
    for number in range(30):
        problems.add(f"f{number}", "is wrong")
    with pytest.raises(InvalidArgument) as refused:
        problems.raise_any()
    assert [v.field for v in refused.value.violations] == [f"f{number}" for number in range(20)]
    assert refused.value.message == "; ".join(f"f{number}: is wrong" for number in range(5))
    assert refused.value.reason == "VALIDATION_FAILED"


def test_too_large_names_limit_and_remedy() -> None:
    refused = too_large("job.payload.data", "a payload", 11, 10)
    assert (refused.reason, refused.metadata) == (
        "PAYLOAD_TOO_LARGE",
        {"field": "job.payload.data", "limit": "10", "found": "11"},
    )
    assert refused.message == (
        "job.payload.data: a payload of 11 bytes is over the limit of 10; store the data elsewhere and send a reference"
    )
