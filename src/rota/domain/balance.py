"""Who should own how many shards, and what each gives away to get there.

Every coordinator computes the same from the same rows, so nobody has to lead: shares differ by one at most, a
coordinator takes free shards only up to its own share, and gives away only what it has above it. Readers of slightly
different rows come to slightly different plans, which the next look corrects.
"""

from collections.abc import Iterable, Mapping

from rota.domain.ids import CoordinatorId


def shares(living: Iterable[CoordinatorId], total: int) -> dict[CoordinatorId, int]:
    """How many of `total` shards each should own; the first by id have the odd ones."""
    ordered = sorted(living)
    if not ordered:
        return {}
    each, odd = divmod(total, len(ordered))
    return {id: each + (rank < odd) for rank, id in enumerate(ordered)}


def gifts(
    owned: Mapping[CoordinatorId, int], due: Mapping[CoordinatorId, int], giver: CoordinatorId
) -> dict[CoordinatorId, int]:
    """How many shards `giver` hands to whom, so that all who do the same reach their shares `due`.

    Givers and takers are paired in the order of their ids; one with no share gives away all that it owns.
    """
    ids = sorted(owned.keys() | due.keys())
    surplus = [(id, n) for id in ids if (n := owned.get(id, 0) - due.get(id, 0)) > 0]
    lacking = [(id, n) for id in ids if (n := due.get(id, 0) - owned.get(id, 0)) > 0]
    given: dict[CoordinatorId, int] = {}
    while surplus and lacking:
        (source, has), (target, wants) = surplus[0], lacking[0]
        count = min(has, wants)
        if source == giver:
            given[target] = given.get(target, 0) + count
        surplus[:1] = [(source, has - count)] if has > count else []
        lacking[:1] = [(target, wants - count)] if wants > count else []
    return given
