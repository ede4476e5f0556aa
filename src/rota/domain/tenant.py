"""What operators set for a tenant: its share of dispatch, how much of it may run at a time, and how long its history
is kept."""

from dataclasses import dataclass

from rota.domain import limits
from rota.domain.errors import NotFound
from rota.domain.text import Problems


@dataclass(frozen=True, slots=True)
class TenantSettings:
    """`max_in_flight` None: no limit. `history_s` None: as the installation has it."""

    weight: int = limits.WEIGHT_DEFAULT
    max_in_flight: int | None = None
    history_s: float | None = None

    @property
    def limited(self) -> bool:
        return self.max_in_flight is not None


def check_tenant_settings(problems: Problems, at: str, settings: TenantSettings) -> None:
    """Checks every setting. `at` is the path of the tenant in its request."""
    problems.integer(f"{at}.weight", settings.weight, limits.WEIGHT_MIN, limits.WEIGHT_MAX)
    most = settings.max_in_flight
    if most is not None and most < 1:
        problems.add(f"{at}.quota.max_in_flight", f"must be 1 or more, found {most}; unset it for no limit")
    history_s = settings.history_s
    if history_s is not None and not limits.HISTORY_MIN_S <= history_s <= limits.HISTORY_MAX_S:
        problems.add(
            f"{at}.history_retention",
            f"must be {limits.HISTORY_MIN_S:.0f}s to {limits.HISTORY_MAX_S:.0f}s, that is 1 to 3,660 days, found "
            f"{history_s:g}s; unset it for the installation's own",
        )


def tenant_not_found(name: str) -> NotFound:
    return NotFound(f"tenants/{name}: not found; it is created with its first key, or the name is wrong")
