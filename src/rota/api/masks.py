"""Field masks: which fields of a resource a change takes (AIP-134, AIP-161)."""

import difflib
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final, TypeVar

from google.api.field_behavior_pb2 import OUTPUT_ONLY, field_behavior
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message

from rota.domain.errors import InvalidArgument
from rota.domain.text import Problems, shown

M = TypeVar("M", bound=Message)
Descriptor = Any
FieldDescriptor = Any
"""Of either implementation of protobuf, which share no class."""

FIELD: Final = "update_mask"
PATHS_MAX: Final = 200
EVERYTHING: Final = "*"

_SPOKEN: Final = frozenset({"name", "etag"})
"""Fields that say which resource and which version: naming them changes nothing."""

ATOMS: Final = frozenset({"google.protobuf.Timestamp", "google.protobuf.Duration"})
VALUES: Final = ATOMS | {"rota.v1.Payload"}
"""Messages that are one value: bytes without their media type would be another payload."""


def paths(given: Message, mask: FieldMask) -> Sequence[str] | None:
    """The checked paths of a change; None: everything. An empty mask means every field that is set in `given`.

    Raises InvalidArgument for paths that are unknown, output-only, or lead into a map, a list or a plain value.
    """
    if len(mask.paths) > PATHS_MAX:
        raise InvalidArgument.field(FIELD, f"must have at most {PATHS_MAX} paths, found {len(mask.paths)}")
    if not mask.paths:
        inputs = _inputs(given.DESCRIPTOR)
        return [path for path in _set(given) if path.partition(".")[0] in inputs]
    if EVERYTHING in mask.paths:
        if len(mask.paths) > 1:
            raise InvalidArgument.field(FIELD, "must not have other paths beside *, which takes everything")
        return None
    problems = Problems()
    for path in mask.paths:
        _check(problems, given.DESCRIPTOR, path)
    problems.raise_any()
    return [path for path in mask.paths if path not in _SPOKEN]


def merged(stored: M, given: M, taken: Sequence[str] | None) -> M:
    """`stored` with the fields at these paths as they are in `given`, set or not."""
    if taken is None:
        return given
    result = type(stored)()
    result.CopyFrom(stored)
    # What is set comes last: of the kinds of a oneof that are named, the one that is given stays.
    for path in sorted(taken, key=lambda path: _present(given, path.partition(".")[0])):
        _take(given, result, path)
    return result


def differences(old: M, new: M) -> tuple[str, ...]:
    """The paths at which two messages differ. Of a oneof whose kind differs, the new kind."""
    return tuple(_differences(old, new))


def _take(given: Message, result: Message, path: str) -> None:
    # FieldMask.MergeMessage leaves alone what lies below a message that is not set; here that is taken as unset.
    *above, name = path.split(".")
    for step in above:
        given, result = getattr(given, step), getattr(result, step)
        result.SetInParent()
    field = given.DESCRIPTOR.fields_by_name[name]
    result.ClearField(name)
    if field.is_repeated:
        getattr(result, name).MergeFrom(getattr(given, name))
    elif field.message_type is not None:
        if given.HasField(name):
            getattr(result, name).CopyFrom(getattr(given, name))
            getattr(result, name).SetInParent()
    elif not field.has_presence or given.HasField(name):
        setattr(result, name, getattr(given, name))


def _present(message: Message, name: str) -> bool:
    return any(field.name == name for field, _ in message.ListFields())


def _set(message: Message, at: str = "") -> Iterator[str]:
    """Paths of what is set, as deep as they go."""
    for field, value in message.ListFields():
        if _is_value(field, VALUES) or not value.ListFields():
            yield at + field.name
        else:
            yield from _set(value, f"{at}{field.name}.")


def _differences(old: Message, new: Message, at: str = "") -> Iterator[str]:
    for field in new.DESCRIPTOR.fields:
        name = field.name
        if _is_value(field, VALUES):
            same = getattr(old, name) == getattr(new, name)
            if field.has_presence:
                same = same and old.HasField(name) == new.HasField(name)
            if not same and not _replaced(new, field):
                yield at + name
        elif old.HasField(name) and new.HasField(name):
            yield from _differences(getattr(old, name), getattr(new, name), f"{at}{name}.")
        elif old.HasField(name) != new.HasField(name) and not _replaced(new, field):
            yield at + name


def _replaced(new: Message, field: FieldDescriptor) -> bool:
    """Whether another kind of its oneof has taken its place."""
    oneof = field.containing_oneof
    return oneof is not None and new.WhichOneof(oneof.name) not in (None, field.name)


def _is_value(field: FieldDescriptor, values: frozenset[str]) -> bool:
    return field.is_repeated or field.message_type is None or field.message_type.full_name in values


def _check(problems: Problems, resource: Descriptor, path: str) -> None:
    inputs = _inputs(resource)
    if path in inputs:
        return
    top = path.partition(".")[0]
    if top in resource.fields_by_name and top not in inputs:
        problems.add(FIELD, f"must not name fields that only Rota sets, found {shown(path)}; leave it out")
        return
    whole = path
    while "." in whole and whole not in inputs:
        whole = whole.rpartition(".")[0]
    if inputs.get(whole):
        problems.add(FIELD, f"must not lead into {whole}, which is taken as a whole, found {shown(path)}; name {whole}")
        return
    snake = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", path[:80]).lower()
    near = difflib.get_close_matches(snake, list(inputs), n=1, cutoff=0.6)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(p for p in inputs if '.' not in p)}"
    problems.add(FIELD, f"must have paths of {resource.name}, found {shown(path)}; {hint}")


@cache
def _inputs(resource: Descriptor) -> dict[str, bool]:
    """The paths that may be named, and whether each is the end of its branch."""
    return dict(_walk(resource))


def _walk(message: Descriptor, at: str = "") -> Iterator[tuple[str, bool]]:
    for field in message.fields:
        if OUTPUT_ONLY in field.GetOptions().Extensions[field_behavior]:
            continue
        end = _is_value(field, ATOMS)
        yield at + field.name, end
        if not end:
            yield from _walk(field.message_type, f"{at}{field.name}.")
