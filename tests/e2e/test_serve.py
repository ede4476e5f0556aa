"""`rota serve` that cannot start, or not any more: one line that says what to do, and the exit code."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota import bootstrap
from rota.config import Settings

NOBODY = "postgresql://rota:s3cret@127.0.0.1:1/rota"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An empty database."""
    settings = Settings(home=tmp_path_factory.mktemp("home"))
    with bootstrap.local_database(settings) as running:
        yield running


def environment(tmp_path: Path) -> dict[str, str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("ROTA_", "OTEL_"))}
    return clean | {"ROTA_HOME": str(tmp_path / "home"), "ROTA_LISTEN": "127.0.0.1:0"}


def rota(tmp_path: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "rota", *arguments],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
    )


def check_refused(done: "subprocess.CompletedProcess[str]", code: int, *words: str) -> None:
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    error, *hint = done.stderr.splitlines()
    assert error.startswith("error: ")
    assert len(hint) == 1
    assert hint[0].startswith("hint: ")
    assert "s3cret" not in done.stderr
    for word in words:
        assert word in done.stderr


@pytest.mark.parametrize("command", [["serve"], ["migrate"], ["key", "list"]])
def test_no_database(command: list[str], tmp_path: Path) -> None:
    patience = ["--database-wait", "0s"] if command == ["serve"] else []
    done = rota(tmp_path, *command, "--database-url", NOBODY, *patience)
    check_refused(done, 3, "cannot be reached", "127.0.0.1:1")


@pytest.mark.parametrize("command", [["serve"], ["key", "list"]])
def test_a_database_that_was_not_migrated(command: list[str], tmp_path: Path, url: str) -> None:
    check_refused(rota(tmp_path, *command, "--database-url", url), 1, "the database is empty", "rota migrate")


def test_a_url_that_is_no_postgresql(tmp_path: Path) -> None:
    done = rota(tmp_path, "serve", "--database-url", "mysql://rota:s3cret@db/rota")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: --database-url: expected postgresql://user:password@host:port/database")
    assert "s3cret" not in done.stderr


def test_plaintext_off_loopback(tmp_path: Path) -> None:
    done = rota(tmp_path, "serve", "--listen", "0.0.0.0:0", "--database-url", NOBODY)
    check_refused(done, 2, "there is no TLS", "allow_plaintext")


def test_a_certificate_that_is_not_there(tmp_path: Path, url: str) -> None:
    bootstrap.migrate(url)
    done = rota(tmp_path, "serve", "--tls-cert", "none.pem", "--tls-key", "none.key", "--database-url", url)
    assert done.returncode in (1, 2)
    assert "none.pem" in done.stderr
    assert "Traceback" not in done.stderr


def test_serves_until_sigterm_and_says_where(tmp_path: Path, url: str) -> None:
    bootstrap.migrate(url)
    serving = subprocess.Popen(
        [sys.executable, "-m", "rota", "serve", "--json", "--database-url", url],
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert serving.stdout is not None
        host, _, port = json.loads(serving.stdout.readline())["address"].rpartition(":")
        socket.create_connection((host, int(port)), timeout=5).close()
        second = rota(tmp_path, "serve", "--database-url", url, "--listen", f"{host}:{port}")
        assert second.returncode == 1
        assert f"error: cannot listen on {host}:{port}" in second.stderr
        serving.send_signal(signal.SIGTERM)
        out, err = serving.communicate(timeout=20)
    finally:
        serving.kill()
        serving.communicate()
    assert (serving.returncode, out) == (0, ""), err
