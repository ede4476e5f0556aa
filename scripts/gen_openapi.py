"""The OpenAPI document of the HTTP door, from the contract and its comments."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from google.api import annotations_pb2, field_behavior_pb2
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    MethodDescriptorProto,
    ServiceDescriptorProto,
)
from protoc import ROOT, Files, contract, protoc

FOLDER = ROOT / "src" / "rota" / "api" / "http"
NAME = Path("openapi.json")

Schema = dict[str, Any]
Comments = dict[int, tuple[Any, str]]
"""By identity, which an element has for as long as it is held here."""

WHOLE_BODY = "*"
_F = FieldDescriptorProto
_MESSAGES, _ENUMS, _SERVICES, _FIELDS, _VALUES, _METHODS = 4, 5, 6, 2, 2, 2
"""Of the numbers of descriptor.proto, which source locations are made of."""

_SPAN = {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]{1,9})?s$", "examples": ["90s"]}
_KNOWN: dict[str, Schema] = {
    ".google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
    ".google.protobuf.Duration": _SPAN,
    ".google.protobuf.FieldMask": {"type": "string"},
    ".google.protobuf.Any": {
        "type": "object",
        "properties": {"@type": {"type": "string"}},
        "required": ["@type"],
        "additionalProperties": True,
    },
}
_WIDE = {"type": ["string", "integer"], "pattern": "^-?[0-9]{1,20}$"}
_SCALARS: dict[int, Schema] = {
    _F.TYPE_DOUBLE: {"type": "number", "format": "double"},
    _F.TYPE_FLOAT: {"type": "number", "format": "float"},
    _F.TYPE_INT32: {"type": "integer", "format": "int32", "minimum": -(2**31), "maximum": 2**31 - 1},
    _F.TYPE_UINT32: {"type": "integer", "format": "int64", "minimum": 0, "maximum": 2**32 - 1},
    _F.TYPE_INT64: {**_WIDE, "format": "int64", "minimum": -(2**63), "maximum": 2**63 - 1},
    _F.TYPE_UINT64: {**_WIDE, "format": "uint64", "minimum": 0, "maximum": 2**64 - 1},
    _F.TYPE_BOOL: {"type": "boolean"},
    _F.TYPE_STRING: {"type": "string"},
    _F.TYPE_BYTES: {"type": "string", "format": "byte", "contentEncoding": "base64"},
}

_ERRORS = {
    400: "A field, parameter or header is malformed, or the state of the resource forbids the call.",
    401: "No credential, or one that is unknown, revoked or expired.",
    403: "The credential lacks the role.",
    404: "No such resource in the caller's tenant, no such session, or no such path at this listener.",
    405: "Another method.",
    408: "The body did not come in time.",
    409: "The id or request_id is taken, the etag is not the current one, or the fence is stale.",
    412: "The etag of If-Match is not the current one.",
    413: "The body or a payload is over its limit.",
    414: "The path is too long.",
    415: "The body is no JSON, or packed by something else than gzip.",
    429: "Too fast, too much at a time, or a quota is used up.",
    431: "The head of the request is too long.",
    499: "The call was cancelled.",
    500: "A fault of Rota's own.",
    501: "The call is part of the contract and not of this release.",
    503: "This coordinator is leaving, or the database does not answer. Repeat it with the same Idempotency-Key.",
    504: "The call did not end in time; it may have been carried out.",
}
_ALWAYS = (400, 401, 403, 404, 405, 414, 429, 431, 500, 501, 503, 504)
_OF_BODIES = (408, 413, 415)
_RETRIED = (429, 503)

_ABOUT = """\
Rota's API over HTTP/1.1 and JSON: the same calls as by gRPC, with the same meaning.

Field names are camelCase; those of the contract are taken too. 64-bit integers are texts in answers; both are taken.
Bytes are base64. What the contract does not know is refused, with the path of the field. Each error has the body of the
schema `Error`; decide by the reason of its ErrorInfo.\
"""


def document(vendor: Path) -> Files:
    """The document, by its path under FOLDER."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "contract.bin"
        protoc(vendor, ["--include_imports", "--include_source_info", f"--descriptor_set_out={out}"], contract())
        files = FileDescriptorSet.FromString(out.read_bytes())
    found = _Document(files.file).made()
    return {NAME: (json.dumps(found, indent=1, ensure_ascii=False) + "\n").encode()}


