"""What end-to-end tests share."""

from collections import Counter
from pathlib import Path

import pytest

HANDLERS = Path(__file__).parent / "handlers.py"


class Starts:
    """The starts of handlers, as the workers wrote them down."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def lines(self) -> list[tuple[str, int, int, int]]:
        """(job id, attempt, fence, pid) of each start."""
        if not self.file.exists():
            return []
        rows = [line.split() for line in self.file.read_text().splitlines()]
        return [(job, int(attempt), int(fence), int(pid)) for job, attempt, fence, pid in rows]

    def by_job(self) -> Counter[str]:
        return Counter(job for job, *_ in self.lines())


@pytest.fixture
def starts(tmp_path: Path) -> Starts:
    return Starts(tmp_path / "starts.txt")
