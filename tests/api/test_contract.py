"""The contract keeps its own rules: those on paths, comments, names and stubs, which buf does not know."""

import importlib
import itertools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from google.api import annotations_pb2, field_behavior_pb2, http_pb2
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    MethodDescriptorProto,
)

ROOT = Path(__file__).resolve().parents[2]
PROTO = ROOT / "proto"
PROTOS = sorted(path.relative_to(PROTO).as_posix() for path in (PROTO / "rota").rglob("*.proto"))

# The HTTP paths of each package; a mesh routes and forbids by them.
PREFIXES = {"rota.v1": "/v1/", "rota.worker.v1": "/internal/", "rota.admin.v1": "/admin/v1/"}

# Field numbers of descriptor.proto, of which the path of a comment is made.
MESSAGES, ENUMS, SERVICES = 4, 5, 6
FIELDS, ONEOFS = 2, 8
VALUES, METHODS = 2, 2


class Method(NamedTuple):
    package: str
    name: str
    proto: MethodDescriptorProto
    request: DescriptorProto
    response: DescriptorProto


class Contract(NamedTuple):
    files: list[FileDescriptorProto]
    messages: dict[str, DescriptorProto]
    enums: dict[str, EnumDescriptorProto]
    methods: list[Method]


@pytest.fixture(scope="module")
def contract(tmp_path_factory: pytest.TempPathFactory) -> Contract:
    path = tmp_path_factory.mktemp("contract") / "set.binpb"
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTO}", f"-I{PROTO / 'vendor'}"]
    command += [f"--descriptor_set_out={path}", "--include_source_info"]
    subprocess.run([*command, *PROTOS], check=True)
    files = list(FileDescriptorSet.FromString(path.read_bytes()).file)
    messages = {f".{file.package}.{m.name}": m for file in files for m in file.message_type}
    enums = {f"{file.package}.{e.name}": e for file in files for e in file.enum_type}
    methods = [
        Method(
            file.package,
            f"{file.package}.{service.name}/{method.name}",
            method,
            messages[method.input_type],
            messages[method.output_type],
        )
        for file in files
        for service in file.service
        for method in service.method
    ]
    # The tests look at the top level only, so nothing may hide below it.
    assert all(nested.options.map_entry for m in messages.values() for nested in m.nested_type)
    assert not any(m.enum_type for m in messages.values())
    return Contract(files, messages, enums, methods)


def _rule(method: Method) -> http_pb2.HttpRule:
    return method.proto.options.Extensions[annotations_pb2.http]


def _bindings(method: Method) -> list[http_pb2.HttpRule]:
    rule = _rule(method)
    return [rule, *rule.additional_bindings] if rule.WhichOneof("pattern") else []


def _template(rule: http_pb2.HttpRule) -> tuple[str, str]:
    verb = rule.WhichOneof("pattern")
    assert verb is not None and verb != "custom"
    return verb, getattr(rule, verb)


def _resolve(contract: Contract, message: DescriptorProto, path: str) -> FieldDescriptorProto | None:
    """The field that a dotted path leads to."""
    field = None
    for name in path.split("."):
        field = next((f for f in message.field if f.name == name), None)
        if field is None:
            return None
        message = contract.messages.get(field.type_name, DescriptorProto())
    return field


class Template(NamedTuple):
    """A path template: its segments, `*` for any, and the verb after the colon."""

    segments: tuple[str, ...]
    verb: str

    @classmethod
    def of(cls, template: str) -> "Template":
        flat = re.sub(r"\{[^}=]+=([^}]+)\}", r"\1", re.sub(r"\{[^}=]+\}", "*", template))
        assert "**" not in flat and flat.startswith("/")
        path, _, verb = flat.partition(":")
        return cls(tuple(path[1:].split("/")), verb)

    def meets(self, other: "Template") -> bool:
        """Whether one request path can match both. Ids hold no colon, so verbs keep templates apart."""
        return (
            self.verb == other.verb
            and len(self.segments) == len(other.segments)
            and all(a == b or "*" in (a, b) for a, b in zip(self.segments, other.segments, strict=True))
        )


def _elements(file: FileDescriptorProto) -> Iterator[tuple[tuple[int, ...], str]]:
    """The path and name of all that needs a comment."""
    for i, message in enumerate(file.message_type):
        yield (MESSAGES, i), message.name
        real_oneofs = {f.oneof_index for f in message.field if f.HasField("oneof_index") and not f.proto3_optional}
        yield from (((MESSAGES, i, FIELDS, j), f"{message.name}.{f.name}") for j, f in enumerate(message.field))
        yield from (
            ((MESSAGES, i, ONEOFS, j), f"{message.name}.{oneof.name}")
            for j, oneof in enumerate(message.oneof_decl)
            if j in real_oneofs
        )
    for i, enum in enumerate(file.enum_type):
        yield (ENUMS, i), enum.name
        yield from (((ENUMS, i, VALUES, j), value.name) for j, value in enumerate(enum.value))
    for i, service in enumerate(file.service):
        yield (SERVICES, i), service.name
        yield from (((SERVICES, i, METHODS, j), m.name) for j, m in enumerate(service.method))


def test_everything_has_a_comment(contract: Contract) -> None:
    bare = [
        f"{file.name}: {name}"
        for file in contract.files
        for comments in [{tuple(at.path): at.leading_comments for at in file.source_code_info.location}]
        for path, name in _elements(file)
        if not comments[path].strip()
    ]
    assert bare == []


