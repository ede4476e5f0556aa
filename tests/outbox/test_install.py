"""Installing the outbox: in the application's own schema, again and again, by itself or by hand."""

import threading
from collections.abc import Callable

import pytest

from rota.domain.errors import FailedPrecondition, InvalidArgument, RotaError, Unavailable
from rota.outbox import install, operate
from rota.outbox.database import Place

from .world import SCHEMA, App

OBJECTS = """
select relname::text, relkind::text from pg_class where relnamespace = 'app'::regnamespace
union all select proname::text, pg_get_functiondef(oid) from pg_proc where pronamespace = 'app'::regnamespace order by 1
"""


def test_installing_twice_changes_nothing(bare_app: App) -> None:
    first = install.install(bare_app.place)
    bare_app.enqueue()
    objects = bare_app.run(OBJECTS)
    second = install.install(bare_app.place)
    assert (first.before, first.version, second.before, second.version) == (None, 1, 1, 1)
    assert first.up_to_date
    assert bare_app.run(OBJECTS) == objects
    assert bare_app.count == 1


def test_the_printed_sql_is_what_is_installed_and_may_run_twice(bare_app: App, app: App) -> None:
    objects = app.run(OBJECTS)
    app.run(f"drop schema {SCHEMA} cascade; create schema {SCHEMA}")
    script = install.script(SCHEMA)
    for _ in range(2):
        with app.connect(autocommit=True) as conn:
            conn.execute(script.encode())
    assert app.run(OBJECTS) == objects
    assert install.status(app.place).version == 1


def test_many_at_once(bare_app: App) -> None:
    found: list[object] = []

    def run() -> None:
        try:
            found.append(install.install(bare_app.place).before)
        except RotaError as error:
            found.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, found)) == ["1", "1", "1", "None"]


def test_a_newer_version_is_left_alone_and_served(app: App) -> None:
    app.run("create or replace function rota_outbox_version() returns integer language sql immutable as 'select 2'")
    found = install.install(app.place)
    assert (found.before, found.version, found.up_to_date) == (2, 2, True)
    install.check(app.place)


def test_a_schema_with_a_difficult_name(bare_app: App) -> None:
    name = 'My "own" schema; drop table x'
    bare_app.run('create schema "My ""own"" schema; drop table x"')
    place = Place(bare_app.url, name)
    install.install(place)
    bare_app.run('select "My ""own"" schema; drop table x".rota_enqueue(\'greet\', ordering_key => \'k\')')
    assert operate.counts(place).waiting == 1


def relay_role(app: App) -> str:
    app.run("drop role if exists outbox_nobody; create role outbox_nobody login password 'x'")
    return app.url.replace(app.url.split("//")[1].split("@")[0], "outbox_nobody:x")


@pytest.mark.parametrize(
    ("url", "schema", "kind", "words"),
    [
        (lambda app: app.url, "nowhere", FailedPrecondition, "schema nowhere: expected in the database"),
        (lambda app: app.url, "app", FailedPrecondition, "expected Rota's outbox in the database"),
        (lambda app: app.url + "_gone", "app", Unavailable, "cannot be reached at 127.0.0.1:"),
        (lambda app: "postgresql://127.0.0.1:1/x", "app", Unavailable, "cannot be reached at 127.0.0.1:1/x"),
        (lambda app: "mysql://a:b@x/y", "app", InvalidArgument, "--url: expected postgresql://"),
        (lambda app: app.url, "", InvalidArgument, "--schema: expected the name of a schema"),
        (lambda app: app.url, "a$b", InvalidArgument, "--schema: expected the name of a schema"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    bare_app: App, url: Callable[[App], str], schema: str, kind: type[RotaError], words: str
) -> None:
    with pytest.raises(kind) as refusal:
        operate.counts(Place(url(bare_app), schema))
    assert words in refusal.value.message
    assert "\n" not in refusal.value.message
    password = bare_app.url.split(":")[2].split("@")[0]
    assert password not in refusal.value.message


def test_missing_rights_are_said_in_one_line(app: App) -> None:
    url = relay_role(app)
    try:
        app.run("grant usage on schema app to outbox_nobody")
        with pytest.raises(
            FailedPrecondition, match=r"refuses \(permission denied for table rota_outbox\).*--grant-relay"
        ):
            operate.counts(Place(url, SCHEMA))
        app.run(f"drop schema {SCHEMA} cascade; create schema {SCHEMA}")
        with pytest.raises(FailedPrecondition, match="permission denied for schema app"):
            install.install(Place(url, SCHEMA))
    finally:
        app.run("drop owned by outbox_nobody; drop role outbox_nobody")


def test_an_installation_waits_for_nobody_for_long(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    app.run("create or replace function rota_outbox_version() returns integer language sql immutable as 'select 0'")
    monkeypatch.setattr(install, "LOCK_TIMEOUT_S", 0.2)
    monkeypatch.setattr(install, "_definition", lambda schema: "lock table app.rota_outbox")
    with app.connect() as other:
        other.execute("select from app.rota_outbox")
        with pytest.raises(Unavailable, match="busy with these tables"):
            install.install(app.place)


def test_an_old_server_is_refused(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install, "SERVER_MAJOR_MIN", 99)
    with pytest.raises(FailedPrecondition, match="too old: the outbox needs 99"):
        install.install(app.place)
