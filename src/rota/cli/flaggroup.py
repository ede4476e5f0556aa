"""Options that several commands share: a dataclass of typer's parameters, expanded into those of a command."""

from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter, signature
from typing import Any, get_type_hints


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command, some of whose parameters are annotated with such a dataclass, the fields in their place.

    The command is called with the dataclasses filled. All groups and other parameters must differ in their names.
    """
    own = signature(command, eval_str=True)
    groups: dict[str, Any] = {p.name: p.annotation for p in own.parameters.values() if is_dataclass(p.annotation)}
    parameters: list[Parameter] = []
    for parameter in own.parameters.values():
        group = groups.get(parameter.name)
        parameters += _fields_of(group) if group else [parameter.replace(kind=Parameter.KEYWORD_ONLY)]

    @wraps(command)
    def call(**given: Any) -> None:
        filled = {name: group(**{f.name: given.pop(f.name) for f in fields(group)}) for name, group in groups.items()}
        command(**given, **filled)

    call.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": None}
    return call


def _fields_of(group: Any) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            annotation=hints[field.name],
            default=Parameter.empty if field.default is MISSING else field.default,
        )
        for field in fields(group)
    ]
