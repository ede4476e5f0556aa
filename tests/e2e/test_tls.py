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

from rota import bootstrap
from rota.config import Settings
from rota.domain.errors import InvalidArgument
from rota.store.embedded import EmbeddedPostgres
from rota.telemetry import Telemetry

from ..api.running import fresh_database
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


def install(made: Pair, at: Pair) -> Pair:
    """Replaces key and certificate as tools do: written beside and moved."""
    for source, target in ((made.key, at.key), (made.cert, at.cert)):
        beside = target.with_suffix(".new")
        shutil.copyfile(source, beside)
        beside.replace(target)
    return at


@pytest.fixture(scope="module")
def url(postgres: EmbeddedPostgres) -> Iterator[str]:
    with fresh_database(postgres) as url:
        yield url


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """Where the server's certificate is."""
    folder = tmp_path_factory.mktemp("server")
    return Pair(folder / "server.pem", folder / "server.key")


@pytest.fixture
def installed(authority: Authority, files: Pair) -> Pair:
    """The server's certificate, whole, in files that a test may replace."""
    return install(authority.issue("server"), files)


@pytest.fixture(scope="module")
def secure(
    url: str, tmp_path_factory: pytest.TempPathFactory, authority: Authority, files: Pair
) -> Iterator[CoordinatorProcess]:
    """A coordinator with TLS."""
    install(authority.issue("server"), files)
    settings = {"ROTA_TLS_CERT": str(files.cert), "ROTA_TLS_KEY": str(files.key)}
    with CoordinatorProcess(url, tmp_path_factory.mktemp("secure"), **settings) as process:
        yield process


@pytest.fixture(scope="module")
def client_authorities(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Path:
    bundle = tmp_path_factory.mktemp("clients") / "clients.pem"
    bundle.write_bytes(authority.ca.cert.read_bytes())
    return bundle


@pytest.fixture(scope="module")
def mutual(
    url: str, tmp_path_factory: pytest.TempPathFactory, authority: Authority, client_authorities: Path
) -> Iterator[CoordinatorProcess]:
    """A coordinator with mutual TLS."""
    server = authority.issue("mutual server")
    settings = {
        "ROTA_TLS_CERT": str(server.cert),
        "ROTA_TLS_KEY": str(server.key),
        "ROTA_TLS_CLIENT_CA": str(client_authorities),
    }
    with CoordinatorProcess(url, tmp_path_factory.mktemp("mutual"), **settings) as process:
        yield process


def trusting(authority: Authority, own: Pair | None = None) -> Tls:
    return Tls(ca=str(authority.ca.cert), cert=str(own.cert) if own else "", key=str(own.key) if own else "")


def connect(to: CoordinatorProcess, tls: "Tls | bool", *, key: str | None = None, timeout: float = 30.0) -> Client:
    return Client(to.address, api_key=to.key if key is None else key, tls=tls, timeout=timeout)


def create(client: Client) -> str:
    with client:
        return client.create_job("quick", b"x").name


def refused(to: CoordinatorProcess, tls: "Tls | bool") -> str:
    """That this client does not get through, and what it is told."""
    with pytest.raises(ConnectionFailed) as failed:
        create(connect(to, tls))
    assert to.address in str(failed.value)
    assert to.key not in str(failed.value)
    return str(failed.value)


def serial(of: CoordinatorProcess) -> str:
    """The certificate that a new connection is shown, as PEM."""
    host, port = of.address.rsplit(":", 1)
    return ssl.get_server_certificate((host, int(port)), timeout=20)


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
            done = client.wait_job(job.name, timeout=60)
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
        eventually(lambda: serial(secure) != first)
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
    eventually(lambda: serial(secure) != first)
    assert create(connect(secure, trusting(authority)))


def test_clients_of_a_new_authority_are_let_in_without_a_restart(
    mutual: CoordinatorProcess, authority: Authority, other_authority: Authority, client_authorities: Path
) -> None:
    newcomer = trusting(authority, other_authority.issue("newcomer"))
    refused(mutual, newcomer)
    client_authorities.write_bytes(authority.ca.cert.read_bytes() + other_authority.ca.cert.read_bytes())
    assert create(connect(mutual, newcomer))
    assert create(connect(mutual, trusting(authority, authority.issue("client"))))


NOBODY = "postgresql://rota@127.0.0.1:1/rota"


def not_started(**settings: object) -> InvalidArgument:
    """What a coordinator that must not listen is refused with."""
    with pytest.raises(InvalidArgument) as refused:
        bootstrap.serve(Settings(**{"listen": "127.0.0.1:0"} | settings), NOBODY)  # type: ignore[arg-type]
    return refused.value


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0", "192.0.2.1:7070", "example.org:7070"])
def test_plaintext_off_loopback_is_refused_at_start(listen: str) -> None:
    found = not_started(listen=listen)
    assert [v.field for v in found.violations] == ["listen"]
    for word in (listen, "TLS", "tls_cert", "allow_plaintext"):
        assert word in found.message


def test_plaintext_off_loopback_when_it_is_allowed(database: str, tmp_path: Path) -> None:
    with CoordinatorProcess(database, tmp_path, ROTA_ALLOW_PLAINTEXT="true") as process:
        process.kill()
        process.listen = "0.0.0.0:0"
        process.start()
        process.listen = process.listen.replace("0.0.0.0", "127.0.0.1")
        assert create(connect(process, False))


@pytest.mark.parametrize(
    ("damage", "field"),
    [
        ("no certificate", "tls_cert"),
        ("no key", "tls_cert"),
        ("key of another", "tls_cert"),
        ("encrypted key", "tls_cert"),
        ("no authorities", "tls_client_ca"),
        ("no file", "tls"),
    ],
)
async def test_files_that_make_no_certificate_are_refused_at_start(
    tmp_path: Path, authority: Authority, damage: str, field: str
) -> None:
    made = authority.issue("whole")
    cert, key, client_ca = made.cert, made.key, authority.ca.cert
    bad = tmp_path / "bad.pem"
    bad.write_text("not PEM at all\n")
    if damage == "no certificate":
        cert = bad
    elif damage == "no key":
        key = bad
    elif damage == "key of another":
        bad = key = authority.issue("another").key
    elif damage == "encrypted key":
        subprocess.run([str(OPENSSL), "ec", "-aes256", "-passout", "pass:x", "-in", key, "-out", bad], check=True)
        key = bad
    elif damage == "no authorities":
        client_ca = bad
    else:
        bad = key = tmp_path / "nowhere.key"
    settings = Settings(listen="127.0.0.1:0", tls_cert=cert, tls_key=key, tls_client_ca=client_ca)
    with pytest.raises(InvalidArgument) as refused:
        async with bootstrap.coordinator(settings, NOBODY, Telemetry.off()):
            pass
    assert [v.field for v in refused.value.violations] == [field]
    assert str(bad) in refused.value.message
