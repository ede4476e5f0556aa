"""Texts with holes such as {{job.id}}, which an attempt fills. Plain substitution: nothing is computed."""

import re
from collections.abc import Callable, Mapping
from typing import Final

from rota.domain.text import Problems
from rota.domain.wording import suggestion

NAMES: Final = (
    "job.id",
    "job.attempt",
    "job.fence",
    "job.queue",
    "job.effect_key",
    "job.due_time",
    "schedule.id",
    "occurrence.time",
)
"""Instants are ISO 8601 in UTC. `schedule.id` and `occurrence.time` have a value in jobs of schedules alone."""

OF_SCHEDULES: Final = frozenset({"schedule.id", "occurrence.time"})

_HOLE: Final = re.compile(r"\{\{[ \t]*([^{}\n]{0,80}?)[ \t]*\}\}")


class NoValue(Exception):
    """A hole for which the attempt has nothing."""


def holes(text: str) -> set[str]:
    """The names in a text, known or not."""
    return set(_HOLE.findall(text))


def check(at: str, text: str, problems: Problems) -> None:
    """Refuses names that no attempt has."""
    for name in sorted(holes(text).difference(NAMES)):
        problems.add(
            at,
            f"expected a name that an attempt has, found {{{{{name}}}}}; {suggestion(name, NAMES)}; "
            'for text that holds such braces itself send "template": false',
        )


def fill(text: str, values: Mapping[str, str], escape: Callable[[str], str] = str) -> str:
    """The text with its holes filled, each value escaped for where it goes. Raises NoValue."""

    def value(hole: re.Match[str]) -> str:
        found = values.get(hole[1], "")
        if not found:
            raise NoValue(f"{{{{{hole[1]}}}}} has no value in this attempt")
        return escape(found)

    return _HOLE.sub(value, text)
