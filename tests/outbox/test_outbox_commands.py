"""`rota migrate --outbox` and `rota outbox`: what they print, and their exit codes."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from rota.cli.errors import Exit
from rota.cli.main import main
from rota.outbox import install

from .world import SCHEMA, App


@dataclass
class Ran:
    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def rota(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    monkeypatch.setenv("ROTA_HOME", str(tmp_path))

    def run(*arguments: str) -> Ran:
        capsys.readouterr()
        code = main(list(arguments))
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run


@pytest.fixture
def parked_app(app: App) -> App:
    """Two rows wait, two are parked."""
    for n in range(4):
        app.enqueue(payload=Jsonb(n), ordering_key=f"key-{n}")
    app.run(
        "update rota_outbox set parked_at = now(), sent_at = now(), reason = 'VALIDATION_FAILED', "
        "error = 'job.type: no' || chr(10) || 'more' where seq <= 2"
    )
    return app


def test_migrate_installs_once(bare_app: App, rota: Run) -> None:
    where = ("migrate", "--outbox", bare_app.url, "--schema", SCHEMA)
    missing = rota(*where, "--check")
    assert missing.code == Exit.REFUSED
    assert missing.out == "schema app lacks the outbox and needs version 1: run rota migrate --outbox\n"
    first = rota(*where)
    assert (first.code, first.err) == (Exit.OK, "")
    assert re.fullmatch(r"installed: the outbox in schema app is at version 1 \(PostgreSQL [\d.]+.*\)\n", first.out)
    assert rota(*where).out.startswith("nothing to do: the outbox in schema app is at version 1")
    document = json.loads(rota(*where, "--json", "--check").out)
    assert (document.pop("server"), document) == (
        install.status(bare_app.place).server,
        {"applied": [], "current": 1, "head": 1, "up_to_date": True},
    )


def test_migrate_grants(app: App, rota: Run) -> None:
    app.run("drop role if exists outbox_cli; create role outbox_cli")
    try:
        where = ("migrate", "--outbox", app.url, "--schema", SCHEMA)
        assert rota(*where, "--grant-enqueue", "outbox_cli", "--grant-relay", "outbox_cli").code == Exit.OK
        asked = (
            "select has_function_privilege('outbox_cli', oid, 'execute') from pg_proc where proname = 'rota_enqueue'"
        )
        assert app.run(asked) == [(True,)]
        assert app.run("select has_table_privilege('outbox_cli', 'rota_outbox', 'delete')") == [(True,)]
        gone = rota(*where, "--grant-relay", "outbox_gone")
        assert gone.code == Exit.REFUSED
        assert 'role "outbox_gone" does not exist' in gone.err
    finally:
        app.run("drop owned by outbox_cli; drop role outbox_cli")


def test_migrate_prints_the_sql_without_a_database(rota: Run) -> None:
    printed = rota("migrate", "--print-sql", "--schema", "billing", "--grant-enqueue", 'a"b')
    assert printed.code == Exit.OK
    assert printed.out == install.script("billing", install.Grants(enqueue=['a"b']))
    assert 'create table if not exists "billing".rota_outbox (' in printed.out
    assert 'grant execute on function "billing".rota_enqueue to "a""b";' in printed.out
    assert not re.search(r"@\w+@", printed.out)


def test_migrate_refuses_options_of_the_outbox_without_it(rota: Run) -> None:
    refused = rota("migrate", "--schema", "app")
    assert (refused.code, refused.err) == (
        Exit.USAGE,
        "error: --schema: expected together with --outbox, found without\n",
    )


def test_status_shows_what_waits_and_what_is_parked(parked_app: App, rota: Run, monkeypatch: Any) -> None:
    monkeypatch.setenv("ROTA_OUTBOX_URL", parked_app.url)
    monkeypatch.setenv("ROTA_OUTBOX_SCHEMA", SCHEMA)
    shown = rota("outbox", "status")
    assert shown.code == Exit.REFUSED
    lines = shown.out.splitlines()
    assert lines[0] == "waiting  2, 0 of them claimed by a relay"
    assert lines[1].startswith("oldest   enqueued ")
    assert lines[2] == "parked   2"
    assert lines[4].split() == ["ROW", "TYPE", "QUEUE", "KEY", "ENQUEUED", "REASON", "ERROR"]
    assert re.fullmatch(r"1 +greet +default +key-0 +20\S+Z +VALIDATION_FAILED +job.type: no", lines[5])
    document = json.loads(rota("outbox", "status", "--json", "--limit", "1").out)
    assert (document["waiting"], document["claimed"], document["parked"]) == (2, 0, 2)
    (row,) = document["parked_rows"]
    assert (row["row"], row["ordering_key"], row["error"]) == (1, "key-0", "job.type: no\nmore")
    assert row["first_send_time"]


def test_an_empty_outbox_is_well(app: App, rota: Run) -> None:
    shown = rota("outbox", "status", "--url", app.url, "--schema", SCHEMA)
    assert (shown.code, shown.out) == (Exit.OK, "waiting  0, 0 of them claimed by a relay\nparked   0\n")


def test_retry_and_discard_act_on_parked_rows_alone(parked_app: App, rota: Run) -> None:
    where = ("--url", parked_app.url, "--schema", SCHEMA)
    assert rota("outbox", "retry", "1", *where).out == "retried 1 of 1 rows\n"
    missing = rota("outbox", "discard", "1", "2", "3", *where)
    assert (missing.code, missing.out) == (Exit.NOT_FOUND, "discarded 1 of 3 rows\n")
    assert "row 1: expected a parked row, found none" in missing.err
    assert parked_app.rows("seq, parked_at, sent_at, attempts") == [(n, None, None, 0) for n in (1, 3, 4)]
    assert json.loads(rota("outbox", "discard", "--all", "--json", *where).out) == {"discarded": []}
    for arguments in ((), ("1", "--all")):
        assert rota("outbox", "retry", *arguments, *where).code == Exit.USAGE


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("status",), Exit.USAGE, "Missing option '--url'"),
        (("status", "--url", "nonsense"), Exit.USAGE, "--url: expected postgresql://"),
        (("status", "--url", "postgresql://127.0.0.1:1/x"), Exit.UNREACHABLE, "cannot be reached at 127.0.0.1:1/x"),
        (("relay", "--url", "postgresql://127.0.0.1:1/x"), Exit.UNREACHABLE, "cannot be reached at 127.0.0.1:1/x"),
        (("relay", "--url", "postgresql://127.0.0.1:1/x", "--poll", "2m"), Exit.USAGE, "--poll: expected 10ms to 60s"),
    ],
)
def test_errors_are_one_line(rota: Run, arguments: tuple[str, ...], code: Exit, words: str) -> None:
    ran = rota("outbox", *arguments)
    assert ran.code == code
    errors = [line for line in ran.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert words in errors[0]


def test_an_outbox_that_is_not_installed(bare_app: App, rota: Run) -> None:
    ran = rota("outbox", "status", "--url", bare_app.url, "--schema", SCHEMA, "--json")
    assert ran.code == Exit.REFUSED
    error = json.loads(ran.err)["error"]
    assert error["reason"] == "INVALID_STATE"
    assert error["message"].endswith("found none; install it by rota migrate --outbox URL --schema NAME")
