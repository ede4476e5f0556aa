"""Seeded worlds keep every promise, the same seed is the same world, and the checks see what they are to see."""

import os
import subprocess
import sys

import pytest

from . import checks, mutants, stories, world

SEEDS = int(os.environ.get("ROTA_TEST_SIM_SEEDS", "200"))
CHUNK = 25

TOUCHSTONES = ("claim: due", "acquire: free", "target: key", *mutants.PLANTED.values())
"""Mutants that are hunted with every run, so that a rig that sees nothing fails."""


def keep_every_promise(seed: int) -> None:
    outcome = world.run(seed)
    violations = checks.check(outcome)
    assert not violations, f"seed {seed}, see: python -m tests.sim --seeds {seed}..{seed + 1}\n{violations[0]}"
    assert outcome.finished, f"seed {seed}: something is not terminal at the end"


@pytest.mark.parametrize("seed", stories.SEEDS)
def test_what_was_found_once_stays_mended(seed: int) -> None:
    keep_every_promise(seed)


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_worlds_keep_every_promise(first: int) -> None:
    for seed in range(first, min(first + CHUNK, SEEDS)):
        keep_every_promise(seed)


def test_a_seed_is_one_world() -> None:
    assert world.run(1).digest == world.run(1).digest != world.run(2).digest


def test_a_seed_is_the_same_world_in_another_process() -> None:
    program = "from tests.sim import world; print(world.run(0).digest)"
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert digests == {f"{world.run(0).digest}\n"}


@pytest.mark.parametrize("name", TOUCHSTONES)
def test_a_missing_guard_is_seen(name: str) -> None:
    (mutant,) = [m for m in mutants.ALL if m.name == name]
    assert mutants.hunt(mutant, range(SEEDS)).seed is not None


def test_each_story_has_words() -> None:
    assert all(len(story) > 20 for story in stories.SEEDS.values())
