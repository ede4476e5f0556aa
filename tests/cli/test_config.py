"""Settings: where each value comes from, and what is refused."""

import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.config import OPTIONS, Settings, hide_password
from rota.domain.duration import format_duration, parse_duration
from rota.domain.errors import InvalidArgument
from rota.domain.wording import suggestion
from rota.targets.command import ATTEMPT_VARIABLES


def load(environ: dict[str, str] | None = None, flags: dict[str, Any] | None = None, **more: Any) -> Settings:
    return Settings.load(flags, environ={"ROTA_HOME": "/nowhere", **(environ or {})}, **more)


def refused(environ: dict[str, str] | None = None, flags: dict[str, Any] | None = None, **more: Any) -> str:
    with pytest.raises(InvalidArgument) as caught:
        load(environ, flags, **more)
    return caught.value.message


@pytest.fixture
def file(tmp_path: Path) -> Any:
    def write(text: str) -> Path:
        path = tmp_path / "given.toml"
        path.write_text(text)
        return path

    return write


def test_the_defaults_are_those_of_the_class() -> None:
    assert load() == dataclasses.replace(Settings(), home=Path("/nowhere"))


def test_each_source_overrides_the_one_before(file: Any) -> None:
    config = file('session_ttl = "20s"\nlisten = "127.0.0.1:1"\nlog_level = "error"\n')
    environ = {"ROTA_LISTEN": "127.0.0.1:2", "ROTA_LOG_LEVEL": "debug"}
    settings = load(environ, {"log_level": "warning", "log_format": None}, config=config)
    assert (settings.history_s, settings.session_ttl_s, settings.listen, settings.log_level, settings.log_format) == (
        14 * 86_400,
        20,
        "127.0.0.1:2",
        "warning",
        "text",
    )


def test_the_file_is_given_by_flag_then_environment_then_found_in_home(tmp_path: Path) -> None:
    for name in ("flag", "environment", "rota"):
        (tmp_path / f"{name}.toml").write_text(f'listen = "{name}:1"\n')
    environ = {"ROTA_HOME": str(tmp_path)}
    assert load(environ).listen == "rota:1"
    environ["ROTA_CONFIG"] = str(tmp_path / "environment.toml")
    assert load(environ).listen == "environment:1"
    assert load(environ, config=tmp_path / "flag.toml").listen == "flag:1"
    (tmp_path / "rota.toml").unlink()
    assert load({"ROTA_HOME": str(tmp_path)}).listen == "127.0.0.1:7070"


def test_relative_paths_start_where_they_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "etc").mkdir()
    config = tmp_path / "etc" / "rota.toml"
    config.write_text('tls_cert = "cert.pem"\n')
    settings = load({"ROTA_TLS_KEY": "key.pem"}, config=config)
    assert (settings.tls_cert, settings.tls_key) == (tmp_path / "etc" / "cert.pem", tmp_path / "key.pem")


