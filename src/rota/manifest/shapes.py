"""What may stand at a place of a manifest: each shape reads a node and says the same as JSON Schema.

`read` gives the value, or None after it has told `problems` what is wrong; so a file is read to its end whatever is
wrong with its beginning.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from rota.domain.duration import parse_duration
from rota.domain.errors import InvalidArgument
from rota.domain.interval import iso_duration_s
from rota.domain.text import Problems as Texts
from rota.domain.wording import suggestion
from rota.manifest import nodes
from rota.manifest.nodes import describe, line
from rota.manifest.problems import Problems

Schema = dict[str, Any]
_ISO_OR_SPAN: Final = r"^(([0-9]+(\.[0-9]+)?(ms|[smhd]))+|P[0-9WDTHMS]+|[0-9]+(\.[0-9]+)?)$"


class Shape(Protocol):
    """One kind of value."""

    def read(self, node: Node, path: str, problems: Problems) -> Any: ...

    def schema(self) -> Schema: ...


def refuse(node: Node, path: str, problems: Problems, expected: str, remedy: str) -> None:
    problems.add(line(node), path, f"expected {expected}, found {describe(node)}; {remedy}")


@dataclass(frozen=True, slots=True)
class Text:
    """A text as it is written. `pattern` must match all of it; `what` says it in words."""

    bytes_max: int
    what: str = "a text"
    pattern: str = ""
    scalars: bool = False
    """Numbers and booleans are at home here too, as texts: labels, environments."""
    empty: bool = False

    def read(self, node: Node, path: str, problems: Problems) -> str | None:
        if nodes.refuse_tag(node, path, problems):
            return None
        if not isinstance(node, ScalarNode) or nodes.is_null(node):
            refuse(node, path, problems, self.what, "write it behind the colon, in quotes if in doubt")
            return None
        text = str(node.value)
        if not text and not self.empty:
            refuse(node, path, problems, self.what, "write it, or leave the key out")
            return None
        if self.pattern and not re.fullmatch(self.pattern, text):
            refuse(node, path, problems, self.what, "correct it")
            return None
        checked = Texts()
        checked.text("text", text, self.bytes_max)
        try:
            checked.raise_any()
        except InvalidArgument as error:
            problems.take(line(node), path, error)
            return None
        return text

    def schema(self) -> Schema:
        found: Schema = {"type": ["string", "number", "boolean"] if self.scalars else "string"}
        if self.pattern:
            found["pattern"] = f"^(?:{self.pattern})$"
        elif not self.empty:
            found["minLength"] = 1
        # JSON Schema counts characters; no text of more characters has fewer bytes.
        return found | {"maxLength": self.bytes_max}


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several words, and what each stands for."""

    words: Mapping[str, Any]

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        if isinstance(node, ScalarNode) and node.value in self.words:
            return self.words[node.value]
        near = suggestion(node.value, sorted(self.words)) if isinstance(node, ScalarNode) else ""
        remedy = near if near.startswith("did") else "write one of them"
        refuse(node, path, problems, f"one of {', '.join(self.words)}", remedy)
        return None

    def schema(self) -> Schema:
        return {"enum": list(self.words)}


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number, both ends included."""

    low: int
    high: int

    def read(self, node: Node, path: str, problems: Problems) -> int | None:
        found = nodes.integer(node) if isinstance(node, ScalarNode) else None
        if found is None or not self.low <= found <= self.high:
            quoted = isinstance(node, ScalarNode) and node.style and node.value.isdigit()
            remedy = "write it without quotes" if quoted else "correct it"
            refuse(node, path, problems, f"a whole number from {self.low} to {self.high}", remedy)
            return None
        return found

    def schema(self) -> Schema:
        return {"type": "integer", "minimum": self.low, "maximum": self.high}


@dataclass(frozen=True, slots=True)
class Number:
    """A number, both ends included."""

    low: float
    high: float

    def read(self, node: Node, path: str, problems: Problems) -> float | None:
        found = nodes.scalar(node) if isinstance(node, ScalarNode) else None
        if isinstance(found, bool) or not isinstance(found, int | float) or not self.low <= found <= self.high:
            refuse(node, path, problems, f"a number from {self.low:g} to {self.high:g}", "correct it")
            return None
        return float(found)

    def schema(self) -> Schema:
        return {"type": "number", "minimum": self.low, "maximum": self.high}


@dataclass(frozen=True, slots=True)
class Flag:
    """true or false; yes, no, on and off, on which readers of YAML disagree, are refused."""

    def read(self, node: Node, path: str, problems: Problems) -> bool | None:
        found = nodes.boolean(node) if isinstance(node, ScalarNode) else None
        if found is None:
            refuse(node, path, problems, "true or false", "write one of them, without quotes")
            return None
        return found

    def schema(self) -> Schema:
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Span:
    """A span in seconds: 90s, 5m, 1h30m, PT4H, or a number of seconds; both ends included."""

    low_s: float
    high_s: float

    def read(self, node: Node, path: str, problems: Problems) -> float | None:
        if not isinstance(node, ScalarNode) or nodes.is_null(node):
            refuse(node, path, problems, "a duration such as 90s, 5m or PT4H", "write one")
            return None
        text = str(node.value)
        try:
            found = float(iso_duration_s(text, "") if text[:1] == "P" else parse_duration(text))
        except InvalidArgument as error:
            problems.take(line(node), path, error)
            return None
        except ValueError:
            remedy = "write a number and ms, s, m, h or d, without blanks"
            refuse(node, path, problems, "a duration such as 90s, 5m or PT4H", remedy)
            return None
        if not self.low_s <= found <= self.high_s:
            expected = f"a duration from {_span(self.low_s)} to {_span(self.high_s)}"
            refuse(node, path, problems, expected, "choose one within it")
            return None
        return found

    def schema(self) -> Schema:
        return {"type": ["string", "number"], "pattern": _ISO_OR_SPAN, "minimum": self.low_s, "maximum": self.high_s}


@dataclass(frozen=True, slots=True)
class TextMap:
    """Small texts by name."""

    count_max: int
    bytes_max: int
    names: str = ""
    """Pattern of the names; empty: any."""

    def read(self, node: Node, path: str, problems: Problems) -> dict[str, str] | None:
        if not isinstance(node, MappingNode):
            refuse(node, path, problems, "a mapping of names to texts", "write name: text")
            return None
        found: dict[str, str] = {}
        for name, key, value in nodes.pairs(node, path, problems):
            if self.names and not re.fullmatch(self.names, name):
                problems.add(line(key), f"{path}.{name}", f"expected a name of the form {self.names}; correct it")
            text = Text(self.bytes_max, scalars=True, empty=True).read(value, f"{path}.{name}", problems)
            if text is not None:
                found[name] = text
        checked = Texts()
        checked.text_map("texts", found, self.count_max, self.bytes_max)
        try:
            checked.raise_any()
        except InvalidArgument as error:
            problems.take(line(node), path, error)
        return found

    def schema(self) -> Schema:
        names = {"propertyNames": {"pattern": f"^(?:{self.names})$"}} if self.names else {}
        return {
            "type": "object",
            "maxProperties": self.count_max,
            "additionalProperties": Text(self.bytes_max, scalars=True, empty=True).schema(),
        } | names


@dataclass(frozen=True, slots=True)
class ListOf:
    """Values of one shape in order."""

    item: Shape
    most: int
    least: int = 0

    def read(self, node: Node, path: str, problems: Problems) -> list[Any] | None:
        if not isinstance(node, SequenceNode):
            refuse(node, path, problems, "a list", "write - before each item, or [a, b]")
            return None
        if not self.least <= len(node.value) <= self.most:
            counts = f"{self.least} to {self.most}" if self.least else f"at most {self.most}"
            problems.add(line(node), path, f"expected {counts} items, found {len(node.value)}; correct the list")
            return None
        read = [self.item.read(item, f"{path}[{index}]", problems) for index, item in enumerate(node.value)]
        return [item for item in read if item is not None]

    def schema(self) -> Schema:
        least = {"minItems": self.least} if self.least else {}
        return {"type": "array", "items": self.item.schema(), "maxItems": self.most} | least


@dataclass(frozen=True, slots=True)
class Scalar:
    """A text that may look like a number, as 200 beside 200-299; `number` says which numbers those are."""

    text: Text
    number: Integer

    def read(self, node: Node, path: str, problems: Problems) -> str | None:
        return self.text.read(node, path, problems)

    def schema(self) -> Schema:
        return {"anyOf": [self.text.schema(), self.number.schema()]}


@dataclass(frozen=True, slots=True)
class Json:
    """Any value, as JSON has it."""

    def read(self, node: Node, path: str, problems: Problems) -> "Held":
        return Held(nodes.plain(node, path, problems))

    def schema(self) -> Schema:
        return {}


@dataclass(frozen=True, slots=True)
class Held:
    """A JSON value, which may be None."""

    value: Any


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a mapping."""

    shape: Shape
    help: str = ""

    def schema(self) -> Schema:
        found = self.shape.schema()
        return found | {"description": self.help} if self.help else found


