"""Certificates are checked against the name that was asked for, whatever address is called."""

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest
from rota_sdk import EffectState, Failed

from .http_world import Bench, Names, Server, answers

OPENSSL = shutil.which("openssl")
pytestmark = pytest.mark.skipif(OPENSSL is None, reason="NO TLS WAS TESTED: the program openssl is not installed")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    chain, key = folder / "cert.pem", folder / "key.pem"
    assert OPENSSL is not None
    subprocess.run(
        [
            *(OPENSSL, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"),
            *("-subj", "/CN=api.example", "-addext", "subjectAltName=DNS:api.example", "-keyout", key, "-out", chain),
        ],
        check=True,
        capture_output=True,
    )
    return chain, key


def serving(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


def trusting(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.load_verify_locations(certificate[0])
    return context


async def test_the_name_is_what_counts(certificate: tuple[Path, Path]) -> None:
    asked: list[str | None] = []
    context = serving(certificate)
    context.sni_callback = lambda _, name, __: asked.append(name)
    names = Names(api_example=[["127.0.0.1"]], other_example=[["127.0.0.1"]])
    async with Server(tls=context) as server:
        bench = Bench(names=names, tls=trusting(certificate))
        assert (await bench.result(f"https://api.example:{server.port}/"))["status"] == 200
        # One that failed to prove itself got nothing of the request.
        failure = await bench.failure(Failed, f"https://other.example:{server.port}/", body="secret")
        assert (failure.type, failure.effect) == ("TlsFailed", EffectState.NOT_APPLIED)
        assert "not valid for 'other.example'" in str(failure)
        assert len(server.seen) == 1
    assert asked == ["api.example", "other.example"]


async def test_an_authority_that_nobody_knows_is_refused_and_no_outage(certificate: tuple[Path, Path]) -> None:
    async with Server(tls=serving(certificate)) as server:
        bench = Bench(names=Names(api_example=[["127.0.0.1"]]))
        for _ in range(5):
            failure = await bench.failure(Failed, f"https://api.example:{server.port}/")
            assert failure.type == "TlsFailed"
    assert server.seen == []


async def test_a_server_without_tls_gets_nothing(certificate: tuple[Path, Path]) -> None:
    async with Server() as server:
        bench = Bench(names=Names(api_example=[["127.0.0.1"]]))
        failure = await bench.failure(Failed, f"https://api.example:{server.port}/", timeout=2)
    assert (failure.effect, server.seen) == (EffectState.NOT_APPLIED, [])


async def test_no_redirect_leaves_tls(certificate: tuple[Path, Path]) -> None:
    async with (
        Server() as plain,
        Server([answers(302, Location=f"http://api.example:{plain.port}/")], tls=serving(certificate)) as server,
    ):
        bench = Bench(names=Names(api_example=[["127.0.0.1"]]), tls=trusting(certificate))
        failure = await bench.failure(Failed, f"https://api.example:{server.port}/", redirects=3)
    assert (failure.type, plain.connections) == ("RedirectRefused", 0)