def test_an_empty_variable_is_unset_and_otel_s_own_endpoint_counts() -> None:
    settings = load({"ROTA_DATABASE_URL": "", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://otel:4317"})
    assert settings.database_url is None
    assert settings.otlp_endpoint == "http://otel:4317"
    both = load({"ROTA_OTLP_ENDPOINT": "http://ours:1", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://otel:4317"})
    assert both.otlp_endpoint == "http://ours:1"


def test_what_a_command_is_told_by_rota_exec_is_no_setting() -> None:
    environ = dict.fromkeys(ATTEMPT_VARIABLES, "1") | {"ROTA_LISTEN": "rota:1"}
    assert load(environ).listen == "rota:1"
    assert "did you mean" not in refused({"ROTA_JOBS": "1"})


@pytest.mark.parametrize(
    ("environ", "file_text", "flags", "message"),
    [
        ({"ROTA_SESION_TTL": "3s"}, "", {}, "ROTA_SESION_TTL: no such environment .* did you mean ROTA_SESSION_TTL?"),
        ({"ROTA_COLOUR": "3s"}, "", {}, "ROTA_COLOUR: no such environment variable .* known are ROTA_ADDRESS, "),
        ({}, 'sesion-ttl = "3s"', {}, "given.toml: sesion-ttl: no such setting; did you mean session_ttl?"),
        ({}, "[server]\nport = 1", {}, "given.toml: server: no such setting; known are advertise, "),
        ({}, "", {"lisen": "x"}, "lisen: no such setting; did you mean listen?"),
        ({}, "session_ttl = true", {}, "session_ttl: expected a duration such as .*, found True"),
        ({}, "listen = 7070", {}, "listen: expected text, found 7070"),
        ({}, 'allow_plaintext = "perhaps"', {}, "allow_plaintext: expected true or false, found 'perhaps'"),
        ({}, "trace_ratio = 2", {}, "trace_ratio: expected a number from 0 to 1, found 2"),
        ({"ROTA_TRACE_RATIO": "nan"}, "", {}, "ROTA_TRACE_RATIO: expected a number from 0 to 1, found 'nan'"),
        ({"ROTA_SESSION_TTL": "2h"}, "", {}, "ROTA_SESSION_TTL: expected 1s to 1h, found 2h"),
        ({"ROTA_LOG_LEVEL": "loud"}, "", {}, "ROTA_LOG_LEVEL: expected one of debug, info, warning, error, found"),
        ({}, "", {"listen": "7070"}, "--listen: expected host:port with a port from 0 to 65535"),
        ({}, "", {"listen": "::1:7070"}, "--listen: expected .* IPv6 host in brackets"),
        ({}, "", {"advertise": "host:0"}, "--advertise: expected host:port with a port from 1 to 65535"),
        ({}, "", {"otlp_endpoint": "otel:4317"}, "--otlp-endpoint: expected http://host:port"),
        ({"ROTA_LISTEN": "a\nb:1"}, "", {}, "ROTA_LISTEN: expected text without control characters"),
        ({}, "", {"tls_cert": "c"}, "tls_key: expected beside tls_cert, found only that"),
        ({}, "", {"tls_client_ca": "c"}, "tls_client_ca: expected together with tls_cert"),
        ({}, "", {"tls_peer_ca": "c"}, "tls_peer_ca: expected together with tls_cert"),
        ({}, "", {"tls_peer_name": "rota"}, "tls_peer_name: expected together with tls_cert"),
        ({}, "", {"peer_listen": "7071"}, "--peer-listen: expected host:port with a port from 0 to 65535"),
        ({}, "", {"peer_advertise": "host:0"}, "--peer-advertise: expected host:port with a port from 1 to 65535"),
        ({}, "listen = ", {}, "given.toml: expected TOML in UTF-8, found otherwise"),
    ],
)
def test_what_is_wrong_is_named_with_its_source(
    environ: dict[str, str], file_text: str, flags: dict[str, Any], message: str, file: Any
) -> None:
    assert re.search(message, refused(environ, flags, config=file(file_text)))


@pytest.mark.parametrize("content", [b"\xff\xfe", b"x = '\0'", b"[" * 100_000])
def test_a_file_that_is_no_toml_is_refused(content: bytes, tmp_path: Path) -> None:
    config = tmp_path / "bad.toml"
    config.write_bytes(content)
    assert "bad.toml: expected TOML" in refused(config=config)


def test_a_file_that_is_not_there_is_refused_only_when_it_was_asked_for(tmp_path: Path) -> None:
    assert "expected a readable configuration file" in refused(config=tmp_path / "none.toml")
    assert "Is a directory" in refused({"ROTA_CONFIG": str(tmp_path)})


@pytest.mark.parametrize(
    "url",
    [
        "mysql://rota:s3cret@db/rota",
        "rota:s3cret@db",
        "postgresql//rota:s3cret@db",
        "sqlite:///x?password=s3cret",
    ],
)
def test_a_database_url_that_is_none_is_refused_without_its_password(url: str) -> None:
    message = refused({"ROTA_DATABASE_URL": url})
    assert "expected postgresql://user:password@host:port/database" in message
    assert "s3cret" not in message


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://rota:s3cret@db/rota",
        "postgresql://rota:s3cret/s3cret@s3cret@db/rota",
        "postgresql://db/rota?user=rota&password=s3cret&sslpassword=s3cret",
        "postgresql+psycopg://rota:s3cret@db1:5432,db2:5432/rota",
    ],
)
def test_no_password_is_printed(url: str) -> None:
    settings = load({"ROTA_DATABASE_URL": url})
    assert settings.database_url == url
    assert "s3cret" not in repr(settings) + repr(settings.redacted())
    assert "db" in settings.redacted()["database_url"]


def test_a_url_without_a_password_is_printed_whole() -> None:
    for url in ("postgresql://rota@db:5432/rota", "postgresql://db/rota?sslmode=require"):
        assert hide_password(url) == url


def test_variables_of_the_sdk_of_tests_and_of_kubernetes_are_left_alone() -> None:
    environ = {
        "ROTA_ADDRESS": "x",
        "ROTA_API_KEY": "x",
        "ROTA_TLS": "1",
        "ROTA_TEST_ANYTHING": "x",
        "ROTA_PORT": "tcp://10.0.0.1:7070",
        "ROTA_PORT_7070_TCP_ADDR": "10.0.0.1",
        "ROTA_COORDINATOR_SERVICE_HOST": "10.0.0.1",
        "ROTA_COORDINATOR_SERVICE_PORT_GRPC": "7070",
    }
    assert load(environ) == load()
    assert "ROTA_PORT: no such environment variable" in refused({"ROTA_PORT": "7070"})


def test_the_environment_carries_all_settings_to_a_child(tmp_path: Path) -> None:
    settings = load(
        {"ROTA_DATABASE_URL": "postgresql://rota:s3cret@db/rota", "ROTA_TRACE_RATIO": "0.25"},
        {"session_ttl": "1500ms", "history": "36h", "allow_plaintext": True, "tls_cert": "c", "tls_key": "k"},
    )
    assert Settings.load(environ=settings.environ() | {"ROTA_CONFIG": os.devnull}) == settings


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("20s", 20), ("5m", 300), ("1h", 3600), ("2d", 172_800), ("1h30m", 5400), ("1.5", 1.5), (7, 7)],
)
def test_durations(text: Any, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", " ", "5 minutes", "-1s", "1w", "s", "1s 2", "nan", "inf", "٣s", "9" * 70, True, None, -1, 1e999, [1]]
)
def test_what_is_no_duration(text: Any) -> None:
    with pytest.raises(ValueError, match="expected a duration such as 500ms"):
        parse_duration(text)


@given(st.floats(min_value=0, max_value=1e9))
def test_a_formatted_duration_reads_as_itself(span_s: float) -> None:
    assert parse_duration(format_duration(span_s)) == pytest.approx(span_s, rel=1e-12)


def test_the_nearest_name_is_suggested_whatever_all_have_in_common() -> None:
    assert suggestion("ROTA_LISEN", ["ROTA_LISTEN", "ROTA_HOME"], "ROTA_") == "did you mean ROTA_LISTEN?"
    assert suggestion("ROTA_XYZZY", ["ROTA_LISTEN", "ROTA_HOME"], "ROTA_") == "known are ROTA_LISTEN, ROTA_HOME"


def test_the_readme_has_each_setting_with_its_default() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    for option in OPTIONS.values():
        default = "unset" if option.default is None else f"`{option.text(option.default)}`"
        assert f"| `{option.key}` | {default} | {option.help} |" in readme


def test_config_imports_nothing_heavy() -> None:
    code = "import sys, rota.config; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"grpc", "sqlalchemy", "psycopg", "rich", "typer", "asyncio", "opentelemetry"} & set(loaded)
