"""`--unset`: options that an update takes back to their default."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from rota.domain.errors import InvalidArgument
from rota.domain.wording import suggestion

Unset = Annotated[
    list[str] | None,
    typer.Option("--unset", metavar="OPTION", help="Take this one back to its default or no limit; repeatable."),
]


def changed_options(given: Mapping[str, object | None], unset: Sequence[str] | None, of: str) -> list[str]:
    """The options whose fields a command changes. `given` has the value of each; None: it was not given.

    Refuses one that is unknown, or set and unset at once, and a command that changes nothing of `of`.
    """
    known = {option.removeprefix("--"): option for option in given}
    taken = [option for option, value in given.items() if value is not None]
    for name in unset or ():
        option = known.get(name.removeprefix("--"))
        if option is None:
            raise InvalidArgument.field(
                "--unset", f"expected an option of this command, found {name[:40]!r}; {suggestion(name, known)}"
            )
        if given[option] is not None:
            raise InvalidArgument.field("--unset", f"expected {option} set or unset, found both; give one")
        taken.append(option)
    if not taken:
        raise InvalidArgument.field(of, "expected an option that changes it, found none; give one")
    return list(dict.fromkeys(taken))
