"""Tenants of AdminService: decode, call, encode. Whoever steers them is an operator of the installation."""

from collections.abc import Sequence
from typing import Final

from rota_sdk.gen.rota.admin.v1 import admin_pb2 as pb

from rota.api import codec, masks, pages
from rota.api.rpc import Context, unary
from rota.coordinator.node import Node
from rota.domain import limits
from rota.domain.errors import InvalidArgument
from rota.domain.model import Identity, Role, Tenant
from rota.domain.tenant import TenantSettings
from rota.domain.text import QUEUE, QUEUE_WORDS, Problems
from rota.service.identity import require_installation

SERVED: Final = frozenset({"name", "etag", "weight", "quota", "history_retention"})
QUOTA_SERVED: Final = frozenset({"max_in_flight"})


class TenantRpcs:
    """A part of the servicer."""

    _node: Node

    @unary(Role.OPERATOR)
    async def ListTenants(
        self, request: pb.ListTenantsRequest, identity: Identity, context: Context
    ) -> pb.ListTenantsResponse:
        require_installation(identity)
        codec.check_enum(pb.TenantState.values(), "state", request.state)
        size = pages.page_size(request.page_size)
        query = pages.query(request)
        after = pages.unseal_text(request.page_token, identity.tenant_id, query, QUEUE)
        if request.state == pb.TENANT_STATE_SUSPENDED:
            # None can be suspended yet.
            return pb.ListTenantsResponse()
        found = await self._node.tenants.page(after, size + 1)
        response = pb.ListTenantsResponse(tenants=[tenant_message(tenant) for tenant in found[:size]])
        if len(found) > size:
            response.next_page_token = pages.seal(found[size - 1].name, identity.tenant_id, query)
        return response

    @unary(Role.OPERATOR)
    async def GetTenant(
        self, request: pb.GetTenantRequest, identity: Identity, context: Context
    ) -> pb.GetTenantResponse:
        if request.name.removeprefix("tenants/") != identity.tenant:
            require_installation(identity)
        found = await self._node.tenants.get(_id("name", request.name))
        return pb.GetTenantResponse(tenant=tenant_message(found))

    @unary(Role.OPERATOR)
    async def UpdateTenant(
        self, request: pb.UpdateTenantRequest, identity: Identity, context: Context
    ) -> pb.UpdateTenantResponse:
        require_installation(identity)
        given = request.tenant
        name = _id("tenant.name", given.name)
        taken = masks.paths(given, request.update_mask)
        found = await self._node.tenants.update(name, lambda stored: edited(stored, given, taken), etag=given.etag)
        return pb.UpdateTenantResponse(tenant=tenant_message(found))


def tenant_message(tenant: Tenant) -> pb.Tenant:
    message = _settings_message(tenant.settings)
    message.name = f"tenants/{tenant.name}"
    message.etag = tenant.etag
    message.state = pb.TENANT_STATE_ACTIVE
    message.create_time.CopyFrom(codec.timestamp(tenant.created_at))
    return message


def edited(stored: TenantSettings, given: pb.Tenant, taken: Sequence[str] | None) -> TenantSettings:
    """Settings with the fields at these paths as they are in `given`."""
    merged = masks.merged(_settings_message(stored), given, taken)
    problems = Problems()
    for field, _ in merged.ListFields():
        if field.name not in SERVED:
            _not_served(problems, f"tenant.{field.name}")
    for field, _ in merged.quota.ListFields():
        if field.name not in QUOTA_SERVED:
            _not_served(problems, f"tenant.quota.{field.name}")
    problems.raise_any()
    return TenantSettings(
        weight=merged.weight if merged.HasField("weight") else limits.WEIGHT_DEFAULT,
        max_in_flight=merged.quota.max_in_flight if merged.quota.HasField("max_in_flight") else None,
        history_s=codec.seconds(merged.history_retention) if merged.HasField("history_retention") else None,
    )


def _not_served(problems: Problems, field: str) -> None:
    problems.add(field, "is part of the contract and not part of this release; leave it out")


def _settings_message(settings: TenantSettings) -> pb.Tenant:
    kept = None if settings.history_s is None else codec.duration(settings.history_s)
    return pb.Tenant(
        weight=settings.weight, quota=pb.Quota(max_in_flight=settings.max_in_flight), history_retention=kept
    )


def _id(field: str, name: str) -> str:
    """The id in tenants/{id}; a bare id is taken too."""
    id = name.removeprefix("tenants/")
    if not QUEUE.fullmatch(id):
        raise InvalidArgument.field(
            field, f"expected tenants/{{id}} with an id that must be {QUEUE_WORDS}, found {name[:80]!r}"
        )
    return id