class _Document:
    def __init__(self, files: Iterable[FileDescriptorProto]) -> None:
        self._files = [file for file in files if file.package.startswith("rota.") and file.package != "rota.peer.v1"]
        self._messages: dict[str, DescriptorProto] = {}
        self._enums: dict[str, EnumDescriptorProto] = {}
        self._comments: Comments = {}
        self._schemas: dict[str, Schema] = {}
        for file in files:
            _index(file, self._messages, self._enums, self._comments)

    def made(self) -> Schema:
        paths: dict[str, Schema] = {}
        tags = []
        for file in self._files:
            for service in file.service:
                tags.append({"name": service.name, "description": self._about(service)})
                for method in service.method:
                    for template, verb, operation in self._operations(service, method):
                        paths.setdefault(template, {})[verb] = operation
        return {
            "openapi": "3.1.0",
            "info": {
                "title": "Rota",
                "version": "v1",
                "description": _ABOUT,
                "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            },
            "servers": [{"url": "/"}],
            "security": [{"apiKey": []}],
            "tags": tags,
            "paths": dict(sorted(paths.items())),
            "components": {
                "securitySchemes": {
                    "apiKey": {"type": "http", "scheme": "bearer", "description": "A key of `rota key create`."}
                },
                "schemas": dict(sorted((self._schemas | {"Error": _ERROR}).items())),
                "parameters": _PARAMETERS,
                "responses": {str(code): _error(code, text) for code, text in _ERRORS.items()},
                "headers": _HEADERS,
            },
        }

    def _operations(
        self, service: ServiceDescriptorProto, method: MethodDescriptorProto
    ) -> Iterator[tuple[str, str, Schema]]:
        rule = method.options.Extensions[annotations_pb2.http]
        if not rule.WhichOneof("pattern"):
            return
        for number, each in enumerate((rule, *rule.additional_bindings)):
            verb = each.WhichOneof("pattern")
            assert verb is not None
            template, bound = _path(getattr(each, verb))
            suffix = "" if number == 0 else str(number + 1)
            yield template, verb, self._operation(service, method, each, verb, template, bound, suffix)

    def _operation(
        self,
        service: ServiceDescriptorProto,
        method: MethodDescriptorProto,
        rule: Any,
        verb: str,
        template: str,
        bound: set[str],
        suffix: str,
    ) -> Schema:
        request = self._messages[method.input_type]
        about = self._about(method)
        first = about.split(". ")[0].rstrip(".")
        parameters = [_path_parameter(name) for name in re.findall(r"\{([^}]+)\}", template)]
        parameters += self._query(request, bound, rule.body)
        headers = self._headers(method, request, rule.body)
        parameters += [{"$ref": f"#/components/parameters/{name}"} for name in headers]
        operation: Schema = {
            "operationId": method.name + suffix,
            "tags": [service.name],
            "summary": first if len(first) <= 120 else method.name,
            "description": about,
            "parameters": parameters,
        }
        codes = [*_ALWAYS]
        if rule.body:
            operation["requestBody"] = self._body(request, bound, rule.body, verb)
            codes += _OF_BODIES
        if verb != "get":
            codes += [409]
        if self._etag_at(request, rule.body):
            codes += [412]
        responses: Schema = {"200": self._answer(method, rule)}
        responses |= {str(code): {"$ref": f"#/components/responses/{code}"} for code in sorted(codes)}
        operation["responses"] = responses
        return operation

    def _body(self, request: DescriptorProto, bound: set[str], body: str, verb: str) -> Schema:
        if body == WHOLE_BODY:
            name = request.name
            self._schemas[name] = self._object(request, leave_out=bound)
            needed = bool(self._schemas[name].get("required"))
        else:
            field = next(field for field in request.field if field.name == body)
            resource = self._messages[field.type_name]
            # Of what is changed nothing is required.
            name = f"{resource.name}Patch" if verb == "patch" else self._named(resource)
            if verb == "patch":
                self._schemas[name] = self._object(resource)
                self._schemas[name].pop("required", None)
            needed = True
        return {"required": needed, "content": {"application/json": {"schema": _ref(name)}}}

    def _answer(self, method: MethodDescriptorProto, rule: Any) -> Schema:
        response = self._messages[method.output_type]
        about = self._about(response)
        if method.server_streaming:
            schema = {"type": "string", "description": f"Events whose data are {response.name} as JSON."}
            self._named(response)
            return {"description": about, "content": {"text/event-stream": {"schema": schema}}}
        if rule.response_body:
            field = next(field for field in response.field if field.name == rule.response_body)
            answered = self._messages[field.type_name]
        else:
            answered = response
        found: Schema = {
            "description": about,
            "content": {"application/json": {"schema": _ref(self._named(answered))}},
        }
        if any(field.name == "etag" for field in answered.field):
            found["headers"] = {"ETag": {"$ref": "#/components/headers/ETag"}}
        return found

    def _headers(self, method: MethodDescriptorProto, request: DescriptorProto, body: str) -> Iterator[str]:
        names = {field.name for field in request.field}
        if "request_id" in names:
            yield "IdempotencyKey"
        if self._etag_at(request, body):
            yield "IfMatch"
        yield "LastEventId" if method.server_streaming else "RequestTimeout"

    def _etag_at(self, request: DescriptorProto, body: str) -> bool:
        names = {field.name: field for field in request.field}
        if body in names:
            return any(field.name == "etag" for field in self._messages[names[body].type_name].field)
        return "etag" in names

    def _query(self, request: DescriptorProto, bound: set[str], body: str) -> Iterator[Schema]:
        if body == WHOLE_BODY:
            return
        for field in request.field:
            # In the header it is for all calls.
            if field.name not in (*bound, body, "request_id"):
                yield from self._parameters(field, field.json_name)

    def _parameters(self, field: FieldDescriptorProto, name: str) -> Iterator[Schema]:
        message = self._messages.get(field.type_name)
        about = self._about(field)
        if message is not None and message.options.map_entry:
            # Without brackets in its name a client would not know that entries are parameters of their own.
            entry = {"type": "object", "additionalProperties": {"type": "string"}}
            yield {
                "name": name,
                "in": "query",
                "style": "deepObject",
                "explode": True,
                "description": about,
                "schema": entry,
            }
        elif message is not None and field.type_name not in _KNOWN:
            for inner in message.field:
                if inner.type_name != field.type_name:
                    yield from self._parameters(inner, f"{name}.{inner.json_name}")
        else:
            schema = self._field(field, described=False)
            found: Schema = {"name": name, "in": "query", "description": about, "schema": schema}
            if _behaves(field, field_behavior_pb2.REQUIRED):
                found["required"] = True
            yield found

    def _named(self, message: DescriptorProto) -> str:
        """The name of a message's schema, which is made."""
        if message.name not in self._schemas:
            self._schemas[message.name] = {}
            self._schemas[message.name] = self._object(message)
        return message.name

    def _object(self, message: DescriptorProto, leave_out: Iterable[str] = ()) -> Schema:
        kept = [field for field in message.field if field.name not in leave_out]
        about = self._about(message)
        for index, oneof in enumerate(message.oneof_decl):
            inside = [f.json_name for f in kept if f.HasField("oneof_index") and f.oneof_index == index]
            if len(inside) > 1:
                about += f"\n\n{oneof.name}: at most one of {', '.join(inside)}."
        found: Schema = {
            "type": "object",
            "description": about,
            "properties": {field.json_name: self._field(field) for field in kept},
            "additionalProperties": False,
        }
        required = [field.json_name for field in kept if _behaves(field, field_behavior_pb2.REQUIRED)]
        if required:
            found["required"] = required
        return found

    def _field(self, field: FieldDescriptorProto, *, described: bool = True) -> Schema:
        message = self._messages.get(field.type_name)
        if message is not None and message.options.map_entry:
            value = next(inner for inner in message.field if inner.name == "value")
            schema: Schema = {"type": "object", "additionalProperties": self._value(value)}
        elif field.label == _F.LABEL_REPEATED:
            schema = {"type": "array", "items": self._value(field)}
        else:
            schema = dict(self._value(field))
        if described:
            schema["description"] = self._about(field)
            if _behaves(field, field_behavior_pb2.OUTPUT_ONLY):
                schema["readOnly"] = True
        return schema

    def _value(self, field: FieldDescriptorProto) -> Schema:
        if field.type == _F.TYPE_ENUM:
            return _ref(self._enum(self._enums[field.type_name]))
        if field.type_name in _KNOWN:
            return _KNOWN[field.type_name]
        if field.type == _F.TYPE_MESSAGE:
            return _ref(self._named(self._messages[field.type_name]))
        return _SCALARS[field.type]

    def _enum(self, enum: EnumDescriptorProto) -> str:
        lines = [f"- `{value.name}`: {self._about(value)}" for value in enum.value]
        self._schemas[enum.name] = {
            "type": "string",
            "enum": [value.name for value in enum.value],
            "description": "\n".join([self._about(enum), "", *lines]),
        }
        return enum.name

    def _about(self, element: Any) -> str:
        return self._comments[id(element)][1] if id(element) in self._comments else ""


_ERROR: Schema = {
    "type": "object",
    "description": "A google.rpc.Status as JSON.",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "status", "message", "details"],
            "properties": {
                "code": {"type": "integer", "description": "The status code of HTTP."},
                "status": {"type": "string", "description": "The name of google.rpc.Code."},
                "message": {"type": "string", "description": "For people; may change."},
                "details": {
                    "type": "array",
                    "description": "google.rpc.ErrorInfo, whose reason is for programs; BadRequest and others.",
                    "items": _KNOWN[".google.protobuf.Any"],
                },
            },
        }
    },
}

