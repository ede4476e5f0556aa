"""What the store does without, since each has brought others to a stand: checked in the SQL and the tables."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import BigInteger, Text

import rota
from rota.store.tables import metadata

STORE = Path(rota.__file__).parent / "store"

WAKES_OR_LOCKS = re.compile(r"\b(LISTEN|UNLISTEN|NOTIFY|pg_notify|pg_(try_)?advisory\w*)\b")
"""LISTEN and NOTIFY (recall.ai 2025, oban-bg/oban#791): commits wait for one lock, and a payload has 8,000 bytes.
Advisory locks (good_job#731, #1549; pg-boss#323): they queue, and break behind a pooler."""

FOR_THEIR_WEIGHT = {
    "payload",
    "result",
    "headers",
    "labels",
    "job_labels",
    "options",
    "last_failure",
    "failure",
    "past",
}

COUNTS_ON = {"fence", "epoch", "version", "schedule_version", "settings_version", "fired", "total", "count", "missed"}
"""What grows for as long as an installation lives."""


def texts(path: Path) -> Iterator[str]:
    """Every text of a module but its documentation."""
    tree = ast.parse(path.read_text())
    documented = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented:
            yield node.value


def test_no_statement_notifies_or_takes_an_advisory_lock() -> None:
    seen = 0
    for path in STORE.rglob("*.py"):
        for text in texts(path):
            seen += 1
            found = WAKES_OR_LOCKS.search(text)
            # Migrations go one at a time, and nothing else waits for that.
            assert found is None or path.name == "schema.py", f"{path.name}: {found[0]}"
    assert seen > 1_000


def test_one_would_be_seen() -> None:
    for text in ("LISTEN jobs", "SELECT pg_notify('a', 'b')", "SELECT pg_try_advisory_xact_lock(1)"):
        assert WAKES_OR_LOCKS.search(text)


def test_no_index_holds_what_callers_send() -> None:
    """que-rb/que#240, riverqueue/river#1296: an index on arguments grew to ten times its table."""
    for table in metadata.tables.values():
        for index in table.indexes:
            assert not {column.name for column in index.columns} & FOR_THEIR_WEIGHT, index.name
            assert index.dialect_options["postgresql"]["using"] in (None, False, "btree"), index.name


def test_what_grows_for_ever_has_64_bits() -> None:
    """graphile-worker 0.17.3: ids of 32 bits ended after two billion jobs."""
    seen = set()
    for table in metadata.tables.values():
        for column in table.columns:
            if column.name in COUNTS_ON and not isinstance(column.type, Text):
                seen.add(column.name)
                assert isinstance(column.type, BigInteger), f"{table.name}.{column.name}"
    assert seen == COUNTS_ON


def test_the_state_of_a_job_is_no_key_and_parts_no_table() -> None:
    """oban-bg/oban#1030, riverqueue/river#619: rows that had to move between partitions, or met their younger twins."""
    for table in metadata.tables.values():
        keys = [table.primary_key.columns, *(index.columns for index in table.indexes if index.unique)]
        assert not any("state" in key.keys() for key in keys), table.name  # noqa: SIM118
        assert "state" not in str(table.dialect_options["postgresql"].get("partition_by") or ""), table.name
