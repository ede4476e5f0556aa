"""What a command writes, kept in bounded memory: its beginning and its end."""

import codecs
import json
from collections.abc import Callable
from typing import Final

KEPT_BYTES: Final = 64 * 1024
"""Of the beginning and of the end together: as much as a result can hold."""

LINE_CHARS_MAX: Final = 300

_HALF: Final = KEPT_BYTES // 2
_MARK_BYTES: Final = 128
"""Room for the note that says how much was cut."""


class Output:
    """Takes bytes without end, and gives them back as text of a wanted size.

    Text is UTF-8 with U+FFFD for what is none, and without NUL. What was cut is counted in bytes.
    """

    def __init__(self) -> None:
        self.total = 0
        self._head = bytearray()
        self._tail = bytearray()

    def add(self, chunk: bytes) -> None:
        self.total += len(chunk)
        room = _HALF - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        self._tail += chunk[-_HALF:]
        # Cut seldom, so that a byte is moved once and not with every chunk.
        if len(self._tail) > 2 * _HALF:
            del self._tail[:-_HALF]

    def text(self, limit: int, size: Callable[[str], int]) -> tuple[str, bool]:
        """All of it, or its beginning and end with a note between them, in at most `limit` as `size` counts.

        The second value says whether anything was cut.
        """
        head, tail = bytes(self._head), bytes(self._tail[-_HALF:])
        if self.total == len(head) + len(tail):
            data = head + tail
            whole = _decoded(data)
            if size(whole) <= limit:
                return whole, False
            head, tail = data[: len(data) // 2], data[len(data) // 2 :]
        room = (limit - _MARK_BYTES) // 2
        head, tail = _fitting(head, room, size, _beginning), _fitting(tail, room, size, _end)
        cut = self.total - len(head) - len(tail)
        return f"{_decoded(head)}\n… [{cut} bytes cut] …\n{_decoded(tail)}", True

    def last_line(self) -> str:
        """The last line that says something, cut."""
        end = _decoded(bytes(self._head + self._tail)[-4 * LINE_CHARS_MAX :])
        line = next((line.strip() for line in reversed(end.splitlines()) if line.strip()), "")
        return line if len(line) <= LINE_CHARS_MAX else f"{line[: LINE_CHARS_MAX - 1]}…"


def utf8_size(text: str) -> int:
    """Bytes of UTF-8."""
    return len(text.encode())


def json_size(text: str) -> int:
    """Bytes of a JSON text in UTF-8, quotes and escapes included."""
    return len(json.dumps(text, ensure_ascii=False).encode())


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace").replace("\0", "")


def _fitting(data: bytes, room: int, size: Callable[[str], int], cut: Callable[[bytes, int], bytes]) -> bytes:
    """As much of the data as has room."""
    count = len(data)
    while True:
        part = cut(data, count)
        found = size(_decoded(part))
        if found <= room:
            return part
        count = min(count - 1, count * room // found)


def _beginning(data: bytes, count: int) -> bytes:
    """The first `count` bytes, without a character that is cut."""
    part = data[:count]
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(part)
    return part[: len(part) - len(decoder.getstate()[0])]


def _end(data: bytes, count: int) -> bytes:
    """The last `count` bytes, without a character that is cut."""
    part = data[len(data) - count :]
    # A character has at most three bytes after its first.
    return next((part[at:] for at in range(min(4, len(part))) if part[at] & 0xC0 != 0x80), part)
