"""A deterministic profile of a whole process: every Python thread by cProfile, summed up.

It slows the process down and favours code that makes few calls: good for finding, not for measuring.
"""

import cProfile
import io
import marshal
import pstats
import threading
from pathlib import Path
from typing import Any

TOP = 25


class Profiler:
    """Does nothing when there is no path."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._profiles: list[cProfile.Profile] = []

    def start(self) -> None:
        """Begins with the calling thread, and with every thread that starts after it."""
        if self._path is not None:
            threading.setprofile(self._begin)
            self._begin()

    def stop(self) -> None:
        """Ends, in the thread that began, and writes the pstats file."""
        if self._path is None or not self._profiles:
            return
        threading.setprofile(None)
        self._profiles[0].disable()
        merged: pstats.Stats | None = None
        for profile in self._profiles:
            profile.snapshot_stats()
            if not profile.stats:
                continue
            found = _Snapshot(profile.stats)
            if merged is None:
                merged = pstats.Stats(found)  # type: ignore[arg-type]
            else:
                merged.add(found)  # type: ignore[arg-type]
        if merged is not None:
            self._path.write_bytes(marshal.dumps(merged.stats))  # type: ignore[attr-defined]

    def _begin(self, *_: Any) -> None:
        profile = cProfile.Profile()
        try:
            profile.enable()
        except ValueError:
            # From Python 3.12 on the first profile hears of all threads.
            return
        self._profiles.append(profile)


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
