"""Invariants of AdminService: decode, call, encode. They are of the installation as a whole."""

from rota_sdk.gen.rota.admin.v1 import admin_pb2 as pb

from rota.api.rpc import Context, unary
from rota.coordinator.node import Node
from rota.domain import invariants as known
from rota.domain.errors import Unavailable
from rota.domain.model import Identity, Role
from rota.domain.text import Problems
from rota.service.identity import require_installation
from rota.service.invariants import EXAMPLES_DEFAULT, EXAMPLES_MAX, Checked


class InvariantRpcs:
    """A part of the servicer."""

    _node: Node

    @unary(Role.OPERATOR)
    async def CheckInvariants(
        self, request: pb.CheckInvariantsRequest, identity: Identity, context: Context
    ) -> pb.CheckInvariantsResponse:
        require_installation(identity)
        most = request.max_examples if request.HasField("max_examples") else EXAMPLES_DEFAULT
        problems = Problems()
        problems.integer("max_examples", most, 0, EXAMPLES_MAX)
        problems.raise_any()
        known.named(request.names)
        if self._node.invariants is None:
            raise Unavailable("this coordinator has no invariants to check")
        found = await self._node.invariants.check(request.names, repair=request.repair, examples_max=most)
        return pb.CheckInvariantsResponse(results=map(result_message, found))


def result_message(checked: Checked) -> pb.InvariantResult:
    return pb.InvariantResult(
        name=checked.invariant.name,
        description=checked.invariant.holds,
        holds=checked.holds,
        violation_count=checked.violations,
        examples=[each.name for each in checked.examples],
        repaired_count=checked.repaired,
    )