def test_every_call_from_outside_has_an_http_rule(contract: Contract) -> None:
    """Coordinators speak gRPC to each other, and HTTP/JSON has no stream from the client."""
    expected = {m.name for m in contract.methods if m.package in PREFIXES and not m.proto.client_streaming}
    assert {m.name for m in contract.methods if _bindings(m)} == expected
    assert {m.name for m in contract.methods} - expected == {
        "rota.worker.v1.WorkerService/Heartbeat",
        "rota.peer.v1.PeerService/Link",
        "rota.peer.v1.PeerService/Claim",
        "rota.peer.v1.PeerService/HandOverShards",
    }


def test_http_paths_stay_in_their_package(contract: Contract) -> None:
    outside = [
        f"{method.name}: {path}"
        for method in contract.methods
        for _, path in map(_template, _bindings(method))
        if not path.startswith(PREFIXES[method.package])
    ]
    assert outside == []


def test_http_rules_name_fields_that_exist(contract: Contract) -> None:
    wrong = []
    for method in contract.methods:
        for rule in _bindings(method):
            verb, path = _template(rule)
            inputs = re.findall(r"\{([^}=]+)[^}]*\}", path) + [rule.body] * (rule.body not in ("", "*"))
            wrong += [f"{method.name}: {f}" for f in inputs if _resolve(contract, method.request, f) is None]
            if rule.response_body and _resolve(contract, method.response, rule.response_body) is None:
                wrong.append(f"{method.name}: {rule.response_body}")
            if (verb in ("post", "patch")) != bool(rule.body):
                wrong.append(f"{method.name}: {verb} with body {rule.body!r}")
    assert wrong == []


def test_path_templates_meet_only_where_one_path_matches_both() -> None:
    def meet(a: str, b: str) -> bool:
        return Template.of(a).meets(Template.of(b))

    assert meet("/v1/{name=jobs/*}", "/v1/jobs/{id}")
    assert meet("/v1/{name=jobs/*}", "/v1/jobs/first")
    assert not meet("/v1/{name=jobs/*}:cancel", "/v1/{name=jobs/*}")
    assert not meet("/v1/{name=jobs/*}:cancel", "/v1/{name=jobs/*}:retry")
    assert not meet("/v1/{name=jobs/*}", "/v1/{parent=jobs/*}/attempts")
    assert not meet("/v1/{name=jobs/*}", "/v1/{name=schedules/*}")


def test_no_two_http_rules_collide(contract: Contract) -> None:
    rules = [
        (method.name, verb, Template.of(path))
        for method in contract.methods
        for verb, path in map(_template, _bindings(method))
    ]
    collisions = [
        (a, b) for (a, verb, p), (b, other, q) in itertools.combinations(rules, 2) if verb == other and p.meets(q)
    ]
    assert collisions == []


def test_enums_begin_with_unspecified(contract: Contract) -> None:
    """So that a value that is unset, or unknown to an old reader, is never taken for a real one."""
    wrong = []
    for name, enum in contract.enums.items():
        prefix = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", enum.name).upper()
        first = enum.value[0]
        if (first.number, first.name) != (0, f"{prefix}_UNSPECIFIED"):
            wrong.append(f"{name}: {first.name} = {first.number}")
    assert contract.enums and wrong == []


def test_lists_are_paged(contract: Contract) -> None:
    lists = [m for m in contract.methods if m.proto.name.startswith("List")]
    unpaged = [
        m.name
        for m in lists
        if not {"page_size", "page_token"} <= {f.name for f in m.request.field}
        or "next_page_token" not in {f.name for f in m.response.field}
    ]
    assert len(lists) > 10 and unpaged == []


def test_updates_take_a_mask_and_an_etag(contract: Contract) -> None:
    updates = [m for m in contract.methods if m.proto.name.startswith("Update")]
    wrong = [
        m.name
        for m in updates
        if _resolve(contract, m.request, "update_mask") is None
        or _resolve(contract, m.request, f"{_rule(m).body}.etag") is None
    ]
    assert len(updates) == 4 and wrong == []


def test_names_tell_the_type(contract: Contract) -> None:
    """Instants end in _time, and nothing else that is a message does."""
    wrong = [
        f"{name}.{field.name}"
        for name, message in contract.messages.items()
        for field in message.field
        if field.type_name and (field.type_name == ".google.protobuf.Timestamp") != field.name.endswith("_time")
    ]
    assert wrong == []


def test_resources_identify_themselves(contract: Contract) -> None:
    """What a Get by name answers with has its own name as field 1, marked IDENTIFIER."""
    wrong = []
    for method in contract.methods:
        if not method.proto.name.startswith("Get") or not method.request.field:
            continue
        resource = contract.messages[method.response.field[0].type_name]
        first = resource.field[0]
        behaviour = first.options.Extensions[field_behavior_pb2.field_behavior]
        named = _resolve(contract, method.request, "name") is not None
        if named and (first.name != "name" or field_behavior_pb2.IDENTIFIER not in behaviour):
            wrong.append(f"{method.name}: {resource.name}.{first.name}")
    assert wrong == []


@pytest.mark.parametrize("proto", PROTOS)
def test_stubs_load(contract: Contract, proto: str) -> None:
    """Under the SDK's package, beside a server whose own package is `rota`."""
    file = next(file for file in contract.files if file.name == proto)
    module = "rota_sdk.gen." + proto.removesuffix(".proto").replace("/", ".")
    messages = importlib.import_module(f"{module}_pb2")
    assert messages.DESCRIPTOR.name == proto
    for service in file.service:
        assert hasattr(importlib.import_module(f"{module}_pb2_grpc"), f"{service.name}Stub")
