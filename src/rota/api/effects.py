"""The ledger of effects, for workers and for operators: decode, call, encode."""

from rota_sdk.gen.rota.admin.v1 import admin_pb2 as pb
from rota_sdk.gen.rota.v1 import common_pb2
from rota_sdk.gen.rota.worker.v1 import worker_pb2

from rota.api import codec, pages
from rota.api.rpc import Context, unary
from rota.api.schedulenames import author_name
from rota.coordinator.node import Node
from rota.domain import ids, limits
from rota.domain.effect import SETTLED, Effect, InDoubt
from rota.domain.errors import InvalidArgument
from rota.domain.ids import EffectId, Fence
from rota.domain.model import EffectState, Identity, Role
from rota.domain.text import Problems
from rota.store.effectport import EffectCall


class LedgerRpcs:
    """A part of the workers' servicer."""

    _node: Node

    @unary(Role.WORKER)
    async def BeginEffect(
        self, request: worker_pb2.BeginEffectRequest, identity: Identity, context: Context
    ) -> worker_pb2.BeginEffectResponse:
        problems = Problems()
        call = _call(problems, request, identity)
        policy = codec.enum(InDoubt, "in_doubt", request.in_doubt, InDoubt.ASK)
        problems.raise_any()
        begun = await self._node.effects.begin(call, policy)
        response = worker_pb2.BeginEffectResponse(
            proceed=begun.proceed,
            state=int(begun.state),  # type: ignore[arg-type]
        )
        if begun.effect.reference:
            response.receipt.CopyFrom(_receipt(begun.effect))
        return response

    @unary(Role.WORKER)
    async def CommitEffect(
        self, request: worker_pb2.CommitEffectRequest, identity: Identity, context: Context
    ) -> worker_pb2.CommitEffectResponse:
        problems = Problems()
        call = _call(problems, request, identity)
        state = codec.enum(EffectState, "state", request.state, EffectState.UNSPECIFIED)
        if state is EffectState.UNSPECIFIED:
            problems.add("state", "must be NOT_APPLIED, APPLIED or UNKNOWN; UNKNOWN where nobody can tell")
        problems.text("receipt.effect_key", request.receipt.effect_key, limits.EFFECT_KEY_BYTES_MAX)
        problems.text("receipt.reference", request.receipt.reference, limits.EFFECT_REFERENCE_BYTES_MAX)
        problems.raise_any()
        await self._node.effects.commit(call, state, request.receipt.reference)
        return worker_pb2.CommitEffectResponse()


class EffectRpcs:
    """A part of the operators' servicer."""

    _node: Node

    @unary(Role.OPERATOR)
    async def ListEffects(
        self, request: pb.ListEffectsRequest, identity: Identity, context: Context
    ) -> pb.ListEffectsResponse:
        job = codec.job_id("job", request.job) if request.job else None
        size = pages.page_size(request.page_size)
        query = pages.query(request)
        after = pages.unseal_id(request.page_token, identity.tenant_id, query)
        found = await self._node.effects.page(
            identity.tenant_id, EffectId(after) if after else None, size + 1, job, holding=request.holding
        )
        response = pb.ListEffectsResponse(effects=map(effect_message, found[:size]))
        if len(found) > size:
            response.next_page_token = pages.seal(found[size - 1].id, identity.tenant_id, query)
        return response

    @unary(Role.OPERATOR)
    async def ResolveEffect(
        self, request: pb.ResolveEffectRequest, identity: Identity, context: Context
    ) -> pb.ResolveEffectResponse:
        problems = Problems()
        id = EffectId(ids.parse_name("name", request.name, "effects"))
        state = codec.enum(EffectState, "state", request.state, EffectState.UNSPECIFIED)
        if state not in SETTLED:
            problems.add("state", "must be APPLIED or NOT_APPLIED: a decision leaves no doubt")
        problems.text("reference", request.reference, limits.EFFECT_REFERENCE_BYTES_MAX)
        problems.text("reason", request.reason, limits.REASON_BYTES_MAX)
        problems.raise_any()
        effect = await self._node.effects.resolve(identity, id, state, request.reference, request.reason)
        return pb.ResolveEffectResponse(effect=effect_message(effect))


def effect_message(effect: Effect) -> pb.Effect:
    message = pb.Effect(
        name=effect_name(effect.id),
        effect_key=effect.key,
        job=codec.job_name(effect.job_id),
        fence=effect.fence,
        state=int(effect.known),  # type: ignore[arg-type]
        begin_time=codec.timestamp(effect.begun_at),
        holding=effect.holding,
        resolved_by=author_name(effect.resolved_by),
    )
    if effect.reference:
        message.receipt.CopyFrom(_receipt(effect))
    return message


def effect_name(effect: EffectId) -> str:
    return f"effects/{effect}"


def _call(
    problems: Problems, request: worker_pb2.BeginEffectRequest | worker_pb2.CommitEffectRequest, identity: Identity
) -> EffectCall:
    job = codec.job_id("job", request.job)
    if request.fence <= 0:
        raise InvalidArgument.field("fence", f"must be the fence of the lease, found {request.fence}")
    problems.text("effect_key", request.effect_key, limits.EFFECT_KEY_BYTES_MAX)
    return EffectCall(identity.tenant_id, identity.tenant, job, Fence(request.fence), request.effect_key)


def _receipt(effect: Effect) -> common_pb2.EffectReceipt:
    return common_pb2.EffectReceipt(effect_key=effect.key, reference=effect.reference)
