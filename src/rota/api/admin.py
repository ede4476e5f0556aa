"""AdminService: what operators ask about sessions; its other parts have files of their own."""

from rota_sdk.gen.rota.admin.v1 import admin_pb2, admin_pb2_grpc

from rota.api import codec, pages
from rota.api.deadletters import DeadLetterRpcs
from rota.api.effects import EffectRpcs
from rota.api.fleet import FleetRpcs
from rota.api.invariants import InvariantRpcs
from rota.api.queues import QueueRpcs
from rota.api.rpc import Context, refuse_the_rest, unary
from rota.api.tenants import TenantRpcs
from rota.coordinator.node import Node
from rota.domain import limits
from rota.domain.errors import InvalidArgument
from rota.domain.ids import SessionId
from rota.domain.model import Identity, Role, Session, SessionState
from rota.domain.text import Problems
from rota.service.identity import Keys

STALLED_AFTER_S = 3 * limits.LEASE_WAIT_DEFAULT_S
"""A session with free slots that has not polled for three waits."""


@refuse_the_rest(admin_pb2.DESCRIPTOR.services_by_name["AdminService"], Role.OPERATOR)
class AdminServicer(
    DeadLetterRpcs, QueueRpcs, TenantRpcs, FleetRpcs, EffectRpcs, InvariantRpcs, admin_pb2_grpc.AdminServiceServicer
):
    def __init__(self, node: Node, keys: Keys) -> None:
        self.keys = keys
        self.calls = node.pressure.calls
        self._node = node

    @unary(Role.OPERATOR)
    async def ListSessions(
        self, request: admin_pb2.ListSessionsRequest, identity: Identity, context: Context
    ) -> admin_pb2.ListSessionsResponse:
        if request.show_ended or request.state in (admin_pb2.SESSION_STATE_CLOSED, admin_pb2.SESSION_STATE_EXPIRED):
            raise InvalidArgument.field("show_ended", "ended sessions are not listed by this release; leave it out")
        codec.check_enum(admin_pb2.SessionState.values(), "state", request.state)
        problems = Problems()
        problems.text("queue", request.queue, limits.NAME_BYTES_MAX)
        problems.raise_any()
        size = pages.page_size(request.page_size)
        query = repr((request.state, request.queue)).encode()
        before = pages.unseal_id(request.page_token, identity.tenant_id, query)
        found = await self._node.sessions.page(identity.tenant_id, SessionId(before) if before else None, size + 1)
        response = admin_pb2.ListSessionsResponse()
        for session in found[:size]:
            message = self._message(session)
            if request.state in (admin_pb2.SESSION_STATE_UNSPECIFIED, message.state) and (
                not request.queue or request.queue in session.queues
            ):
                response.sessions.append(message)
        if len(found) > size:
            response.next_page_token = pages.seal(found[size - 1].id, identity.tenant_id, query)
        return response

    def _message(self, session: Session) -> admin_pb2.Session:
        state = admin_pb2.SESSION_STATE_ACTIVE
        free_slots = session.free_slots
        member = self._node.memory.members.get(session.id)
        if member is not None and member.last_beat_at:
            free_slots = member.free_slots
        if session.state is SessionState.DRAINING:
            state = admin_pb2.SESSION_STATE_DRAINING
        elif member is not None and free_slots:
            silent_s = self._node.clock.monotonic() - max(member.last_poll_at, member.seen_at)
            if silent_s > STALLED_AFTER_S:
                state = admin_pb2.SESSION_STATE_STALLED
        leases = len(self._node.memory.in_flight.of(session.id))
        return codec.session_message(session, state, leases, free_slots)
