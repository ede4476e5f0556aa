"""Where the server is, who the caller is, and what every connection is set up with."""

import json
from pathlib import Path

import pytest
from rota_sdk import Tls
from rota_sdk.channel import SERVICE_CONFIG, Endpoint


@pytest.mark.parametrize(
    ("address", "target", "tls", "loopback"),
    [
        (None, "127.0.0.1:7070", False, True),
        ("localhost", "localhost:7070", False, True),
        ("rota.example:443", "rota.example:443", False, False),
        ("grpcs://rota.example", "rota.example:7070", True, False),
        ("https://rota.example:8443/", "rota.example:8443", True, False),
        ("http://[::1]:9", "[::1]:9", False, True),
        ("unix:/run/rota.sock", "unix:/run/rota.sock", False, True),
        ("dns:///rota.example:7070", "dns:///rota.example:7070", False, False),
        ("ipv4:127.0.0.1:7070", "ipv4:127.0.0.1:7070", False, True),
        ("127.9.9.9:1", "127.9.9.9:1", False, True),
    ],
)
def test_addresses(address: str | None, target: str, tls: bool, loopback: bool) -> None:
    endpoint = Endpoint.resolve(address, "k", environ={})
    assert (endpoint.target, endpoint.tls is not None, endpoint.loopback) == (target, tls, loopback)


@pytest.mark.parametrize("address", ["ftp://host", "host:99999", "http://host/path", "grpc://", "host:port"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="address: expected"):
        Endpoint.resolve(address, environ={})


def test_the_environment_fills_in_what_is_not_given() -> None:
    environ = {"ROTA_ADDRESS": "a:1", "ROTA_API_KEY": "from-env"}
    assert Endpoint.resolve(environ=environ).target == "a:1"
    assert Endpoint.resolve("b:2", environ=environ).target == "b:2"
    assert Endpoint.resolve(environ=environ).metadata == (("authorization", "Bearer from-env"),)
    assert Endpoint.resolve(api_key="own", environ=environ).api_key == "own"
    assert Endpoint.resolve(api_key="", environ=environ).metadata == ()


def test_the_key_of_rota_dev_is_found_on_loopback_only(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "api-key").write_text("dev-key\n")
    environ = {"ROTA_HOME": str(tmp_path)}
    assert Endpoint.resolve("localhost:1", environ=environ).api_key == "dev-key"
    assert Endpoint.resolve("rota.example:1", environ=environ).api_key == ""
    assert Endpoint.resolve("localhost:1", environ={"ROTA_HOME": str(tmp_path / "none")}).api_key == ""
    assert Endpoint.resolve("localhost:1", environ=environ | {"ROTA_API_KEY": "env"}).api_key == "env"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        ({"ROTA_TLS": "0"}, None),
        ({"ROTA_TLS": "1"}, Tls()),
        ({"ROTA_TLS_CA": "ca.pem"}, Tls(ca="ca.pem")),
        ({"ROTA_TLS_CERT": "c", "ROTA_TLS_KEY": "k"}, Tls(cert="c", key="k")),
    ],
)
def test_tls_settings(environ: dict[str, str], expected: Tls | None) -> None:
    assert Endpoint.resolve("a:1", environ=environ).tls == expected
    assert Endpoint.resolve("a:1", tls=False, environ=environ).tls is None
    assert Endpoint.resolve("a:1", tls=Tls(ca="own"), environ=environ).tls == Tls(ca="own")


def test_half_an_identity_is_refused() -> None:
    with pytest.raises(ValueError, match="certificate and its key"):
        Tls(cert="c")


def test_only_unavailable_is_retried_beats_wait_for_a_connection_and_polls_are_left_to_the_poller() -> None:
    config = json.loads(SERVICE_CONFIG)["methodConfig"]
    by_method = {name.get("method", "*"): entry for entry in config for name in entry["name"]}
    for entry in config:
        if "retryPolicy" in entry:
            assert entry["retryPolicy"]["retryableStatusCodes"] == ["UNAVAILABLE"]
            assert entry["retryPolicy"]["maxAttempts"] == 4
    assert {m for m, entry in by_method.items() if entry.get("waitForReady")} == {"Heartbeat", "SendHeartbeat"}
    assert by_method["Lease"] == {"name": by_method["Lease"]["name"]}
    assert "retryPolicy" not in by_method["Heartbeat"] and "retryPolicy" in by_method["*"]


def test_channel_options() -> None:
    options = dict(Endpoint.resolve("a:1", environ={})._options())
    assert options["grpc.keepalive_time_ms"] == 30_000 and options["grpc.http2.ping_timeout_ms"] == 10_000
    assert options["grpc.max_receive_message_length"] == 16 * 1024 * 1024
