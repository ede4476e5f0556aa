"""TLS and mutual TLS between real processes: who is let in, what the others are told, and certificates that change."""

import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from rota_sdk import Client, ConnectionFailed, JobState, Tls, Unauthenticated

from ..harness import CoordinatorProcess, Process, clean_environment, eventually
from .conftest import HANDLERS, Starts

OPENSSL = shutil.which("openssl")
pytestmark = pytest.mark.skipif(
    OPENSSL is None, reason="NO TLS WAS TESTED: the program openssl, which makes the certificates, is not installed"
)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as files."""

    cert: Path
    key: Path


class Authority:
    """Makes certificates in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self.ca = Pair(folder / "ca.pem", folder / "ca.key")
        self._openssl("req", "-x509", "-subj", "/CN=test authority", *_new(self.ca))

    def issue(self, name: str, *, addresses: str = "IP:127.0.0.1,DNS:localhost") -> Pair:
        made = Pair(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        request = ("-x509", "-CA", self.ca.cert, "-CAkey", self.ca.key, "-addext", f"subjectAltName={addresses}")
        usage = ("-addext", "basicConstraints=critical,CA:FALSE", "-addext", "extendedKeyUsage=serverAuth,clientAuth")
        self._openssl("req", "-subj", f"/CN={name}", *request, *usage, *_new(made))
        return made

    def _openssl(self, *arguments: "str | Path") -> None:
        done = subprocess.run([str(OPENSSL), *map(str, arguments)], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr


def _new(pair: Pair) -> tuple["str | Path", ...]:
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    return (*curve, "-keyout", pair.key, "-out", pair.cert)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "ours")


@pytest.fixture(scope="module")
def other_authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "theirs")


@pytest.fixture
def installed(authority: Authority, tmp_path: Path) -> Pair:
    """The server's certificate, as files that a test may replace."""
    return install(authority.issue("server"), Pair(tmp_path / "server.pem", tmp_path / "server.key"))


def install(made: Pair, at: Pair) -> Pair:
    """Replaces key and certificate as tools do: written beside and moved."""
    for source, target in ((made.key, at.key), (made.cert, at.cert)):
        beside = target.with_suffix(".new")
        shutil.copyfile(source, beside)
        beside.replace(target)
    return at


@pytest.fixture
def secure(database: str, tmp_path: Path, installed: Pair) -> Iterator[CoordinatorProcess]:
    settings = {"ROTA_TLS_CERT": str(installed.cert), "ROTA_TLS_KEY": str(installed.key)}
    with CoordinatorProcess(database, tmp_path, **settings) as process:
        yield process


@pytest.fixture
def mutual(database: str, tmp_path: Path, installed: Pair, authority: Authority) -> Iterator[CoordinatorProcess]:
    settings = {
        "ROTA_TLS_CERT": str(installed.cert),
        "ROTA_TLS_KEY": str(installed.key),
        "ROTA_TLS_CLIENT_CA": str(authority.ca.cert),
    }
    with CoordinatorProcess(database, tmp_path, **settings) as process:
        yield process


def trusting(authority: Authority, own: Pair | None = None) -> Tls:
    return Tls(ca=str(authority.ca.cert), cert=str(own.cert) if own else "", key=str(own.key) if own else "")


def connect(to: CoordinatorProcess, tls: "Tls | bool", *, key: str | None = None, timeout: float = 10.0) -> Client:
    return Client(to.address, api_key=to.key if key is None else key, tls=tls, timeout=timeout)


def create(client: Client) -> str:
    with client:
        return client.create_job("quick", b"x").name


def refused(to: CoordinatorProcess, tls: "Tls | bool") -> str:
    """That this client does not get through, and what it is told."""
    with pytest.raises(ConnectionFailed) as failed:
        create(connect(to, tls, timeout=4.0))
    assert to.address in str(failed.value)
    assert to.key not in str(failed.value)
    return str(failed.value)


def serial(of: CoordinatorProcess) -> str:
    """The certificate that a new connection is shown, as PEM."""
    host, port = of.address.rsplit(":", 1)
    return ssl.get_server_certificate((host, int(port)), timeout=5)


def test_clients_and_workers_that_trust_the_authority(
    secure: CoordinatorProcess, authority: Authority, starts: Starts, tmp_path: Path
) -> None:
    env = clean_environment() | {
        "ROTA_ADDRESS": secure.address,
        "ROTA_API_KEY": secure.key,
        "ROTA_TLS_CA": str(authority.ca.cert),
    }
    worker = Process([sys.executable, str(HANDLERS), str(starts.file)], env, tmp_path / "worker.log")
    try:
        with connect(secure, trusting(authority)) as client:
            job = client.create_job("quick", b"through TLS")
            done = client.wait_job(job.name, timeout=15)
            assert (done.state, done.result.data if done.result else b"") == (JobState.SUCCEEDED, b"through TLS")
        # TLS lets in, keys decide.
        with connect(secure, trusting(authority), key="rota_0_0") as client, pytest.raises(Unauthenticated):
            client.create_job("quick")
    finally:
        worker.kill()


def test_those_who_do_not_trust_it_are_told_why(
    secure: CoordinatorProcess, other_authority: Authority, authority: Authority
) -> None:
    for tls in (True, trusting(other_authority)):
        assert "certificate" in refused(secure, tls).lower()
    # Without TLS nothing is said that could be read, key included.
    assert refused(secure, False)
    assert create(connect(secure, trusting(authority)))


