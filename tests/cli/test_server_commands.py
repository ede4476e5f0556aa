"""serve, migrate, key, doctor and worker: what they make of the composition root, which a stand-in plays here."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from rota_sdk.gen.rota.admin.v1 import admin_pb2

from rota.cli.devhome import DevHome
from rota.cli.errors import Exit
from rota.config import Settings
from rota.domain import invariants
from rota.domain.errors import FailedPrecondition, InvalidArgument, Unavailable
from rota.domain.ids import TenantId
from rota.domain.invariants import Violation
from rota.domain.model import ApiKey, Role
from rota.service.invariants import Checked
from tests.cli.script import Coordinator, in_

URL = "postgresql://rota:s3cret@db/rota"


@dataclass
class Status:
    server: str = "18.6"
    current: str | None = "0001"
    head: str = "0001"
    up_to_date: bool = True


@dataclass
class Finding:
    name: str
    level: str
    text: str
    remedy: str = ""


@dataclass
class Ready:
    address: str
    http: str | None = None


@dataclass
class Bootstrap:
    """Records what it is asked."""

    keys: list[ApiKey] = field(default_factory=list)
    applied: list[str] = field(default_factory=list)
    status: Status = field(default_factory=Status)
    findings: list[Finding] = field(default_factory=list)
    checked: list[Checked] = field(default_factory=list)
    settings: Settings | None = None
    urls: list[str] = field(default_factory=list)
    failure: Exception | None = None
    process: int | None = None

    @contextmanager
    def local_database(self, settings: Settings, processes: int = 1) -> Iterator[str]:
        self.settings = settings
        if self.failure is not None:
            raise self.failure
        yield settings.database_url or "postgresql://embedded"

    def migrate(self, url: str) -> list[str]:
        self.urls.append(url)
        return self.applied

    def schema_status(self, url: str) -> Status:
        return self.status

    def create_key(
        self, url: str, *, tenant: str, label: str, roles: frozenset[Role], ttl_s: float | None
    ) -> tuple[str, ApiKey]:
        self.urls.append(url)
        until = in_(ttl_s) if ttl_s is not None else None
        key = ApiKey(f"k{len(self.keys)}", TenantId(1), tenant, label, roles, in_(0), until, None)
        self.keys.append(key)
        return f"rota_{key.id}_secret", key

    def list_keys(self, url: str, tenant: str | None = None) -> list[ApiKey]:
        return [key for key in self.keys if tenant in (None, key.tenant)]

    def revoke_key(self, url: str, key_id: str) -> bool:
        return any(key.id == key_id for key in self.keys)

    def serve(
        self, settings: Settings, url: str, *, on_ready: Callable[[Ready], None], process: int | None = None
    ) -> int:
        self.urls.append(url)
        self.settings, self.process = settings, process
        on_ready(Ready("127.0.0.1:4711"))
        return 0

    def diagnose(self, url: str) -> list[Finding]:
        self.diagnosed = url
        return self.findings

    def check_invariants(self, url: str, *, repair: bool = False) -> list[Checked]:
        if repair:
            for each in self.checked:
                each.repaired = each.violations if each.invariant.repair else 0
        return self.checked


@pytest.fixture(autouse=True)
def bootstrap(monkeypatch: pytest.MonkeyPatch) -> Bootstrap:
    stand_in = Bootstrap()
    module = ModuleType("rota.bootstrap")
    for name in (
        *("local_database", "migrate", "schema_status", "create_key", "list_keys", "revoke_key", "serve", "diagnose"),
        "check_invariants",
    ):
        setattr(module, name, getattr(stand_in, name))
    monkeypatch.setitem(sys.modules, "rota.bootstrap", module)
    monkeypatch.setattr("rota.bootstrap", module, raising=False)
    return stand_in


def test_serve_says_where(rota: Any, bootstrap: Bootstrap) -> None:
    ran = rota("serve", "--database-url", URL, "--listen", "127.0.0.1:0", "--session-ttl", "20s", "--allow-plaintext")
    assert (ran.code, ran.out, ran.err) == (Exit.OK, "rota: serving at 127.0.0.1:4711\n", "")
    assert bootstrap.urls == [URL]
    given = bootstrap.settings
    assert given is not None
    assert (given.listen, given.session_ttl_s, given.allow_plaintext) == ("127.0.0.1:0", 20.0, True)
    assert rota("serve", "--database-url", URL, "--json").document == {"address": "127.0.0.1:4711"}


def test_one_of_several_processes_knows_its_number(rota: Any, bootstrap: Bootstrap) -> None:
    rota("serve", "--database-url", URL, "--processes", "1")
    assert bootstrap.process is None
    rota("serve", "--database-url", URL, "--process", "3")
    assert bootstrap.process == 3
    assert "--process " not in rota("serve", "--help").out


@pytest.mark.parametrize("processes", ["-1", "65", "two"])
def test_so_many_processes_are_refused(rota: Any, processes: str) -> None:
    ran = rota("serve", "--processes", processes)
    assert ran.code == Exit.USAGE
    assert "--processes" in ran.err


def test_serve_without_a_database_says_where_the_data_lie(rota: Any, home: Path) -> None:
    assert f"so the data lie in {home / 'dev' / 'postgres'}" in rota("serve").err


def test_flags_win_over_the_environment_and_the_file(
    rota: Any, bootstrap: Bootstrap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "rota.toml"
    config.write_text('database_url = "postgresql://file"\nlisten = "file:1"\nlog_level = "error"\n')
    monkeypatch.setenv("ROTA_LISTEN", "environment:1")
    rota("--config", config, "serve", "--log-level", "debug")
    given = bootstrap.settings
    assert given is not None
    assert (given.database_url, given.listen, given.log_level) == ("postgresql://file", "environment:1", "debug")


@pytest.mark.parametrize(
    ("failure", "code"),
    [(Unavailable("db down; start it"), Exit.UNREACHABLE), (FailedPrecondition("port taken; stop it"), Exit.REFUSED)],
)
def test_what_keeps_it_from_starting_is_a_line(failure: Exception, code: Exit, rota: Any, bootstrap: Bootstrap) -> None:
    bootstrap.failure = failure
    ran = rota("serve")
    assert (ran.code, ran.out) == (code, "")
    assert len(ran.err.splitlines()) == 2


def test_migrate(rota: Any, bootstrap: Bootstrap) -> None:
    bootstrap.applied = ["0001"]
    ran = rota("migrate", "--database-url", URL)
    assert (ran.code, ran.out) == (Exit.OK, "applied 0001: the schema is at revision 0001 (PostgreSQL 18.6)\n")
    bootstrap.applied = []
    assert rota("migrate").out.startswith("nothing to do")
    assert rota("migrate", "--json").document == {
        "applied": [],
        "current": "0001",
        "head": "0001",
        "server": "18.6",
        "up_to_date": True,
    }


def test_migrate_check_changes_nothing(rota: Any, bootstrap: Bootstrap) -> None:
    bootstrap.status = Status(current=None, up_to_date=False)
    ran = rota("migrate", "--check")
    assert (ran.code, bootstrap.urls) == (Exit.REFUSED, [])
    assert ran.out == "the database is empty and needs revision 0001: run rota migrate\n"


def test_key_create_prints_the_key_alone(rota: Any, bootstrap: Bootstrap) -> None:
    ran = rota(
        *("key", "create", "--database-url", URL, "--role", "client", "--role", "worker"),
        *("--tenant", "acme", "--label", "ci", "--expires", "90d"),
    )
    assert (ran.code, ran.out) == (Exit.OK, "rota_k0_secret\n")
    assert "key k0 of tenant acme with client, worker; valid until 2027-02-28T08:15:00Z. It is not shown" in ran.err
    assert bootstrap.urls == [URL]
    assert bootstrap.keys[0].roles == {Role.CLIENT, Role.WORKER}
    assert rota("key", "create", "--role", "operator", "--json").document == {
        "secret": "rota_k1_secret",
        "id": "k1",
        "tenant": "default",
        "label": "",
        "roles": ["operator"],
        "create_time": "2026-11-30T08:15:00.000Z",
        "expire_time": None,
        "revoke_time": None,
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "Missing option '--role'"),
        (["--role", "king"], "Invalid value for '--role'"),
        (["--role", "client", "--expires", "never"], "--expires: expected a duration"),
        (["--role", "client", "--database-url", "db"], "--database-url: expected postgresql://"),
    ],
)
def test_key_create_refuses(options: list[str], message: str, rota: Any, bootstrap: Bootstrap) -> None:
    ran = rota("key", "create", *options)
    assert ran.code == Exit.USAGE
    assert ran.err.startswith(f"error: {message}")
    assert bootstrap.keys == []


def test_key_list_shows_state_and_no_secret(rota: Any, bootstrap: Bootstrap) -> None:
    live = ApiKey("k0", TenantId(1), "default", "a b", frozenset(Role), in_(0), None, None)
    bootstrap.keys = [
        live,
        replace(live, id="k1", expires_at=datetime(2020, 1, 1, tzinfo=UTC)),
        replace(live, id="k2", revoked_at=in_(1)),
    ]
    ran = rota("key", "list")
    assert [line.split()[0] for line in ran.out.splitlines()] == ["KEY", "k0", "k1", "k2"]
    assert [next(s for s in ("ACTIVE", "EXPIRED", "REVOKED") if s in row) for row in ran.out.splitlines()[1:]] == [
        "ACTIVE",
        "EXPIRED",
        "REVOKED",
    ]
    assert [k["id"] for k in rota("key", "list", "--json").documents] == ["k0", "k1", "k2"]
    assert rota("key", "list", "--tenant", "other", "--json").documents == []


def test_key_revoke(rota: Any, bootstrap: Bootstrap) -> None:
    rota("key", "create", "--role", "client")
    assert rota("key", "revoke", "k0").out == "revoked k0\n"
    ran = rota("key", "revoke", "k9", "--json")
    assert (ran.code, ran.error["reason"]) == (Exit.NOT_FOUND, "RESOURCE_NOT_FOUND")


def test_doctor_puts_the_findings_together(rota: Any, bootstrap: Bootstrap, coordinator: Coordinator) -> None:
    bootstrap.findings = [Finding("clock", "ok", "fine"), Finding("shards", "warning", "3 moved", "wait")]
    ran = rota("doctor", "--database-url", URL)
    assert ran.code == Exit.OK
    assert [line.split(None, 2) for line in ran.out.splitlines()[1:]] == [
        ["ok", "clock", "fine"],
        ["warning", "shards", "3 moved; wait"],
        ["ok", "address", f"a coordinator answers at {coordinator.address}, and takes the key found"],
    ]
    assert bootstrap.settings is not None
    assert bootstrap.diagnosed == URL
    bootstrap.findings.append(Finding("schema", "error", "old", "run: rota migrate"))
    broken = rota("doctor", "--json")
    assert (broken.code, broken.document["ok"]) == (Exit.REFUSED, False)


def test_doctor_looks_through_all_rows_where_asked(rota: Any, bootstrap: Bootstrap, coordinator: Coordinator) -> None:
    lost = Violation(invariants.LIVE_SESSION, "jobs/j1", "session s1 was closed")
    bootstrap.checked = [
        Checked(invariants.BY_NAME[invariants.FATES]),
        Checked(invariants.BY_NAME[invariants.LIVE_SESSION], violations=4, examples=[lost] * 4),
    ]
    assert "invariants" not in rota("doctor", "--json").document
    broken = rota("doctor", "--invariants")
    assert broken.code == Exit.REFUSED
    text = " ".join(broken.out.split())
    assert "ok fates_sum holds" in text
    assert "Not so 4 times: jobs/j1: session s1 was closed; " in text
    assert "run: rota doctor --invariants --repair (the lease is ended as LEASE_LOST" in text
    repaired = rota("doctor", "--invariants", "--repair", "--json")
    assert (repaired.code, repaired.document["ok"]) == (Exit.OK, True)
    held, lease = repaired.document["invariants"]
    assert (held["name"], held["holds"], held["violation_count"]) == ("fates_sum", True, 0)
    assert (lease["holds"], lease["violation_count"], lease["repaired_count"]) == (False, 4, 4)
    assert lease["examples"][0] == {"name": "jobs/j1", "found": "session s1 was closed"}
    bootstrap.checked = [Checked(invariants.BY_NAME[invariants.IN_DOUBT], violations=1, examples=[lost])]
    stays = rota("doctor", "--invariants", "--repair")
    assert stays.code == Exit.REFUSED and "decide about each: rota effect resolve" in " ".join(stays.out.split())


def test_doctor_repairs_only_what_it_looked_for(rota: Any, bootstrap: Bootstrap, coordinator: Coordinator) -> None:
    ran = rota("doctor", "--repair")
    assert ran.code == Exit.USAGE and "--invariants" in ran.err


def test_doctor_goes_on_after_what_is_broken(rota: Any, bootstrap: Bootstrap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_ADDRESS", "127.0.0.1:1")
    bootstrap.failure = Unavailable("cannot start; free the port")
    ran = rota("doctor", "--json")
    assert ran.code == Exit.REFUSED
    assert [(f["name"], f["level"]) for f in ran.document["findings"]] == [("database", "error"), ("address", "error")]
    monkeypatch.setenv("ROTA_LISEN", "x")
    ran = rota("doctor", "--json")
    assert [f["name"] for f in ran.document["findings"]] == ["configuration", "address"]


def test_worker_list(rota: Any, coordinator: Coordinator) -> None:
    coordinator.sessions = [
        admin_pb2.Session(
            name="sessions/s1",
            worker="w1",
            state=admin_pb2.SESSION_STATE_STALLED,
            queues=["default", "mail"],
            slots=10,
            free_slots=7,
            leases=3,
            sdk="rota-python/0.1.0",
            last_beat_time=datetime.now(UTC) - timedelta(seconds=30),
        ),
        admin_pb2.Session(name="sessions/s2", worker="w2", queues=["other"]),
    ]
    rows = rota("worker", "list").out.splitlines()
    assert rows[1].split() == (
        ["w1", "STALLED", "default,mail", "7/10", "3", "30", "s", "ago", "rota-python/0.1.0", "sessions/s1"]
    )
    assert len(rows) == 3
    told = rota("worker", "list", "--queue", "mail", "--json").documents
    assert [(s["name"], s["state"], s["slots"], s["free_slots"]) for s in told] == [("sessions/s1", "STALLED", 10, 7)]


def test_commands_find_the_database_of_a_running_dev(rota: Any, bootstrap: Bootstrap, home: Path) -> None:
    with DevHome(home).held() as holder:
        ran = rota("key", "create", "--role", "client")
        assert ran.code == Exit.UNREACHABLE
        assert "is still starting" in ran.err
        holder.announce("127.0.0.1:1", "postgresql://dev")
        rota("key", "create", "--role", "client")
        rota("key", "create", "--role", "client", "--database-url", URL)
    rota("key", "create", "--role", "client")
    assert bootstrap.urls == ["postgresql://dev", URL, "postgresql://embedded"]


def test_one_dev_holds_a_folder(home: Path) -> None:
    with (
        DevHome(home).held() as holder,
        pytest.raises(FailedPrecondition, match=r"another `rota dev` uses .* serving at h:1"),
    ):
        holder.announce("h:1", "")
        with DevHome(home).held():
            pass
    assert DevHome(home).running() is None


def test_the_local_key_is_kept_while_it_is_good(bootstrap: Bootstrap, home: Path) -> None:
    dev = DevHome(home)
    dev.folder.mkdir(parents=True)
    assert dev.api_key(URL) == dev.api_key(URL) == "rota_k0_secret"
    assert dev.key_file.stat().st_mode & 0o777 == 0o600
    assert bootstrap.keys[0].roles == frozenset(Role)
    spoils: list[Callable[[ApiKey], ApiKey]] = [
        lambda key: replace(key, revoked_at=in_(0)),
        lambda key: replace(key, expires_at=datetime(2020, 1, 1, tzinfo=UTC)),
        lambda key: replace(key, roles=frozenset({Role.CLIENT})),
        lambda key: replace(key, id="of another database"),
        lambda key: replace(key, tenant="other"),
    ]
    for count, spoil in enumerate(spoils, start=1):
        bootstrap.keys[-1] = spoil(bootstrap.keys[-1])
        assert dev.api_key(URL) == f"rota_k{count}_secret"
    dev.key_file.write_bytes(b"\xff")
    assert dev.api_key(URL) == f"rota_k{len(spoils) + 1}_secret"
    assert [file.name for file in dev.folder.iterdir()] == ["api-key"]


def test_dev_refuses_to_drop_a_database_of_the_user(rota: Any, bootstrap: Bootstrap) -> None:
    ran = rota("dev", "--ephemeral", "--database-url", URL)
    assert (ran.code, bootstrap.settings) == (Exit.USAGE, None)
    assert "--ephemeral: expected without a database_url" in ran.err


def test_stand_in_and_composition_root_agree() -> None:
    sys.modules.pop("rota.bootstrap", None)
    import inspect

    from rota import bootstrap as real

    real = sys.modules.get("rota.bootstrap", real)
    for name in ("local_database", "migrate", "schema_status", "create_key", "list_keys", "revoke_key", "serve"):
        stand_in = list(inspect.signature(getattr(Bootstrap, name)).parameters)[1:]
        assert list(inspect.signature(getattr(real, name)).parameters) == stand_in, name


def test_an_invalid_argument_keeps_its_exit_code(rota: Any, bootstrap: Bootstrap) -> None:
    bootstrap.failure = InvalidArgument.field("tenant", "must be 1 to 64 letters, found ''")
    assert rota("key", "list").code == Exit.USAGE
