"""What is kept of an output, and how it is shown."""

import json
import re

import pytest

from rota.targets.output import KEPT_BYTES, Output, json_size, utf8_size

LIMIT = 64 * 1024 - 256


def output(*chunks: bytes) -> Output:
    made = Output()
    for chunk in chunks:
        made.add(chunk)
    return made


def test_a_short_output_is_whole() -> None:
    assert output(b"one\n", b"two\n").text(100, utf8_size) == ("one\ntwo\n", False)
    assert output().text(100, utf8_size) == ("", False)


def test_what_is_no_utf8_is_replaced_and_nul_is_removed() -> None:
    assert output(b"a\0b\xff\xc3", b"\xa4").text(100, utf8_size) == ("ab�ä", False)


@pytest.mark.parametrize("unit", [b"x", "ä€😀".encode(), b"\x01", b'"\\\n', b"\xff\xfe", b"\0"])
@pytest.mark.parametrize("size", [json_size, utf8_size])
def test_a_long_output_keeps_both_ends_and_counts_what_was_cut(unit: bytes, size: object) -> None:
    sizer = json_size if size is json_size else utf8_size
    begin, end = b"the beginning " + unit, unit + b" the end"
    data = begin + unit * (10_000_000 // len(unit)) + end
    made = output(*(data[at : at + 7_919] for at in range(0, len(data), 7_919)))
    text, truncated = made.text(LIMIT, sizer)
    assert truncated
    assert sizer(text) <= LIMIT
    assert text.startswith("the beginning ")
    assert text.endswith(" the end")
    marks = re.findall(r"\n… \[(\d+) bytes cut\] …\n", text)
    assert len(marks) == 1
    if unit == b"x":
        assert int(marks[0]) == len(data) - (len(text) - len(f"\n… [{marks[0]} bytes cut] …\n"))
    if unit not in (b"\xff\xfe",):
        assert "�" not in text
    assert len(made._head) + len(made._tail) <= 2 * KEPT_BYTES


def test_at_the_limit_nothing_is_cut_and_a_byte_over_it_something_is() -> None:
    fits = b"x" * (LIMIT - 2)
    assert output(fits).text(LIMIT, json_size) == (fits.decode(), False)
    text, truncated = output(fits, b"x").text(LIMIT, json_size)
    assert truncated
    assert len(json.dumps(text, ensure_ascii=False).encode()) <= LIMIT


def test_escapes_count() -> None:
    text, truncated = output(b"\x01" * 60_000).text(LIMIT, json_size)
    assert truncated
    assert LIMIT * 0.9 < json_size(text) <= LIMIT


def test_the_last_line_is_the_last_that_says_something() -> None:
    assert output(b"a\n  no such table \n\n \n").last_line() == "no such table"
    assert output().last_line() == ""
    assert len(output(b"x" * 100_000).last_line()) == 300
