"""`rota tenant`, `rota coordinator` and `rota shard`: what is sent, what is shown, and how they exit."""

from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from rota_sdk.gen.rota.admin.v1 import admin_pb2 as pb

from rota.cli.errors import Exit
from tests.cli.operated import Operated
from tests.cli.script import in_
from tests.cli.test_queue import lines

ID = "019ad0b2-7c1e-7aaa-8bbb-0123456789ab"
OWNER = f"coordinators/{ID}"


@pytest.mark.parametrize(
    "command", [("tenant", "list"), ("tenant", "get"), ("tenant", "update"), ("coordinator", "list"), ("shard", "list")]
)
def test_each_command_explains_itself(command: tuple[str, str], rota: Any) -> None:
    ran = rota(*command, "--help")
    assert (ran.code, "--json" in ran.out) == (0, True)
    assert ran.out.startswith(f"Usage: rota {' '.join(command)} [OPTIONS]")


def test_tenants(rota: Any, operated: Operated) -> None:
    assert lines(rota("tenant", "list")) == [
        "TENANT STATE WEIGHT IN FLIGHT CREATED",
        "ada ACTIVE 100 at most 9 2026-11-30T08:15:00Z",
        "bob ACTIVE 100 2026-11-30T08:15:00Z",
    ]
    assert operated.sent == pb.ListTenantsRequest(page_size=50)
    operated.requests.clear()
    assert lines(rota("tenant", "get", "ada")) == [
        "tenant tenants/ada",
        "state ACTIVE",
        "weight 100",
        "in flight at most 9",
        "etag v1",
        "created 2026-11-30T08:15:00.000Z",
    ]
    assert operated.sent == pb.GetTenantRequest(name="tenants/ada")
    assert rota("tenant", "get", "ada", "--json").document["quota"] == {"max_in_flight": 9}
    assert rota("tenant", "get", "none").code == Exit.NOT_FOUND


@pytest.mark.parametrize(
    ("options", "changed", "paths"),
    [
        (["--weight", "7", "--etag", "v1"], {"weight": 7, "etag": "v1"}, ["weight"]),
        (["--max-in-flight", "3"], {"quota": {"max_in_flight": 3}}, ["quota.max_in_flight"]),
        (["--unset", "max-in-flight"], {}, ["quota.max_in_flight"]),
        (["--history", "90d"], {"history_retention": Duration(seconds=90 * 86_400)}, ["history_retention"]),
        (["--unset", "history"], {}, ["history_retention"]),
    ],
)
def test_update_sends_what_is_given(
    options: list[str], changed: Any, paths: list[str], rota: Any, operated: Operated
) -> None:
    assert rota("tenant", "update", "tenants/ada", *options, "--json").document["name"] == "tenants/ada"
    assert operated.sent == pb.UpdateTenantRequest(
        tenant=pb.Tenant(name="tenants/ada", **changed), update_mask=FieldMask(paths=paths)
    )


def test_another_tenants_operator_is_told_what_it_takes(rota: Any, operated: Operated) -> None:
    operated.refuse(
        grpc.StatusCode.PERMISSION_DENIED,
        "PERMISSION_DENIED",
        "this call concerns the installation as a whole and needs a key of the tenant default; create one",
    )
    ran = rota("tenant", "list")
    assert ran.code == Exit.REFUSED
    assert ran.err.startswith("error: this call concerns the installation as a whole and needs a key of the tenant")


def test_coordinators(rota: Any, operated: Operated) -> None:
    operated.coordinators = [
        pb.Coordinator(
            name=OWNER,
            address="a:7071",
            version="0.1.0",
            start_time=in_(0),
            draining=True,
            shard_count=128,
            session_count=3,
        )
    ]
    assert lines(rota("coordinator", "list")) == [
        "COORDINATOR ADDRESS STATE SHARDS SESSIONS VERSION STARTED",
        f"{ID} a:7071 DRAINING 128 3 0.1.0 2026-11-30T08:15:00Z",
    ]
    operated.coordinators[0].draining = False
    assert "ACTIVE" in rota("coordinator", "list").out
    (told,) = rota("coordinator", "list", "--json").documents
    assert (told["name"], told["shard_count"]) == (OWNER, 128)


def test_shards(rota: Any, operated: Operated) -> None:
    operated.shards = [
        pb.Shard(name="shards/0", epoch=7, coordinator=OWNER, expire_time=in_(6), watermark_time=in_(0)),
        pb.Shard(name="shards/1", epoch=9),
    ]
    assert lines(rota("shard", "list", "--coordinator", ID)) == [
        "SHARD EPOCH COORDINATOR EXPIRES WATERMARK",
        f"0 7 {ID} 2026-11-30T08:15:06Z 2026-11-30T08:15:00Z",
        "1 9",
    ]
    assert operated.sent == pb.ListShardsRequest(page_size=50, coordinator=OWNER)
    assert [each["epoch"] for each in rota("shard", "list", "--json").documents] == [7, 9]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tenant", "get", "a b"], "TENANT: expected 1 to 64 letters"),
        (["tenant", "update", "a"], "TENANT: expected an option that changes it, found none"),
        (["shard", "list", "--coordinator", "x"], "--coordinator: expected coordinators/<uuid> or a uuid, found 'x'"),
    ],
)  # fmt: skip
def test_what_is_refused_before_anything_is_sent(
    arguments: list[str], message: str, rota: Any, operated: Operated
) -> None:
    ran = rota(*arguments)
    assert (ran.code, ran.out) == (Exit.USAGE, "")
    assert ran.err.startswith(f"error: {message}")
    assert operated.requests == []
