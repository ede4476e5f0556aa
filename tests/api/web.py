"""Calls by HTTP, as a client that knows nothing but HTTP makes them."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from .running import CALL_S, Tenant


@dataclass(frozen=True)
class Answer:
    """An answer with its JSON."""

    code: int
    json: Any
    headers: httpx.Headers

    @property
    def case(self) -> tuple[int, str, str]:
        """Code, status and reason of a refusal."""
        error = self.json["error"]
        assert error["code"] == self.code
        return self.code, error["status"], self.reason

    @property
    def reason(self) -> str:
        return str(self.detail("ErrorInfo").get("reason", ""))

    @property
    def message(self) -> str:
        return str(self.json["error"]["message"])

    @property
    def fields(self) -> list[str]:
        return [each["field"] for each in self.detail("BadRequest").get("fieldViolations", [])]

    def detail(self, kind: str) -> dict[str, Any]:
        """A detail of a refusal by its type; {}: there is none."""
        found = [each for each in self.json["error"]["details"] if each["@type"].endswith(f"google.rpc.{kind}")]
        return found[0] if found else {}


class Web:
    """One credential at one coordinator's HTTP door."""

    def __init__(self, client: httpx.AsyncClient, key: str | None) -> None:
        self.client = client
        self.headers = {} if key is None else {"Authorization": f"Bearer {key}"}

    async def __call__(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, **more: Any
    ) -> Answer:
        """A body that is no bytes is sent as JSON."""
        given = self.headers | (headers or {})
        if body is not None:
            given = {"Content-Type": "application/json"} | given
            more["content"] = body if isinstance(body, bytes) else json.dumps(body)
        found = await self.client.request(method, path, headers=given, **more)
        is_json = found.headers.get("content-type") == "application/json" and found.content
        return Answer(found.status_code, found.json() if is_json else found.content, found.headers)

    async def get(self, path: str, **more: Any) -> Answer:
        return await self("GET", path, **more)

    async def post(self, path: str, body: Any = None, **more: Any) -> Answer:
        return await self("POST", path, body, **more)

    async def patch(self, path: str, body: Any = None, **more: Any) -> Answer:
        return await self("PATCH", path, body, **more)


@asynccontextmanager
async def web(tenant: Tenant, key: str | None = None, **options: Any) -> AsyncIterator[Web]:
    """The door of the tenant's coordinator with the tenant's key, or another."""
    async with httpx.AsyncClient(
        base_url=tenant.coordinator.http, timeout=CALL_S, trust_env=False, **options
    ) as client:
        yield Web(client, key or tenant.key)
