"""TLS between coordinators: whom they trust, what they show, and by which name."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from rota import bootstrap
from rota.api.peerwire import PeerDial, PeerTls, PeerWire
from rota.api.server import PeerListener, TlsFiles
from rota.clock import SystemClock
from rota.config import Settings
from rota.domain.errors import InvalidArgument

from ..api.linking import SECRET, A, B, Calls, Ears
from ..api.running import eventually
from ..harness import CoordinatorProcess, Process, clean_environment
from ..harness import eventually as eventually_there
from .conftest import HANDLERS, Starts
from .test_crashes import check_each_accepted_once, finished
from .test_tls import OPENSSL, Authority, Pair, connect, trusting
from .test_two_coordinators import owned

pytestmark = pytest.mark.skipif(
    OPENSSL is None, reason="NO TLS WAS TESTED: the program openssl, which makes the certificates, is not installed"
)
NOBODY = "postgresql://rota@127.0.0.1:1/rota"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("peers") / "ours")


@pytest.fixture(scope="module")
def other_authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("peers") / "theirs")


def tls_of(**settings: object) -> PeerTls:
    made = bootstrap._peer_tls(Settings(**settings))  # type: ignore[arg-type]
    assert made is not None
    return made


@asynccontextmanager
async def called(served: TlsFiles | None, trust: PeerTls | None) -> AsyncIterator[tuple[PeerWire, Calls]]:
    listener, calls = PeerListener(), Calls()
    port = listener.bind("127.0.0.1:0", served)
    await listener.start(B, Ears(), SECRET)
    wire = PeerDial(A, SECRET, trust, SystemClock())(
        B, f"127.0.0.1:{port}", on_open=calls.on_open, on_room=calls.on_room
    )
    try:
        yield wire, calls
    finally:
        await wire.close()
        await listener.stop()


async def links(served: TlsFiles | None, trust: PeerTls | None) -> bool:
    """That a link opens."""
    async with called(served, trust) as (_, calls):
        return bool(await eventually(lambda: calls.opened))


async def refuses(served: TlsFiles | None, trust: PeerTls | None) -> bool:
    """Whether no link opens. It is tried for a while: each attempt is refused at once."""
    async with called(served, trust) as (wire, calls):
        with suppress(AssertionError):
            await eventually(lambda: calls.opened, within_s=1.5)
        return not calls.opened and not wire.is_open


def files(pair: Pair, client_ca: Path | None = None) -> TlsFiles:
    return TlsFiles(pair.cert, pair.key, client_ca)


async def test_one_certificate_for_all_needs_no_authority(authority: Authority) -> None:
    ours = authority.issue("all of us")
    assert await links(files(ours), tls_of(tls_cert=ours.cert, tls_key=ours.key))
    other = authority.issue("another")
    assert await refuses(files(other), tls_of(tls_cert=ours.cert, tls_key=ours.key))


async def test_an_authority_vouches_for_certificates_of_each(authority: Authority, other_authority: Authority) -> None:
    mine, theirs = authority.issue("mine"), authority.issue("theirs")
    trust = tls_of(tls_cert=mine.cert, tls_key=mine.key, tls_peer_ca=authority.ca.cert)
    assert await links(files(theirs), trust)
    assert await refuses(files(other_authority.issue("stranger")), trust)
    # Nobody is called in the clear by who has TLS, nor answers a call in the clear.
    assert await refuses(None, trust)
    assert await refuses(files(theirs), None)


async def test_with_mutual_tls_the_caller_shows_its_own(authority: Authority, other_authority: Authority) -> None:
    mine, theirs = authority.issue("mine"), authority.issue("theirs")
    ca = authority.ca.cert
    mutual = tls_of(tls_cert=mine.cert, tls_key=mine.key, tls_client_ca=ca)
    assert mutual == PeerTls(ca, None, mine.cert, mine.key)
    assert await links(files(theirs, ca), mutual)
    assert await refuses(files(theirs, ca), tls_of(tls_cert=mine.cert, tls_key=mine.key, tls_peer_ca=ca))
    stranger = other_authority.issue("stranger")
    shown = tls_of(tls_cert=stranger.cert, tls_key=stranger.key, tls_client_ca=ca)
    assert await refuses(files(theirs, ca), shown)


async def test_certificates_of_one_name_wherever_they_serve(authority: Authority) -> None:
    named = authority.issue("named", addresses="DNS:rota.example")
    assert await refuses(files(named), tls_of(tls_cert=named.cert, tls_key=named.key))
    for name, opens in (("rota.example", True), ("other.example", False)):
        trust = tls_of(tls_cert=named.cert, tls_key=named.key, tls_peer_name=name)
        assert await (links if opens else refuses)(files(named), trust)


def test_a_worker_of_one_gets_the_jobs_of_the_other(
    database: str, tmp_path: Path, authority: Authority, starts: Starts
) -> None:
    one, other = authority.issue("one"), authority.issue("other")

    def settings(own: Pair) -> dict[str, str]:
        ca = str(authority.ca.cert)
        return {"ROTA_TLS_CERT": str(own.cert), "ROTA_TLS_KEY": str(own.key), "ROTA_TLS_CLIENT_CA": ca}

    folders = [tmp_path / "one", tmp_path / "other"]
    for folder in folders:
        folder.mkdir()
    client = authority.issue("client")
    with (
        CoordinatorProcess(database, folders[0], **settings(one)) as here,
        CoordinatorProcess(database, folders[1], **settings(other)) as there,
    ):
        env = clean_environment() | {
            "ROTA_ADDRESS": here.address,
            "ROTA_API_KEY": here.key,
            "ROTA_TLS_CA": str(authority.ca.cert),
            "ROTA_TLS_CERT": str(client.cert),
            "ROTA_TLS_KEY": str(client.key),
        }
        worker = Process([sys.executable, str(HANDLERS), str(starts.file)], env, tmp_path / "worker.log")
        try:
            with connect(there, trusting(authority, client)) as caller:
                eventually_there(lambda: set(owned(database).values()) == {128})
                jobs = {caller.create_job("quick", "x").id for _ in range(40)}
                eventually_there(lambda: finished(database) == 40)
            check_each_accepted_once(database, jobs)
        finally:
            worker.kill()


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "192.0.2.1:7071"])
def test_plaintext_off_loopback_is_refused_at_start(listen: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        bootstrap.serve(Settings(listen="127.0.0.1:0", peer_listen=listen), NOBODY)
    assert [violation.field for violation in refused.value.violations] == ["peer_listen"]


def test_authorities_that_are_none_are_refused_at_start(authority: Authority, tmp_path: Path) -> None:
    bad = tmp_path / "bad.pem"
    bad.write_text("not PEM at all\n")
    made = authority.issue("whole")
    for path in (bad, tmp_path / "nowhere.pem"):
        settings = Settings(listen="127.0.0.1:0", tls_cert=made.cert, tls_key=made.key, tls_peer_ca=path)
        with pytest.raises(InvalidArgument) as refused:
            bootstrap.serve(settings, NOBODY)
        assert [violation.field for violation in refused.value.violations] == ["tls_peer_ca"]
        assert str(path) in refused.value.message
