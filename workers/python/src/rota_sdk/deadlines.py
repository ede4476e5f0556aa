"""Run timeouts, counted in the worker too."""

from collections.abc import Callable

from rota_sdk import limits
from rota_sdk.holdings import Holdings
from rota_sdk.lease import Lease, Stop


class Deadlines:
    """Stops handlers at their run timeout; one that goes on is given up a moment later."""

    def __init__(
        self, holdings: Holdings, stop: Callable[[Lease, Stop], None], give_up: Callable[[Lease], None]
    ) -> None:
        self._holdings = holdings
        self._stop = stop
        self._give_up = give_up
        self._late: set[Lease] = set()

    def check(self, now: float) -> None:
        """Acts on what is due; `holdings.next_deadline` is when to look again."""
        for lease in self._holdings.overdue(now):
            if lease in self._late:
                self._late.discard(lease)
                self._give_up(lease)
            else:
                self._late.add(lease)
                self._stop(lease, Stop.TIMED_OUT)
                self._holdings.set_deadline(lease, now + limits.TIMEOUT_REPORT_GRACE_S)
        if self._late:
            self._late = {lease for lease in self._late if not lease._settled}