_HEADERS: Schema = {
    "ETag": {"description": "The version of the resource, for If-Match.", "schema": {"type": "string"}},
    "RetryAfter": {"description": "Seconds until a repetition makes sense.", "schema": {"type": "string"}},
    "Allow": {"description": "The methods that there are.", "schema": {"type": "string"}},
}

_PARAMETERS: Schema = {
    "IdempotencyKey": {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "The request_id: repeating a call with it within 7 days gives the first answer again.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[!-~]+$"},
    },
    "IfMatch": {
        "name": "If-Match",
        "in": "header",
        "description": "The etag of the only version that is to be changed, or *.",
        "schema": {"type": "string", "pattern": '^"[!#-~]+"$'},
    },
    "LastEventId": {
        "name": "Last-Event-ID",
        "in": "header",
        "description": "The id of the last event seen: the stream goes on from there.",
        "schema": {"type": "string", "pattern": "^[!-~]+$"},
    },
    "RequestTimeout": {
        "name": "Request-Timeout",
        "in": "header",
        "description": "The call is given up after this long; at most and by default 60s.",
        "schema": {"type": "string", "pattern": "^[1-9][0-9]{0,2}s$", "examples": ["5s"]},
    },
}


def _error(code: int, text: str) -> Schema:
    found: Schema = {"description": text, "content": {"application/json": {"schema": _ref("Error")}}}
    if code in _RETRIED:
        found["headers"] = {"Retry-After": {"$ref": "#/components/headers/RetryAfter"}}
    if code == 405:
        found["headers"] = {"Allow": {"$ref": "#/components/headers/Allow"}}
    return found


