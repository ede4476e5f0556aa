"""Coordinators and shards of AdminService: decode, call, encode."""

from rota_sdk.gen.rota.admin.v1 import admin_pb2 as pb

from rota.api import codec, pages
from rota.api.rpc import Context, unary
from rota.coordinator.node import Node
from rota.domain import ids
from rota.domain.ids import CoordinatorId
from rota.domain.model import Identity, Role
from rota.service.identity import require_installation
from rota.store.queueport import Coordinator, Shard


class FleetRpcs:
    """A part of the servicer."""

    _node: Node

    @unary(Role.OPERATOR)
    async def ListCoordinators(
        self, request: pb.ListCoordinatorsRequest, identity: Identity, context: Context
    ) -> pb.ListCoordinatorsResponse:
        require_installation(identity)
        size = pages.page_size(request.page_size)
        query = pages.query(request)
        after = pages.unseal_id(request.page_token, identity.tenant_id, query)
        found = await self._node.fleet.coordinators(CoordinatorId(after) if after else None, size + 1)
        response = pb.ListCoordinatorsResponse(coordinators=map(coordinator_message, found[:size]))
        if len(found) > size:
            response.next_page_token = pages.seal(found[size - 1].id, identity.tenant_id, query)
        return response

    @unary(Role.OPERATOR)
    async def ListShards(
        self, request: pb.ListShardsRequest, identity: Identity, context: Context
    ) -> pb.ListShardsResponse:
        require_installation(identity)
        owner = None
        if request.coordinator:
            owner = CoordinatorId(ids.parse_name("coordinator", request.coordinator, "coordinators"))
        size = pages.page_size(request.page_size)
        query = pages.query(request)
        # A position is the first shard of the page, which is 0 without a token.
        first = pages.unseal_number(request.page_token, identity.tenant_id, query)
        found = await self._node.fleet.shards(first - 1, size + 1, owner)
        response = pb.ListShardsResponse(shards=map(shard_message, found[:size]))
        if len(found) > size:
            response.next_page_token = pages.seal(str(found[size].number), identity.tenant_id, query)
        return response


def coordinator_message(found: Coordinator) -> pb.Coordinator:
    return pb.Coordinator(
        name=f"coordinators/{found.id}",
        address=found.address,
        version=found.version,
        start_time=codec.timestamp(found.started_at),
        expire_time=codec.timestamp(found.expires_at),
        draining=found.draining,
        shard_count=found.shards,
        session_count=found.sessions,
    )


def shard_message(found: Shard) -> pb.Shard:
    return pb.Shard(
        name=f"shards/{found.number}",
        epoch=found.epoch,
        coordinator=f"coordinators/{found.owner}" if found.owner else "",
        expire_time=None if found.expires_at is None else codec.timestamp(found.expires_at),
        watermark_time=None if found.watermark is None else codec.timestamp(found.watermark),
    )
