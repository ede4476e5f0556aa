"""Files that commands read: one by name, `-` for standard input, or those of a folder."""

import sys
from pathlib import Path
from typing import Final

from rota.domain.errors import InvalidArgument
from rota.domain.text import refusal

FILES_MAX: Final = 1_000
"""Of one folder."""

STANDARD_INPUT: Final = "-"
_ENDINGS: Final = frozenset({".yaml", ".yml"})


def files(option: str, given: str) -> list[str]:
    """The file given, or those of the folder given that end in .yaml or .yml, by name.

    Raises InvalidArgument.
    """
    if given == STANDARD_INPUT or not Path(given).is_dir():
        return [given]
    found = sorted(path for path in Path(given).iterdir() if path.suffix in _ENDINGS and path.is_file())
    if not 0 < len(found) <= FILES_MAX:
        expected = f"1 to {FILES_MAX} files that end in .yaml or .yml"
        raise InvalidArgument.field(option, f"expected {expected}, found {len(found)} in {given}; name another folder")
    return [str(path) for path in found]


def text(option: str, name: str, bytes_max: int, *, lenient: bool = False) -> str:
    """What a file holds, in UTF-8. Bytes that are none are refused, or with `lenient` become U+FFFD.

    Raises InvalidArgument.
    """
    try:
        if name == STANDARD_INPUT:
            content = sys.stdin.buffer.read(bytes_max + 1)
        else:
            with Path(name).open("rb") as file:
                content = file.read(bytes_max + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise refusal(option, name, "a readable file", f"{why}") from None
    if len(content) > bytes_max:
        raise refusal(option, name, f"at most {bytes_max} bytes", "make several files")
    try:
        return content.decode("utf-8", "replace" if lenient else "strict")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise refusal(option, name, "text in UTF-8", f"line {line} has other bytes: convert the file") from None


def shown(name: str) -> str:
    """What a file is called in messages."""
    return "standard input" if name == STANDARD_INPUT else name
