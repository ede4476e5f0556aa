"""Items by id: of a manifest its schedules and its calendars."""

import re
from dataclasses import dataclass
from typing import Any

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from rota.manifest import nodes
from rota.manifest.nodes import line
from rota.manifest.problems import Problems
from rota.manifest.shapes import Schema, Shape, refuse


@dataclass(frozen=True, slots=True)
class Entry:
    """One item of `ById`, with where it stands."""

    id: str
    path: str
    line: int
    value: Any


@dataclass(frozen=True, slots=True)
class ById:
    """Items by id: a mapping id → item, or a list of items with their `id`."""

    item: Shape
    noun: str
    most: int
    pattern: str
    definition: str
    """The item's name among the definitions of the schema."""

    def read(self, node: Node, path: str, problems: Problems) -> list[Entry] | None:
        given: list[tuple[str, int, str, Node]] = []
        if nodes.refuse_tag(node, path, problems):
            return None
        if isinstance(node, MappingNode):
            for name, key, value in nodes.pairs(node, path, problems):
                given.append((name, line(key), f"{path}.{name}", value))
        elif isinstance(node, SequenceNode):
            for index, item in enumerate(node.value):
                name = _id_of(item, f"{path}[{index}]", problems)
                given.append((name, line(item), f"{path}.{name}" if name else f"{path}[{index}]", item))
        else:
            refuse(node, path, problems, f"a mapping of ids to {self.noun}s", f"write {{}} for no {self.noun}")
            return None
        if len(given) > self.most:
            expected = f"at most {self.most} {self.noun}s, found {len(given)}"
            problems.add(line(node), path, f"expected {expected}; make several files")
            return None
        return self._entries(given, isinstance(node, MappingNode), problems)

    def _entries(self, given: list[tuple[str, int, str, Node]], by_key: bool, problems: Problems) -> list[Entry]:
        found: dict[str, Entry] = {}
        for name, number, path, node in given:
            problems.lines.setdefault(path, number)
            if name and not re.fullmatch(self.pattern, name):
                expected = "1 to 128 letters, digits or ._- as id, a letter or digit first"
                problems.add(number, path, f"expected {expected}, found {name[:80]!r}; rename it")
            if name in found:
                problems.add(
                    number,
                    path,
                    f"expected each id once, found it in line {found[name].line} too; rename or remove one",
                )
            value = self.item.read(node, path, problems)
            if value is None:
                continue
            inner = value.get("id", name) if isinstance(value, dict) else name
            if by_key and inner != name:
                problems.add(number, f"{path}.id", f"expected {name!r} as its key says, found {inner!r}; leave id out")
            if name and name not in found:
                found[name] = Entry(name, path, number, value)
        return list(found.values())

    def schema(self) -> Schema:
        item = {"$ref": f"#/$defs/{self.definition}"}
        return {
            "anyOf": [
                {
                    "type": "object",
                    "maxProperties": self.most,
                    "propertyNames": {"pattern": f"^(?:{self.pattern})$"},
                    "additionalProperties": item,
                },
                {
                    "type": "array",
                    "maxItems": self.most,
                    "items": {"allOf": [item, {"type": "object", "required": ["id"]}]},
                },
            ]
        }


def _id_of(node: Node, path: str, problems: Problems) -> str:
    if isinstance(node, MappingNode):
        for name, _, value in nodes.pairs(node, path, Problems("")):
            if name == "id" and isinstance(value, ScalarNode):
                return str(value.value)
    problems.add(line(node), f"{path}.id", "expected the key id, found none; add it")
    return ""
