"""What a mutant is, and how it is hunted."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from rota.coordinator.node import Node

from .. import checks, world
from ..checks import Violation
from ..world import Outcome as Seed


@dataclass(frozen=True, slots=True)
class Mutant:
    """`removed`: guards of the store or the target; `patch`: what is broken in the coordinator; `node`: the same for
    each node. `equivalent` says why nothing is lost."""

    name: str
    removed: frozenset[str] = frozenset()
    patch: Callable[[], AbstractContextManager[Any]] = nullcontext
    node: Callable[[Node], None] = lambda node: None
    equivalent: str = ""

    def run(self, seed: int) -> tuple[Seed, list[Violation]]:
        with self.patch():
            outcome = world.run(seed, removed=self.removed, on_node=self.node)
        return outcome, checks.check(outcome)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The first seed that caught a mutant, and by what; None: nobody did. Small, since it crosses processes."""

    seed: int | None
    violation: str
    tried: int


def hunt(mutant: Mutant, seeds: Sequence[int]) -> Verdict:
    for tried, seed in enumerate(seeds, 1):
        _, found = mutant.run(seed)
        if found:
            return Verdict(seed, f"{found[0].rule}: {found[0].text}", tried)
    return Verdict(None, "", len(seeds))


def store(name: str, *more: str, equivalent: str = "") -> Mutant:
    return Mutant(" and ".join((name, *more)), frozenset((name, *more)), equivalent=equivalent)


def broken(name: str, target: Any, attribute: str, with_what: Any, equivalent: str = "") -> Mutant:
    return Mutant(name, patch=lambda: patch.object(target, attribute, with_what), equivalent=equivalent)
