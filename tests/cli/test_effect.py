"""`rota effect`: what is sent, what is shown, and how it exits; and what the commands of jobs say of effects."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from rota_sdk.gen.rota.admin.v1 import admin_pb2 as pb
from rota_sdk.gen.rota.v1 import common_pb2, jobs_pb2

from rota.cli.errors import Exit
from tests.cli.conftest import _served
from tests.cli.script import JOB_ID, Coordinator, in_, job

ID = "01f0a000-0000-7000-8000-000000000001"
NAME = f"effects/{ID}"
UNKNOWN = common_pb2.EFFECT_STATE_UNKNOWN


def effect(number: int = 1, **values: Any) -> pb.Effect:
    made = pb.Effect(
        name=f"effects/{ID[:-1]}{number}",
        effect_key=f"acme/{number}",
        job=f"jobs/{JOB_ID}",
        fence=7,
        state=UNKNOWN,
        begin_time=in_(0),
    )
    made.MergeFrom(pb.Effect(**values))
    return made


@dataclass
class Bookkeeper(Coordinator):
    """Answers with effects in doubt."""

    effects: list[pb.Effect] = field(default_factory=lambda: [effect(holding=True), effect(2)])

    def ListEffects(self, request: Any, context: Any) -> Any:
        self._took(request, context)
        start = int(request.page_token or 0)
        end = start + request.page_size
        token = str(end) if end < len(self.effects) else ""
        return pb.ListEffectsResponse(effects=self.effects[start:end], next_page_token=token)

    def ResolveEffect(self, request: Any, context: Any) -> Any:
        self._took(request, context)
        receipt = common_pb2.EffectReceipt(effect_key="acme/1", reference=request.reference)
        return pb.ResolveEffectResponse(effect=effect(state=request.state, receipt=receipt, resolved_by="apiKeys/k1"))


@pytest.fixture
def books(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bookkeeper]:
    yield from _served(Bookkeeper(jobs=[job()]), monkeypatch)


def lines(ran: Any) -> list[str]:
    assert ran.code == Exit.OK, ran.err
    return [" ".join(line.split()) for line in ran.out.splitlines()]


@pytest.mark.parametrize("command", ["list", "resolve"])
def test_each_command_explains_itself(command: str, rota: Any) -> None:
    ran = rota("effect", command, "--help")
    assert (ran.code, "--json" in ran.out) == (0, True)


def test_list(rota: Any, books: Bookkeeper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert lines(rota("effect", "list")) == [
        "EFFECT BEGUN JOB WAITS KEY",
        f"{NAME} 2026-11-30T08:15:00Z jobs/{JOB_ID} yes acme/1",
        f"{NAME[:-1]}2 2026-11-30T08:15:00Z jobs/{JOB_ID} acme/2",
    ]
    assert books.requests == [pb.ListEffectsRequest(page_size=50)]
    found = rota("effect", "list", "--json").documents
    assert found[0] == {
        "name": NAME,
        "effect_key": "acme/1",
        "job": f"jobs/{JOB_ID}",
        "fence": 7,
        "state": "UNKNOWN",
        "begin_time": "2026-11-30T08:15:00.000Z",
        "holding": True,
    }
    ran = rota("effect", "list", "--limit", 1, "--held", "--job", JOB_ID)
    assert ran.err == "more: --page-token 1\n"
    assert books.requests[-1] == pb.ListEffectsRequest(page_size=1, holding=True, job=f"jobs/{JOB_ID}")


@pytest.mark.parametrize("given", [ID, NAME])
@pytest.mark.parametrize("word", ["applied", "not-applied"])
def test_resolve(given: str, word: str, rota: Any, books: Bookkeeper) -> None:
    state = f"EFFECT_STATE_{word.upper().replace('-', '_')}"
    shown = lines(rota("effect", "resolve", given, word, "--reference", "pay-1", "--reason", "asked the bank"))
    assert books.requests == [
        pb.ResolveEffectRequest(name=NAME, state=state, reference="pay-1", reason="asked the bank")  # type: ignore[arg-type]
    ]
    assert shown == [
        f"effect {NAME}",
        "key acme/1",
        f"state {state.removeprefix('EFFECT_STATE_')}",
        f"job jobs/{JOB_ID}",
        "begun 2026-11-30T08:15:00.000Z",
        "reference pay-1",
        "decided by apiKeys/k1",
    ]
    assert rota("effect", "resolve", given, word, "--json").document["resolved_by"] == "apiKeys/k1"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["resolve", "x", "applied"], "EFFECT: expected effects/<uuid> or a uuid, found 'x'"),
        (["resolve", ID, "perhaps"], "Invalid value for '{applied|not-applied}'"),
        (["resolve", ID], "Missing argument"),
        (["list", "--job", "x"], "--job: expected jobs/<uuid> or a uuid, found 'x'"),
    ],
)
def test_usage(arguments: list[str], message: str, rota: Any, books: Bookkeeper) -> None:
    ran = rota("effect", *arguments)
    assert (ran.code, books.requests) == (Exit.USAGE, [])
    assert message.split("{")[0] in ran.err


def test_refusals(rota: Any, books: Bookkeeper) -> None:
    books.refuse(grpc.StatusCode.NOT_FOUND, "RESOURCE_NOT_FOUND", f"{NAME}: not found")
    ran = rota("effect", "resolve", ID, "applied")
    assert (ran.code, ran.err.splitlines()[0]) == (Exit.NOT_FOUND, f"error: {NAME}: not found")
    books.refuse(grpc.StatusCode.FAILED_PRECONDITION, "INVALID_STATE", "it was decided already")
    assert rota("effect", "resolve", ID, "applied").code == Exit.REFUSED


def test_a_job_that_is_held_says_why_instead_of_when(rota: Any, books: Bookkeeper) -> None:
    held = job(state=jobs_pb2.JOB_STATE_RETRY_WAIT, attempt=1, reason=f"held until {NAME} is decided")
    held.ClearField("due_time")
    books.jobs = [held, job(state=jobs_pb2.JOB_STATE_CANCELLED)]
    shown = lines(rota("job", "get", JOB_ID))
    assert f"reason held until {NAME} is decided" in shown
    assert not [line for line in shown if line.startswith("due")]
    books.jobs = [held, job(state=jobs_pb2.JOB_STATE_CANCELLED, finish_time=in_(1))]
    watched = rota("job", "watch", JOB_ID).out.splitlines()
    assert watched[0].split(None, 1) == ["RETRY_WAIT", f"held until {NAME} is decided"]


def test_attempts_say_what_is_known_of_effects(rota: Any, books: Bookkeeper) -> None:
    failed = jobs_pb2.ATTEMPT_OUTCOME_FAILED
    receipt = common_pb2.EffectReceipt(effect_key="k", reference="pay-1")
    books.attempts = [
        jobs_pb2.Attempt(number=1, outcome=failed, effect_state=UNKNOWN, failure={"type": "Timeout"}),
        jobs_pb2.Attempt(number=2, outcome=jobs_pb2.ATTEMPT_OUTCOME_SUCCEEDED, effect_receipts=[receipt]),
    ]
    assert lines(rota("job", "attempts", JOB_ID)) == [
        "TRY OUTCOME WORKER LEASED TOOK FENCE EFFECT FAILURE",
        "1 FAILED 0 UNKNOWN Timeout",
        "2 SUCCEEDED 0 pay-1",
    ]
    found = rota("job", "attempts", JOB_ID, "--json").documents
    assert [each.get("effect_state") for each in found] == ["UNKNOWN", None]
    assert found[1]["effect_receipts"] == [{"effect_key": "k", "reference": "pay-1"}]