@dataclass(frozen=True, slots=True)
class Keys:
    """A mapping with known keys. An unknown one is refused, and the nearest named."""

    keys: Mapping[str, Key]
    required: Sequence[str] = ()
    extensions: bool = False
    """Keys that begin with x- are left alone: a home for anchors."""
    more: Schema = field(default_factory=dict)
    """What JSON Schema is told beside."""

    def read(self, node: Node, path: str, problems: Problems) -> dict[str, Any] | None:
        if nodes.refuse_tag(node, path, problems):
            return None
        if not isinstance(node, MappingNode):
            refuse(node, path, problems, f"a mapping with {_some(self.keys)}", "write key: value lines below it")
            return None
        found: dict[str, Any] = {}
        seen: set[str] = set()
        for name, key, value in nodes.pairs(node, path, problems):
            at = f"{path}.{name}" if path else name
            if self.extensions and name.startswith("x-"):
                continue
            known = self.keys.get(name)
            if known is None:
                near = suggestion(name, sorted(self.keys))
                problems.add(line(key), at, f"expected a known key, found {name[:60]!r}; {near}")
                continue
            seen.add(name)
            problems.lines[at] = line(key)
            read = known.shape.read(value, at, problems)
            if read is not None:
                found[name] = read
        for name in self.required:
            if name not in seen:
                at = f"{path}.{name}" if path else name
                problems.add(line(node), at, f"expected the key {name}, found none; add it")
        return found

    def schema(self) -> Schema:
        found: Schema = {
            "type": "object",
            "properties": {name: key.schema() for name, key in self.keys.items()},
            "additionalProperties": False,
        }
        if self.required:
            found["required"] = list(self.required)
        if self.extensions:
            found["patternProperties"] = {"^x-": {}}
        return found | self.more


@dataclass(frozen=True, slots=True)
class OneOf:
    """A short form and a long one, told apart by what the node is."""

    scalar: Shape | None = None
    mapping: Shape | None = None
    sequence: Shape | None = None

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        kinds = {ScalarNode: self.scalar, MappingNode: self.mapping, SequenceNode: self.sequence}
        shape = next((shape for kind, shape in kinds.items() if isinstance(node, kind) and shape is not None), None)
        if shape is None:
            shape = self.scalar or self.mapping or self.sequence
            assert shape is not None
        return shape.read(node, path, problems)

    def schema(self) -> Schema:
        return {"anyOf": [shape.schema() for shape in (self.scalar, self.mapping, self.sequence) if shape is not None]}


def _some(keys: Mapping[str, Key]) -> str:
    names = list(keys)
    return ", ".join(names[:5]) + (" …" if len(names) > 5 else "")


def _span(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"
