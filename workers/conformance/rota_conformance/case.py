"""Cases as they are written: YAML in, values out, and a clear word about what is wrong with them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

STEPS = frozenset(
    {
        "offer",
        "answer",
        "statuses",
        "await",
        "quiet",
        "direct",
        "streams",
        "mute",
        "expire",
        "coordinator",
        "signal",
        "finish",
        "pause",
    }
)
CHECKS = frozenset({"call", "equal", "differ", "result", "event", "count", "connections", "beats", "logged", "exit"})


class CaseError(ValueError):
    """A case, or the list of languages, that does not say what it should."""


@dataclass(frozen=True)
class Case:
    """`before` is done before the worker starts and `steps` while it runs, in order; `expect` is asked of everything
    that came, after the worker has left. `contract` names the rule that it proves, `features` what an SDK must have
    declared, or the case is not for it."""

    name: str
    promise: str
    contract: str
    features: frozenset[str]
    coordinator: Mapping[str, Any]
    worker: Mapping[str, Any]
    before: Sequence[tuple[str, Any]]
    steps: Sequence[tuple[str, Any]]
    expect: Sequence[tuple[str, Any]]
    within_s: float
    rules_off: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True)
class Language:
    """How a program under test is built and started, what it can do, and what it is known to fail with the reason why.
    `checks` are the SDK's own: lint and unit tests. `needs`: tools without which none of it can be. `fleet` starts its
    worker of the mixed fleet and of the benchmark."""

    name: str
    command: Sequence[str]
    build: Sequence[Sequence[str]]
    checks: Sequence[Sequence[str]]
    needs: Sequence[str]
    features: frozenset[str]
    known_failing: Mapping[str, str]
    start_s: float
    fleet: Sequence[str] = ()


def load_cases(folder: Path) -> list[Case]:
    """All cases of a folder, by file and by place in it. Raises CaseError."""
    cases = [_case(f"{path.name} #{number}", given) for path, number, given in _documents(folder)]
    seen: set[str] = set()
    for case in cases:
        if case.name in seen:
            raise CaseError(f"{case.name}: expected names that are unique, found it twice")
        seen.add(case.name)
    return cases


def load_languages(path: Path) -> dict[str, Language]:
    """The SDKs, by name. Raises CaseError."""
    found = {}
    for name, given in yaml.safe_load(path.read_text()).items():
        _known(
            f"{path.name} {name}",
            given,
            {"command", "build", "checks", "needs", "features", "known_failing", "start_s", "fleet"},
        )
        found[name] = Language(
            name,
            tuple(given["command"]),
            tuple(tuple(command) for command in given.get("build", ())),
            tuple(tuple(command) for command in given.get("checks", ())),
            tuple(given.get("needs", ())),
            frozenset(given.get("features", ())),
            dict(given.get("known_failing") or {}),
            float(given.get("start_s", 5.0)),
            tuple(given.get("fleet", ())),
        )
    return found


def _documents(folder: Path) -> Iterator[tuple[Path, int, Any]]:
    for path in sorted(folder.glob("*.yaml")):
        for number, given in enumerate(yaml.safe_load_all(path.read_text())):
            yield path, number, given


def _case(where: str, given: Any) -> Case:
    if not isinstance(given, dict) or "name" not in given:
        raise CaseError(f"{where}: expected a mapping with a name, found {type(given).__name__}")
    where = f"{where} {given['name']}"
    _known(
        where,
        given,
        {
            "name", "promise", "contract", "features", "coordinator", "worker", "before", "steps", "expect", "within",
            "rules_off",
        },
    )  # fmt: skip
    for key in ("promise", "contract", "steps"):
        if not given.get(key):
            raise CaseError(f"{where}: expected `{key}`, found none")
    return Case(
        name=given["name"],
        promise=given["promise"],
        contract=str(given["contract"]),
        features=frozenset(given.get("features", ())),
        coordinator=given.get("coordinator", {}),
        worker=given.get("worker", {}),
        before=[_one(where, step, STEPS) for step in given.get("before", ())],
        steps=[_one(where, step, STEPS) for step in given["steps"]],
        expect=[_one(where, check, CHECKS) for check in given.get("expect", ())],
        within_s=float(given.get("within", 10.0)),
        rules_off=frozenset(given.get("rules_off", ())),
    )


def _known(where: str, given: Mapping[str, Any], names: set[str]) -> None:
    unknown = sorted(set(given) - names)
    if unknown:
        raise CaseError(f"{where}: unknown key {unknown[0]!r}; expected one of {', '.join(sorted(names))}")


def _one(where: str, given: Any, names: frozenset[str]) -> tuple[str, Any]:
    """Steps and checks are mappings whose first key says what they are; the others belong to it."""
    if isinstance(given, str):
        given = {given: None}
    if not isinstance(given, dict) or not given:
        raise CaseError(f"{where}: expected a mapping, found {given!r}")
    name = next(iter(given))
    if name not in names:
        raise CaseError(f"{where}: unknown {name!r}; expected one of {', '.join(sorted(names))}")
    return name, given