def _path(template: str) -> tuple[str, set[str]]:
    """The path as OpenAPI has it, and the fields of the request that it sets, by the first step of their path."""
    bound = set()

    def spelled(match: re.Match[str]) -> str:
        bound.add(match[1].split(".")[0])
        segments = (match[2] or "*").split("/")
        above = ["", *segments[:-1]]
        named = [f"{{{a.removesuffix('s')}}}" if s == "*" else s for a, s in zip(above, segments, strict=True)]
        return "/".join(named)

    return re.sub(r"\{([^}=]+)(?:=([^}]+))?\}", spelled, template), bound


def _path_parameter(name: str) -> Schema:
    # A dot alone is taken out of a path by clients.
    schema = {"type": "string", "minLength": 1, "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]*$"}
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _index(
    file: FileDescriptorProto,
    messages: dict[str, DescriptorProto],
    enums: dict[str, EnumDescriptorProto],
    comments: Comments,
) -> None:
    said = {tuple(at.path): " ".join(at.leading_comments.split()) for at in file.source_code_info.location}

    def note(element: Any, *path: int) -> None:
        comments[id(element)] = (element, said.get(path, ""))

    for i, message in enumerate(file.message_type):
        messages[f".{file.package}.{message.name}"] = message
        messages |= {f".{file.package}.{message.name}.{nested.name}": nested for nested in message.nested_type}
        note(message, _MESSAGES, i)
        for j, field in enumerate(message.field):
            note(field, _MESSAGES, i, _FIELDS, j)
    for i, enum in enumerate(file.enum_type):
        enums[f".{file.package}.{enum.name}"] = enum
        note(enum, _ENUMS, i)
        for j, value in enumerate(enum.value):
            note(value, _ENUMS, i, _VALUES, j)
    for i, service in enumerate(file.service):
        note(service, _SERVICES, i)
        for j, method in enumerate(service.method):
            note(method, _SERVICES, i, _METHODS, j)


def _behaves(field: FieldDescriptorProto, behavior: int) -> bool:
    return behavior in field.options.Extensions[field_behavior_pb2.field_behavior]


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}
