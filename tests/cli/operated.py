"""A coordinator that keeps queues, tenants, coordinators and shards in lists, behind real gRPC."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import grpc
from rota_sdk.gen.rota.admin.v1 import admin_pb2 as pb

from tests.cli.script import Coordinator, in_


def queue(id: str = "mails", **values: Any) -> pb.Queue:
    """A queue of a script; the given fields over usual ones."""
    made = pb.Queue(name=f"queues/{id}", weight=100, etag="v1")
    made.MergeFrom(pb.Queue(**values))
    return made


def busy() -> pb.Queue:
    """With everything that a queue can show."""
    return queue(
        rate=2.5,
        rate_burst=10,
        max_in_flight=20,
        max_in_flight_per_key=1,
        paused=True,
        pause_reason="maintenance",
        pause_author="apiKeys/k1",
        pause_time=in_(0),
        scheduled_count=7,
        ready_count=6,
        leased_count=5,
        retry_wait_count=4,
        dead_count=3,
        session_count=2,
        oldest_ready_age=timedelta(seconds=90),
    )


def tenant(id: str = "ada", **values: Any) -> pb.Tenant:
    made = pb.Tenant(name=f"tenants/{id}", weight=100, etag="v1", state=pb.TENANT_STATE_ACTIVE, create_time=in_(0))
    made.MergeFrom(pb.Tenant(**values))
    return made


@dataclass
class Operated(Coordinator):
    """Answers each change with the resource as it was, and purges by script, the last answer for ever."""

    queues: list[pb.Queue] = field(default_factory=lambda: [busy(), queue("other")])
    tenants: list[pb.Tenant] = field(default_factory=lambda: [tenant(quota={"max_in_flight": 9}), tenant("bob")])
    coordinators: list[pb.Coordinator] = field(default_factory=list)
    shards: list[pb.Shard] = field(default_factory=list)
    purges: list[pb.PurgeQueueResponse] = field(default_factory=list)

    @property
    def sent(self) -> Any:
        """The one request."""
        (request,) = self.requests
        return request

    def _of(self, kept: list[Any], name: str, context: grpc.ServicerContext) -> Any:
        for one in kept:
            if one.name == name:
                return one
        self.refuse(grpc.StatusCode.NOT_FOUND, "RESOURCE_NOT_FOUND", f"{name}: not found; or the name is wrong")
        return self._took(None, context)

    def ListQueues(self, request: Any, context: Any) -> Any:
        self._took(request, context)
        start = int(request.page_token or 0)
        end = start + request.page_size
        token = str(end) if end < len(self.queues) else ""
        return pb.ListQueuesResponse(queues=self.queues[start:end], next_page_token=token)

    def GetQueue(self, request: Any, context: Any) -> Any:
        self._took(request, context)
        return pb.GetQueueResponse(queue=self._of(self.queues, request.name, context))

    def UpdateQueue(self, request: Any, context: Any) -> Any:
        self._took(request, context)
        return pb.UpdateQueueResponse(queue=self._of(self.queues, request.queue.name, context))

    def PauseQueue(self, request: Any, context: Any) -> Any:
        self._took(request, context)
        return pb.PauseQueueResponse(queue=self._of(self.queues, request.name, context))

    def ResumeQueue(self, request: Any, context: Any) -> Any:
        self._took(request, context)
        return pb.ResumeQueueResponse(queue=self._of(self.queues, request.name, context))

    def PurgeQueue(self, request: Any, context: Any) -> Any:
        self._took(request, context)
        return self.purges.pop(0) if len(self.purges) > 1 else self.purges[0]

    def ListTenants(self, request: Any, context: Any) -> Any:
        self._took(request, context)
        return pb.ListTenantsResponse(tenants=self.tenants)

    def GetTenant(self, request: Any, context: Any) -> Any:
        self._took(request, context)
        return pb.GetTenantResponse(tenant=self._of(self.tenants, request.name, context))

    def UpdateTenant(self, request: Any, context: Any) -> Any:
        self._took(request, context)
        return pb.UpdateTenantResponse(tenant=self._of(self.tenants, request.tenant.name, context))

    def ListCoordinators(self, request: Any, context: Any) -> Any:
        self._took(request, context)
        return pb.ListCoordinatorsResponse(coordinators=self.coordinators)

    def ListShards(self, request: Any, context: Any) -> Any:
        self._took(request, context)
        return pb.ListShardsResponse(shards=self.shards)