def test_a_certificate_for_another_name_is_refused(database: str, tmp_path: Path, authority: Authority) -> None:
    elsewhere = authority.issue("elsewhere", addresses="DNS:elsewhere.example")
    settings = {"ROTA_TLS_CERT": str(elsewhere.cert), "ROTA_TLS_KEY": str(elsewhere.key)}
    with CoordinatorProcess(database, tmp_path, **settings) as process:
        refused(process, trusting(authority))


def test_mutual_tls_wants_a_certificate_of_its_own_authority(
    mutual: CoordinatorProcess, authority: Authority, other_authority: Authority
) -> None:
    refused(mutual, trusting(authority))
    refused(mutual, trusting(authority, other_authority.issue("stranger")))
    own = authority.issue("client")
    assert create(connect(mutual, trusting(authority, own)))
    # A certificate is no key.
    with connect(mutual, trusting(authority, own), key="rota_0_0") as client, pytest.raises(Unauthenticated):
        client.create_job("quick")


def test_a_renewed_certificate_needs_no_restart(
    secure: CoordinatorProcess, authority: Authority, installed: Pair
) -> None:
    first = serial(secure)
    with connect(secure, trusting(authority)) as open_before:
        open_before.create_job("quick")
        install(authority.issue("renewed"), installed)
        eventually(lambda: serial(secure) != first, within_s=5)
        assert serial(secure).strip() in installed.cert.read_text()
        assert create(connect(secure, trusting(authority)))
        # Connections of before go on.
        open_before.create_job("quick")


@pytest.mark.parametrize("damage", ["certificate gone", "half a certificate", "key of another"])
def test_a_renewal_that_is_not_whole_leaves_the_old_certificate(
    secure: CoordinatorProcess, authority: Authority, installed: Pair, damage: str
) -> None:
    first = serial(secure)
    renewed = authority.issue("renewed")
    if damage == "certificate gone":
        installed.cert.unlink()
    elif damage == "half a certificate":
        installed.cert.write_text(renewed.cert.read_text()[:200])
    else:
        shutil.copyfile(renewed.key, installed.key)
    for _ in range(3):
        assert serial(secure) == first
        assert create(connect(secure, trusting(authority)))
    install(renewed, installed)
    eventually(lambda: serial(secure) != first, within_s=5)
    assert create(connect(secure, trusting(authority)))


def test_clients_of_a_new_authority_are_let_in_without_a_restart(
    database: str, tmp_path: Path, installed: Pair, authority: Authority, other_authority: Authority
) -> None:
    bundle = tmp_path / "clients.pem"
    bundle.write_bytes(authority.ca.cert.read_bytes())
    settings = {
        "ROTA_TLS_CERT": str(installed.cert),
        "ROTA_TLS_KEY": str(installed.key),
        "ROTA_TLS_CLIENT_CA": str(bundle),
    }
    newcomer = trusting(authority, other_authority.issue("newcomer"))
    with CoordinatorProcess(database, tmp_path, **settings) as process:
        refused(process, newcomer)
        bundle.write_bytes(authority.ca.cert.read_bytes() + other_authority.ca.cert.read_bytes())
        assert create(connect(process, newcomer))
        assert create(connect(process, trusting(authority, authority.issue("client"))))


def start(database: str, tmp_path: Path, **settings: str) -> "subprocess.CompletedProcess[str]":
    env = clean_environment() | {"ROTA_HOME": str(tmp_path), "ROTA_DATABASE_URL": database} | settings
    return subprocess.run([sys.executable, "-m", "rota", "serve"], env=env, capture_output=True, text=True, timeout=60)


def check_not_started(done: "subprocess.CompletedProcess[str]", *words: str) -> None:
    assert done.returncode in (1, 2), (done.returncode, done.stderr)
    error, *hint = done.stderr.splitlines()
    assert error.startswith("error: ")
    assert len(hint) == 1
    for word in words:
        assert word in done.stderr, done.stderr


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0"])
def test_plaintext_off_loopback_is_refused_at_start(database: str, tmp_path: Path, listen: str) -> None:
    check_not_started(start(database, tmp_path, ROTA_LISTEN=listen), "TLS", "tls_cert", "allow_plaintext")


def test_plaintext_off_loopback_when_it_is_allowed(database: str, tmp_path: Path) -> None:
    with CoordinatorProcess(database, tmp_path, ROTA_ALLOW_PLAINTEXT="true") as process:
        process.kill()
        process.listen = "0.0.0.0:0"
        process.start()
        process.listen = process.listen.replace("0.0.0.0", "127.0.0.1")
        assert create(connect(process, False))


@pytest.mark.parametrize("damage", ["certificate", "key", "key of another", "client authorities"])
def test_files_that_make_no_certificate_are_refused_at_start(
    database: str, tmp_path: Path, installed: Pair, authority: Authority, damage: str
) -> None:
    settings = {
        "ROTA_LISTEN": "127.0.0.1:0",
        "ROTA_TLS_CERT": str(installed.cert),
        "ROTA_TLS_KEY": str(installed.key),
        "ROTA_TLS_CLIENT_CA": str(authority.ca.cert),
    }
    bad = tmp_path / "bad.pem"
    if damage == "key of another":
        settings["ROTA_TLS_KEY"] = str(authority.issue("another").key)
        named = installed.key
    else:
        bad.write_text("not PEM at all\n")
        name = {"certificate": "CERT", "key": "KEY", "client authorities": "CLIENT_CA"}[damage]
        settings[f"ROTA_TLS_{name}"] = str(bad)
        named = bad
    done = start(database, tmp_path, **settings)
    check_not_started(done, "tls")
    assert "port is taken" not in done.stderr
    assert named.name in done.stderr or "key" in done.stderr
