"""A primary and its standby, of which the primary can be lost."""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from rota import bootstrap
from rota.store.embedded import EmbeddedPostgres

from ..faults.tcp import Network

NAME = "standby"
SETTINGS = {
    "fsync": "off",
    "max_connections": "200",
    "max_wal_senders": "4",
    "wal_keep_size": "256MB",
    "wal_receiver_status_interval": "1s",
}


class Replicated:
    """Both run. What they say to each other goes over `link`."""

    def __init__(self, folder: Path, network: Network, bin_dir: Path | None) -> None:
        self._bin_dir = bin_dir
        self.primary = EmbeddedPostgres(folder / "primary" / "data", bin_dir=bin_dir, settings=SETTINGS)
        url = self.primary.start()
        bootstrap.migrate(url)
        self.primary.stop()
        shutil.copytree(folder / "primary", folder / NAME, symlinks=True)
        (folder / NAME / "data" / "standby.signal").touch()
        self.primary.start()
        who, _, place = url.partition("://")[2].partition("@")
        user, _, password = who.partition(":")
        address, _, _ = place.partition("/")
        self.link = network.link(address)
        host, _, port = self.link.address.partition(":")
        source = f"host={host} port={port} user={user} password={password} application_name={NAME}"
        self.standby = EmbeddedPostgres(
            folder / NAME / "data", bin_dir=bin_dir, settings=SETTINGS | {"primary_conninfo": source}
        )
        theirs = self.standby.start().partition("@")[2].partition("/")[0]
        self.url = f"postgresql://{who}@{address},{theirs}/rota?target_session_attrs=read-write"
        """Both, as their clients name them."""
        until = time.monotonic() + 20
        while self.lag_bytes() != 0:
            assert time.monotonic() < until
            time.sleep(0.02)

    def lag_bytes(self) -> int | None:
        """How far the standby is behind the primary; None: it does not listen."""
        with psycopg.connect(self.primary.url) as conn:
            found = conn.execute(
                "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)::bigint FROM pg_stat_replication "
                "WHERE application_name = %s AND state = 'streaming'",
                [NAME],
            ).fetchone()
        return None if found is None or found[0] is None else int(found[0])

    def wait_for_standby(self) -> None:
        """What has been committed so far is on the standby."""
        with psycopg.connect(self.primary.url) as conn:
            (at,) = conn.execute("SELECT pg_current_wal_lsn()").fetchone() or ("0/0",)
        with psycopg.connect(self.standby.url, autocommit=True) as conn:
            until = time.monotonic() + 20
            while conn.execute("SELECT pg_last_wal_replay_lsn() < %s::pg_lsn", [at]).fetchone() == (True,):
                assert time.monotonic() < until
                time.sleep(0.02)

    def be_synchronous(self) -> None:
        """From now on nothing is acknowledged that the standby does not have."""
        with psycopg.connect(self.primary.url, autocommit=True) as conn:
            conn.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{NAME}'")
            conn.execute("SELECT pg_reload_conf()")
            until = time.monotonic() + 10
            while conn.execute("SELECT sync_state FROM pg_stat_replication").fetchone() != ("sync",):
                assert time.monotonic() < until
                time.sleep(0.02)

    def fail_over(self) -> None:
        """The primary is gone for good, and the standby takes its place."""
        self.primary.kill()
        with psycopg.connect(self.standby.url, autocommit=True) as conn:
            assert conn.execute("SELECT pg_promote(true, 30)").fetchone() == (True,)

    def stop(self) -> None:
        self.standby.stop()
        self.primary.stop()


@contextmanager
def replicated(folder: Path, bin_dir: Path | None = None) -> Iterator[Replicated]:
    with Network() as network:
        both = Replicated(folder, network, bin_dir)
        try:
            yield both
        finally:
            both.stop()
