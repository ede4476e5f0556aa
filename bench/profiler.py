"""A deterministic profile of a whole process: every Python thread by cProfile, summed up.

It makes the process about twice as slow and favours code that makes few calls: good for finding, not for measuring.
"""

import cProfile
import io
import marshal
import pstats
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TOP = 25


@contextmanager
def profiled(path: Path | None) -> Iterator[None]:
    """Writes a pstats file about the block and the threads that begin in it; nothing when there is no path."""
    if path is None:
        yield
        return
    profiles: list[cProfile.Profile] = []

    def begin(*_: Any) -> None:
        profile = cProfile.Profile()
        try:
            profile.enable()
        except ValueError:
            # From Python 3.12 on the first profile hears of all threads.
            return
        profiles.append(profile)

    threading.setprofile(begin)
    begin()
    try:
        yield
    finally:
        threading.setprofile(None)
        profiles[0].disable()
        merged: pstats.Stats | None = None
        for profile in profiles:
            profile.snapshot_stats()  # type: ignore[no-untyped-call]
            if not profile.stats:  # type: ignore[attr-defined]
                continue
            found = _Snapshot(profile.stats)  # type: ignore[attr-defined]
            if merged is None:
                merged = pstats.Stats(found)
            else:
                merged.add(found)  # type: ignore[arg-type]
        if merged is not None:
            path.write_bytes(marshal.dumps(merged.stats))  # type: ignore[attr-defined]


class _Snapshot:
    """What pstats takes for a profile."""

    def __init__(self, stats: dict[Any, Any]) -> None:
        self.stats = stats

    def create_stats(self) -> None:
        """They are there already."""


def top(path: Path) -> str:
    """The functions with the most time of their own, as a table."""
    text = io.StringIO()
    pstats.Stats(str(path), stream=text).sort_stats("tottime").print_stats(TOP)
    return text.getvalue()
