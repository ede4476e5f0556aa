"""Which addresses are called: public ones, whatever their spelling, and what the operator allows."""

import asyncio
import socket
from ipaddress import ip_address

import pytest
from rota_sdk import EffectState, Failed

from rota.domain.errors import InvalidArgument
from rota.targets.http.address import AllowList, is_public, unwrapped
from rota.targets.http.url import join_url, parse_url
from rota.targets.http.wire import Resolver

from .http_world import Bench, Names, Server, answers

# Spellings of hosts, and what they are to a system's resolver.
INSIDE = [
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0x7F.0x0.0x0.0x1",
    "017700000001",
    "0177.0.0.1",
    "127.000.000.001",
    "127.0.0.1.",
    "127.255.255.254",
    "0",
    "0.0.0.0",
    "0x0",
    "0.1.2.3",
    "10.0.0.1",
    "167772161",
    "0xa000001",
    "012.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.0.1",
    "192.168.1",
    "3232235521",
    "169.254.169.254",
    "2852039166",
    "0xa9fea9fe",
    "0251.0376.0251.0376",
    "169.254.43518",
    "100.64.0.1",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "[::]",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[::127.0.0.1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::ffff:10.0.0.1]",
    "[::ffff:169.254.169.254]",
    "[::ffff:0:127.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b::a9fe:a9fe]",
    "[64:ff9b:1::7f00:1]",
    "[2002:7f00:1::]",
    "[2002:a9fe:a9fe::1]",
    "[2001:0:4136:e378:8000:63bf:80ff:fffe]",
    "[2001:db8::1]",
    "[3fff::1]",
    "[100::1]",
    "[fc00::1]",
    "[fd00:ec2::254]",
    "[fe80::1]",
    "[febf::1]",
    "[fec0::1]",
    "[ff02::1]",
    "[ff0e::1]",
    "[fe80::5efe:7f00:1]",
    "[2606:4700:0:0:0:5efe:a00:1]",
]
OUTSIDE = ["1.1.1.1", "8.8.8.8", "0x08080808", "134744072", "[2606:4700::1111]", "[64:ff9b::8.8.8.8]"]


@pytest.mark.parametrize("host", INSIDE)
async def test_no_spelling_of_an_inside_address_is_called(host: str) -> None:
    resolver = Resolver()
    bench = Bench(allow=())
    bench.wire._resolve = resolver
    failure = await bench.failure(Failed, f"http://{host}/", timeout=2)
    assert (failure.type, failure.retryable, failure.effect) == ("AddressRefused", False, EffectState.NOT_APPLIED)
    resolver.close()


@pytest.mark.parametrize("host", OUTSIDE)
async def test_public_addresses_may_be_called(host: str) -> None:
    resolver = Resolver()
    found = await resolver(parse_url(f"http://{host}/").host, 80)
    assert found
    for _, address in found:
        assert AllowList().why_not(ip_address(address[0]), 80) == ""
    resolver.close()


@pytest.mark.parametrize("host", ["LOCALHOST", "localhost."])
async def test_names_of_this_machine_are_not_called(host: str) -> None:
    bench = Bench(allow=(), names=Names(localhost=[["127.0.0.1", "::1"]]))
    assert (await bench.failure(Failed, f"http://{host}/")).type == "AddressRefused"
    assert bench.names.asked == ["localhost"]


async def test_one_inside_address_among_others_is_enough_to_refuse_a_name() -> None:
    bench = Bench(allow=(), names=Names(mixed_example=[["8.8.8.8", "10.0.0.1"]]))
    assert (await bench.failure(Failed, "http://mixed.example/")).type == "AddressRefused"


async def test_what_was_checked_is_what_is_called() -> None:
    """A name that is public when it is checked and this machine when somebody asks again."""
    names = Names(rebound_example=[["192.0.2.7"], ["127.0.0.1"]])
    async with Server() as server:
        # The first answer stands for a public address: allowed here, and nobody answers at it.
        bench = Bench(allow=("192.0.2.7",), names=names)
        failure = await bench.failure(
            Failed, f"http://rebound.example:{server.port}/", connect_timeout=0.3, timeout=0.5
        )
        assert failure.effect is EffectState.NOT_APPLIED
        assert (names.asked, server.connections) == (["rebound.example"], 0)
        # Asked again, it is refused.
        failure = await bench.failure(Failed, f"http://rebound.example:{server.port}/")
        assert (failure.type, server.connections) == ("AddressRefused", 0)


async def test_the_connection_goes_to_the_address_and_the_host_stays_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> object:
        raise AssertionError("resolved a second time")

    bench = Bench(allow=("127.0.0.1",), names=Names(api_example=[["127.0.0.1"]]))
    async with Server() as server:
        monkeypatch.setattr(socket, "getaddrinfo", never)
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", never)
        await bench.result(f"http://API.example.:{server.port}/")
    assert server.last.headers["host"] == f"api.example:{server.port}"


async def test_an_address_that_is_dead_leaves_time_for_the_next() -> None:
    names = Names(two_example=[["127.0.0.2", "127.0.0.1"]])
    async with Server() as server:
        found = await Bench(names=names, allow=("127.0.0.0/8",)).result(f"http://two.example:{server.port}/")
    assert found["status"] == 200


async def test_a_redirect_into_this_machine_is_refused() -> None:
    async with Server() as inside, Server([answers(307, Location=f"http://127.0.0.1:{inside.port}/admin")]) as outside:
        bench = Bench(allow=(f"outside.example:{outside.port}",), names=Names(outside_example=[["127.0.0.1"]]))
        failure = await bench.failure(Failed, f"http://outside.example:{outside.port}/", redirects=3)
    assert (failure.type, failure.retryable, inside.connections) == ("AddressRefused", False, 0)
    # Who redirects may have done what it was asked for.
    assert failure.effect is EffectState.UNKNOWN


