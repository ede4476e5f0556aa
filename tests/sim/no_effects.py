"""The ledger of effects in a world whose workers never ask it: the janitor looks through it, and finds nothing."""

from typing import Any

from .fake_store.tables import Port


class NoEffects(Port):
    """EffectStore without entries; whatever else is asked for is a fault of the simulation."""

    async def forget(self, older_than_s: float, limit: int) -> int:
        return 0

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name}: this world has no ledger of effects")
