"""YAML as nodes that know their lines.

Values are read by the rules of YAML 1.2, where the older ones surprise: `no`, `on`, 12:30:00, 010 and 2026-03-08 are
texts. Texts that no number, boolean or null is expected in are kept as they are written. A key comes once; `<<` merges
another mapping in; tags of programs' own are refused.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from rota.domain.text import shown
from rota.manifest.problems import Problem, Problems, Refused

FILE_BYTES_MAX: Final = 4 * 1024 * 1024
DOCUMENTS_MAX: Final = 1_000
DEPTH_MAX: Final = 64
"""Levels of a value. More of them come from an alias that stands within its own anchor."""

VALUES_MAX: Final = 200_000
"""Values of a file's payloads, counted as often as aliases repeat them."""

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG: Final = "tag:yaml.org,2002:"
_MERGE: Final = _TAG + "merge"
_TAGS: Final = frozenset(
    _TAG + name for name in ("null", "bool", "int", "float", "str", "timestamp", "merge", "value", "map", "seq")
)
_INTEGER: Final = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_NUMBER: Final = re.compile(r"[-+]?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_BARE: Final = re.compile(r"(?:^|[:-])\s+([*@%`&!])")


def documents(text: str, source: str) -> list[Node]:
    """The documents of a text, those without content left out. Raises Refused."""
    if len(text) > FILE_BYTES_MAX:
        problem = Problem(0, "", f"expected at most {FILE_BYTES_MAX} characters, found {len(text)}; make several files")
        raise Refused(source, [problem])
    found: list[Node] = []
    try:
        for node in yaml.compose_all(text, Loader=_LOADER):
            if len(found) == DOCUMENTS_MAX:
                found_more = f"expected at most {DOCUMENTS_MAX} documents, found more; make several files"
                raise Refused(source, [Problem(line(node), "", found_more)])
            if node is not None and not (isinstance(node, ScalarNode) and is_null(node)):
                found.append(node)
    except yaml.YAMLError as error:
        raise Refused(source, [_explained(error, text)]) from None
    except RecursionError:
        raise Refused(source, [Problem(0, "", "expected YAML, found it nested too deeply; flatten it")]) from None
    return found


def line(node: Node) -> int:
    """Where a node begins, from 1."""
    return int(node.start_mark.line) + 1


def is_null(node: ScalarNode) -> bool:
    """Whether nothing stands there: an empty value, null or ~."""
    return bool(not node.style and node.value in ("", "~", "null", "Null", "NULL"))


def boolean(node: ScalarNode) -> bool | None:
    """What true and false say; None for all else."""
    if node.style:
        return None
    return {"true": True, "false": False}.get(node.value.lower())


def integer(node: ScalarNode) -> int | None:
    """A plain whole number; None for all else, 010 too, which readers of YAML disagree on."""
    if node.style or not _INTEGER.fullmatch(node.value) or len(node.value) > 20:
        return None
    return int(node.value)


def describe(node: Node) -> str:
    """A node for a message."""
    if isinstance(node, ScalarNode):
        return "nothing" if is_null(node) else shown(node.value)
    return "a mapping" if isinstance(node, MappingNode) else "a list"


def pairs(node: MappingNode, path: str, problems: Problems) -> Iterator[tuple[str, Node, Node]]:
    """Each key of a mapping with its text, its node and its value; those merged in come last, if not given again."""
    given: dict[str, int] = {}
    merged: list[Node] = []
    for key, value in node.value:
        if _merges(key):
            merged.append(value)
        elif not isinstance(key, ScalarNode):
            problems.add(line(key), path, f"expected a text as key, found {describe(key)}; correct it")
        elif key.value in given:
            at = f"{path}.{key.value}" if path else key.value
            problems.add(line(key), at, f"expected each key once, found it in line {given[key.value]} too; remove one")
        else:
            given[key.value] = line(key)
            yield key.value, key, value
    # What is merged twice, by itself too, has nothing more to give the second time.
    seen = {id(node)}
    while merged:
        other = merged.pop(0)
        if id(other) in seen:
            continue
        seen.add(id(other))
        if isinstance(other, SequenceNode):
            merged = [*other.value, *merged]
            continue
        if not isinstance(other, MappingNode):
            problems.add(line(other), path, f"expected mappings after <<, found {describe(other)}; correct the alias")
            continue
        for key, value in other.value:
            if _merges(key):
                merged.append(value)
            elif isinstance(key, ScalarNode) and key.value not in given:
                given[key.value] = line(key)
                yield key.value, key, value


def _merges(key: Node) -> bool:
    return isinstance(key, ScalarNode) and key.tag == _MERGE and not key.style


def plain(node: Node, path: str, problems: Problems) -> Any:
    """A value as JSON has it: texts, numbers, true, false, null, lists and objects."""
    return _Plain(path, problems).read(node, path, 0)


def refuse_tag(node: Node, path: str, problems: Problems) -> bool:
    """Refuses a tag of a program's own, such as !Ref; whether there is one."""
    if node.tag in _TAGS or node.tag is None:
        return False
    problems.add(line(node), path, f"expected a value without a tag, found {shown(node.tag)}; leave the tag out")
    return True


class _Plain:
    def __init__(self, path: str, problems: Problems) -> None:
        self._path = path
        self._problems = problems
        self._over = False

    def read(self, node: Node, path: str, depth: int) -> Any:
        if self._over:
            return None
        self._problems.values += 1
        if self._problems.values > VALUES_MAX or depth > DEPTH_MAX:
            self._over = True
            most = f"at most {VALUES_MAX} values in {DEPTH_MAX} levels"
            self._problems.add(line(node), self._path, f"expected {most}, found more; are there aliases in a ring?")
            return None
        if refuse_tag(node, path, self._problems):
            return None
        if isinstance(node, MappingNode):
            found = pairs(node, path, self._problems)
            return {text: self.read(value, f"{path}.{text}" if path else text, depth + 1) for text, _, value in found}
        if isinstance(node, SequenceNode):
            return [self.read(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(node.value)]
        assert isinstance(node, ScalarNode)
        return scalar(node)


def scalar(node: ScalarNode) -> Any:
    """A text, a number, true, false or None."""
    if node.style:
        return node.value
    if is_null(node):
        return None
    if (flag := boolean(node)) is not None:
        return flag
    # What only the older rules take for a number stays a text.
    if node.tag == _TAG + "int" and (number := integer(node)) is not None:
        return number
    if node.tag == _TAG + "float" and _NUMBER.fullmatch(node.value):
        return float(node.value)
    return node.value


def _explained(error: yaml.YAMLError, text: str) -> Problem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    number = mark.line + 1 if mark is not None else 0
    lines = text.split("\n")
    content = lines[number - 1] if 0 < number <= len(lines) else ""
    what = " ".join(str(getattr(error, "problem", None) or getattr(error, "reason", None) or error).split())
    bare = _BARE.search(content)
    if "\t" in content[: len(content) - len(content.lstrip())]:
        return Problem(number, "", "expected YAML, found a tab before the text; indent with blanks")
    if bare and bare[1] in "*@%`&!":
        value = content[bare.start(1) :].strip()
        return Problem(
            number,
            "",
            f"expected YAML, found a value that begins with {bare[1]}; quote it: {value.partition(' #')[0]!r}",
        )
    if "{{" in text:
        return Problem(number, "", "expected YAML, found a template ({{ … }}); render it first")
    begun = getattr(error, "context_mark", None)
    where = f", in what begins in line {begun.line + 1}" if begun is not None and begun.line + 1 < number else ""
    return Problem(number, "", f"expected YAML, found otherwise ({what}{where}); correct the line or the one above")
