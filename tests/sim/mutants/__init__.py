"""Guards taken away one by one: each must be caught by some seed, or be explained as equivalent.

A mutant that nobody catches says that a check is missing, that the faults do not reach there, or that the guard keeps
nothing. The first two are mended; the third is written down here with its reason, and stays in the list, because a
reason may stop to be true: an equivalent mutant that is caught is a failure too.

Five guards are left out, since one world in hundreds or thousands needs them: that an inventory is ignored which a
newer one has overtaken; that a lease is not adopted while its claim is on its way; that the answer with an adopted
lease may be on its way; that a peer that does not answer offers nothing; and that news of a job are passed on to a
newer owner. The coordinator's own tests have them.
"""

from . import schedules
from .base import Mutant, Verdict, hunt
from .coordinator import COORDINATOR
from .store import STORE

__all__ = ["ALL", "PLANTED", "Mutant", "Verdict", "hunt"]

ALL = STORE + COORDINATOR + schedules.STORE + schedules.COORDINATOR

PLANTED = {
    "claim": "claim: epoch",
    "complete": "succeed: fence",
    "renew": "renew: alive",
    "materialise": "fire: version and fire: cursor",
}
"""A bug in each of the places that everything hangs on."""
