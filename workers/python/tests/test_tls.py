"""TLS on the wire, with certificates made for the test."""

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from conftest import running
from rota_conformance.script_server import ScriptServer
from rota_sdk import AsyncClient, Client, ConnectionFailed, Tls, Worker
from rota_sdk.gen.rota.worker.v1 import worker_pb2

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make certificates with")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    """One certificate for 127.0.0.1 that signs itself; server and caller use it alike."""
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=test"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)]
    subprocess.run([*command.split(), *names], check=True, capture_output=True)
    return Tls(str(cert), str(cert), str(key))


@pytest.fixture
def secure(files: Tls, no_thread_stays: None) -> Iterator[ScriptServer]:
    """Demands a certificate of the caller."""
    cert, key = Path(files.cert).read_bytes(), Path(files.key).read_bytes()
    credentials = grpc.ssl_server_credentials([(key, cert)], root_certificates=cert, require_client_auth=True)
    server = ScriptServer(credentials=credentials)
    yield server
    server.close()


def test_a_worker_and_both_clients_speak_tls(secure: ScriptServer, files: Tls) -> None:
    worker = Worker(["default"], 1, address=secure.address, api_key="k", tls=files)
    worker.add("work", lambda lease: None)
    job = secure.job()
    secure.offer(job)
    with running(worker):
        secure.result_of(job.job)
    request = worker_pb2.OpenSessionRequest(worker="w", queues=["q"])
    with Client(secure.address, api_key="k", tls=files) as client:
        assert client.stubs.worker.OpenSession(request).session

    async def open_session() -> str:
        async with AsyncClient(secure.address, api_key="k", tls=files) as client:
            return (await client.stubs.worker.OpenSession(request)).session

    assert asyncio.run(open_session())


def test_the_environment_turns_it_on(secure: ScriptServer, files: Tls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_ADDRESS", secure.address)
    for part in ("CA", "CERT", "KEY"):
        monkeypatch.setenv(f"ROTA_TLS_{part}", getattr(files, part.lower()))
    with Client(api_key="k") as client:
        request = worker_pb2.OpenSessionRequest(worker="w", queues=["q"])
        assert client.stubs.worker.OpenSession(request).session


@pytest.mark.parametrize("tls", [None, "untrusted"])
def test_a_caller_without_the_right_trust_is_told_where_to_look(
    secure: ScriptServer, files: Tls, tls: str | None
) -> None:
    trust = Tls() if tls else None
    with Client(secure.address, api_key="k", tls=trust, timeout=5) as client, pytest.raises(ConnectionFailed) as error:
        client.get_job("1")
    assert "TLS" in str(error.value)
