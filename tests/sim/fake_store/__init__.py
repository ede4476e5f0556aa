"""The ports of `rota.store.port` in memory: what PostgreSQL promises, and nothing else.

Each operation is one statement that runs at one instant, by the database's clock, and reports what it committed to the
history. How it gets there, and whether its answer comes back, is the business of the `Call` that it is sent through:
none in the differential test, which holds this store equal to PostgreSQL, and a `Link` full of faults in a world.

Every guard of a statement has a name, so that the mutants can take it away (`mutants.py`). Instants are microseconds
since 1970. Not here: keys and tenants, since the simulation enters below the api, and partitions, which are no promise
of the port. What a serial store cannot show (two sessions at once, locks) is shown on PostgreSQL itself.
"""

from .fires import UNWRITABLE, FakeFires
from .history import FakeHistory
from .jobs import FakeJobReader, FakeJobs
from .leases import FakeLeases
from .outcomes import FakeOutcomes
from .schedules import FakeSchedules
from .sessions import FakeSessions
from .shards import FakeShards
from .tables import Call, JobRow, Tables, UniqueViolation, direct

__all__ = [
    "UNWRITABLE",
    "Call",
    "FakeFires",
    "FakeHistory",
    "FakeJobReader",
    "FakeJobs",
    "FakeLeases",
    "FakeOutcomes",
    "FakeSchedules",
    "FakeSessions",
    "FakeShards",
    "JobRow",
    "Tables",
    "UniqueViolation",
    "direct",
]
