"""Resume tokens of WatchJobs: a place among changes, sealed to tenant and filter as page tokens are."""

import re

from rota.api import pages
from rota.domain.change import Position
from rota.domain.ids import TenantId
from rota.service.changes import Place
from rota.store.changeport import Coverage

# Transactions are told by how far they lie below the next one, which is short: they run at the same time.
_PLACE = re.compile(
    r"(?P<generation>\d{1,18}) (?P<incarnation>[0-9A-Za-z/]{0,80}) (?P<next>\d{1,18})"
    r" (?P<running>(?:\d{1,18}(?:,\d{1,18})*)?) (?P<parts>(?:\d{1,18}:\d{1,18}(?:,\d{1,18}:\d{1,18})*)?)"
)


def seal(coverage: Coverage, position: Position, tenant: TenantId, query: bytes) -> str:
    """The token for what comes after a position."""
    last = position.next_xid
    running = ",".join([str(last - xid) for xid in sorted(position.running)])
    parts = ",".join([f"{last - xid}:{seq}" for xid, seq in position.parts])
    text = f"{coverage.generation} {coverage.incarnation} {last} {running} {parts}"
    return pages.seal(text, tenant, query)


def unseal(token: str, tenant: TenantId, query: bytes) -> Place | None:
    """The place where a token was made; None without one. Refuses a token made for anything else."""
    text = pages.unseal_resume(token, tenant, query, _PLACE)
    if not text:
        return None
    found = _PLACE.fullmatch(text)
    assert found is not None
    last = int(found["next"])
    running = frozenset(last - int(below) for below in found["running"].split(",") if below)
    parts = tuple(
        (last - int(below), int(seq)) for below, seq in (part.split(":") for part in found["parts"].split(",") if part)
    )
    return Place(Coverage(int(found["generation"]), found["incarnation"]), Position(last, running, parts))