async def test_ports_of_other_services_are_closed() -> None:
    bench = Bench(allow=(), names=Names(mail_example=[["8.8.8.8"]]))
    for port in (22, 25, 6379):
        failure = await bench.failure(Failed, f"http://mail.example:{port}/")
        assert (failure.type, f"port {port}" in str(failure)) == ("AddressRefused", True)


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Server() as proxy, Server() as server:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        await Bench().result(f"http://127.0.0.1:{server.port}/")
    assert (proxy.connections, server.connections) == (0, 1)


async def test_a_name_that_is_not_there_is_no_outage() -> None:
    async def nobody(host: str, port: int) -> list[tuple[int, tuple[object, ...]]]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    bench = Bench(allow=())
    bench.wire._resolve = nobody
    for _ in range(5):
        failure = await bench.failure(Failed, "http://typo.example/")
        assert (failure.type, failure.effect) == ("NameUnresolved", EffectState.NOT_APPLIED)


@pytest.mark.parametrize(
    ("allowed", "host", "address", "port", "may"),
    [
        ("10.0.0.0/8", "x", "10.1.2.3", 80, True),
        ("10.0.0.0/8", "x", "11.1.2.3", 80, True),
        ("10.0.0.0/8", "x", "192.168.0.1", 80, False),
        ("10.0.0.0/8", "x", "::ffff:10.1.2.3", 80, True),
        ("10.0.0.7", "x", "10.0.0.7", 6379, True),
        ("fd00::/8", "x", "fd00::1", 80, True),
        ("::1", "x", "::1", 80, True),
        ("localhost", "localhost", "127.0.0.1", 80, True),
        ("localhost:8000", "localhost", "127.0.0.1", 8000, True),
        ("localhost:8000", "localhost", "127.0.0.1", 8001, False),
        ("*.corp", "a.b.corp", "10.0.0.1", 80, True),
        ("*.corp", "corp", "10.0.0.1", 80, False),
        ("*.corp", "evilcorp", "10.0.0.1", 80, False),
        ("api.corp", "x.api.corp", "10.0.0.1", 80, False),
        ("[::1]:8000", "::1", "::1", 8000, True),
        ("Host.Example.", "host.example", "10.0.0.1", 80, True),
    ],
)
def test_the_allow_list(allowed: str, host: str, address: str, port: int, may: bool) -> None:
    found = AllowList.parse([allowed])
    assert (found.host(host, port) or not found.why_not(ip_address(address), port)) is may


@pytest.mark.parametrize("text", ["", "http://x", "10.0.0.1/8", "x:y", "x:0", "x:70000", "a b", "*", "*.", "-/8", "x/"])
def test_an_allowance_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="--allow"):
        AllowList.parse([text])


def test_what_an_address_stands_for() -> None:
    assert str(unwrapped(ip_address("64:ff9b::8.8.8.8"))) == "8.8.8.8"
    assert is_public(ip_address("64:ff9b::8.8.8.8"))
    # A tunnel to a public host is no way to a public host.
    assert not is_public(ip_address("2002:808:808::1"))


@pytest.mark.parametrize(
    ("text", "host", "port", "target"),
    [
        ("https://Api.Example.com", "api.example.com", 443, "/"),
        ("http://api.example.com.:8080/a%20b", "api.example.com", 8080, "/a%20b"),
        ("https://bücher.example/straße?ü=ß#part", "xn--bcher-kva.example", 443, "/stra%C3%9Fe?%C3%BC=%C3%9F"),
        ("https://ⓛocalhost/", "localhost", 443, "/"),
        ("https://my_service:9000?a=1", "my_service", 9000, "/?a=1"),
        ("http://[::FFFF:127.0.0.1]/", "::ffff:127.0.0.1", 80, "/"),
        ("http://x/%2e%2e/a;b=c?d=[1]&e={f}", "x", 80, "/%2e%2e/a;b=c?d=[1]&e=%7Bf%7D"),
    ],
)
def test_urls_are_read(text: str, host: str, port: int, target: str) -> None:
    found = parse_url(text)
    assert (found.host, found.port, found.target) == (host, port, target)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "api.example.com/x",
        "//api.example.com",
        "https:/api.example.com",
        "https:api.example.com",
        "ftp://x/",
        "file:///etc/passwd",
        "gopher://127.0.0.1:6379/_",
        "unix:///run/docker.sock",
        "https://",
        "https:///path",
        "https://user@x/",
        "https://user:secret@x/",
        "https://@x/",
        "https://x:0/",
        "https://x:70000/",
        "https://x:a/",
        "https://x:-1/",
        "https://x\\@127.0.0.1/",
        "https://x\t/",
        "https://x/a b",
        "https://x/\r\nHost: y",
        " https://x/",
        "https://x%2ecom/",
        "https://x..y/",
        "https://.x/",
        "https://[::1/",
        "https://[::1%25eth0]/",
        "https://[v1.x]/",
        "https://a" + "b" * 300 + "/",
        "https://x/" + "a" * 9_000,
        "https://127。0。0。1:0/",
    ],
)
def test_what_two_readers_may_read_differently_is_no_url(text: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_url(text)
    assert caught.value.violations[0].field == "url"
    assert "secret" not in caught.value.message


def test_redirects_are_urls_too() -> None:
    base = parse_url("https://x.example/a/b?c=1")
    assert join_url(base, "../d").target == "/d"
    assert join_url(base, "//y.example/e").origin == "https://y.example"
    assert join_url(base, "?f").target == "/a/b?f"
    for location in ("javascript:alert(1)", "file:///etc/passwd", "http://u:p@y/", "http://[/"):
        with pytest.raises(InvalidArgument):
            join_url(base, location)
