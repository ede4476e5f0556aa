"""Words that all messages about wrong input share."""

from collections.abc import Iterable
from typing import Any


def suggestion(word: str, known: Iterable[str], prefix: str = "") -> str:
    """Words that lead from an unknown name to the nearest known one, or to all, in their order.

    A `prefix` common to all counts for nothing.
    """
    import difflib

    names = {name.removeprefix(prefix): name for name in known}
    near = difflib.get_close_matches(word.removeprefix(prefix), names, n=1, cutoff=0.6)
    return f"did you mean {names[near[0]]}?" if near else f"known are {', '.join(names.values())}"


def json_kind(value: Any) -> str:
    """What JSON calls it."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
