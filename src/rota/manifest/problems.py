"""What is wrong with a file, each with its line and the path of its field."""

from dataclasses import dataclass
from typing import Final

from rota.domain.errors import FieldViolation, InvalidArgument

PROBLEMS_MAX: Final = 20
"""Told of one file; who has more of them repairs the first ones and asks again."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong."""

    line: int
    """From 1; 0: the file as a whole."""
    path: str
    """As in the file: schedules.nightly.cron; empty for the text itself."""
    description: str
    """What was expected, what was found, and what to do."""
    reason: str | None = None


class Refused(InvalidArgument):
    """A file that cannot be taken: everything that was found wrong with it, by line."""

    def __init__(self, source: str, problems: list[Problem]) -> None:
        self.source = source
        self.problems = sorted(problems, key=lambda problem: problem.line)[:PROBLEMS_MAX]
        violations = tuple(FieldViolation(self._where(problem), problem.description) for problem in self.problems)
        message = "; ".join(f"{violation.field}: {violation.description}" for violation in violations)
        super().__init__(message, reason=self.problems[0].reason, violations=violations)

    @classmethod
    def of(cls, problems: "Problems") -> "Refused":
        """The refusal of all that was collected."""
        return cls(problems.source, problems.found)

    @property
    def lines(self) -> list[str]:
        """One line of text for each problem."""
        return [f"{violation.field}: {violation.description}" for violation in self.violations]

    def _where(self, problem: Problem) -> str:
        place = f"{self.source}:{problem.line}" if problem.line else self.source
        return f"{place}: {problem.path}" if problem.path else place


class Problems:
    """Collects what is wrong with one file, so that its writer learns of all of it at once."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.lines: dict[str, int] = {}
        """Where each key read so far stands, by its path."""
        self.values = 0
        """Values read so far of payloads, which aliases may repeat without end."""
        self.found: list[Problem] = []

    def __bool__(self) -> bool:
        return bool(self.found)

    def within(self, path: str) -> bool:
        """Whether something is wrong with what stands at a path, or below it."""
        return any(problem.path == path or problem.path.startswith(f"{path}.") for problem in self.found)

    def add(self, line: int, path: str, description: str, reason: str | None = None) -> None:
        self.found.append(Problem(line, path, description, reason))

    def line_of(self, path: str) -> int:
        """Where a path stands, or what encloses it; 0 if neither is known."""
        while path:
            if path in self.lines:
                return self.lines[path]
            path = path.rpartition(".")[0]
        return 0

    def take(self, line: int, path: str, error: InvalidArgument) -> None:
        """Adds what a rule of the domain refused, in its own words."""
        for violation in error.violations or (FieldViolation("", error.message),):
            self.add(line, path, violation.description, error.reason)

    def raise_any(self) -> None:
        """Raises Refused with what was found, if anything."""
        if self.found:
            raise Refused.of(self)
