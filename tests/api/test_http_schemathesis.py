"""The OpenAPI document against a real coordinator: requests made up from it, right and wrong ones, get answers that it
describes and never a fault. A process of its own, so that nothing of schemathesis is loaded where it is not used."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from .running import Running, Tenant
from .test_identity import METHODS, SERVED
from .web import web

pytestmark = pytest.mark.asyncio(loop_scope="session")

SEED = 20261130
EXAMPLES = 6
CHECKS = (
    *("not_a_server_error", "status_code_conformance", "content_type_conformance"),
    *("response_headers_conformance", "response_schema_conformance", "allow_header_conformance"),
)
CONFIG = """
[checks.not_a_server_error]
# The caller's own Request-Timeout has passed.
expected-statuses = ["2xx", "4xx", "504"]

[parameters]
"path.schedule" = "nightly"
"path.calendar" = "holidays"
"path.queue" = "default"
"path.tenant" = "default"
"path.job" = "{job}"
"path.session" = "{session}"

[[operations]]
include-method = "DELETE"
[operations.parameters]
"path.schedule" = "another"
"path.calendar" = "another"
"""
STREAMS = ("WatchJobs",)
"""What does not end by itself."""


WITHOUT_HTTP = ("Heartbeat",)
ADDITIONAL = 1
"""Operations for a call that has one already."""


async def what_there_is(tenant: Tenant) -> str:
    """Makes one of each that is named by paths, so that calls come to what they are about; the configuration."""
    async with web(tenant) as call:
        schedule = {"cron": {"expression": "@daily"}, "job": {"type": "t"}}
        assert (await call.post("/v1/schedules", {"schedule": schedule, "scheduleId": "nightly"})).code == 200
        calendar = {"dates": ["2026-12-25"]}
        made = await call.post("/v1/calendars", {"calendar": calendar, "calendarId": "holidays"})
        assert made.code == 200, made
        assert (await call.patch("/admin/v1/queues/default", {"weight": 50})).code == 200
    job, worker = await tenant.create(delay=3_600), await tenant.worker()
    return CONFIG.format(job=job.name.partition("/")[2], session=worker.session.partition("/")[2])


@pytest.mark.timeout(180)
async def test_every_answer_is_as_described(start: Callable[..., Awaitable[Running]], tmp_path: Path) -> None:
    coordinator = await start(session_ttl_s=60.0)
    # Of this tenant, since some calls are for its operators only.
    tenant = await coordinator.tenant("default")
    left_out = {m.name for m in METHODS.values() if m.name not in SERVED[m.containing_service.name]}
    report = tmp_path / "report.json"
    config = await what_there_is(tenant)
    (tmp_path / "schemathesis.toml").write_text(config)
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run", f"{coordinator.http}/openapi.json"),
        *("--header", f"Authorization: Bearer {tenant.key}", "--seed", str(SEED), "--generation-deterministic"),
        *("--max-examples", str(EXAMPLES), "--phases", "fuzzing", "--checks", ",".join(CHECKS)),
        *("--request-timeout", "60", "--no-color", "--continue-on-failure", "--report-json-path", str(report)),
    ]
    for name in sorted({*left_out, *STREAMS}):
        command += ["--exclude-operation-id", name]
    run = await asyncio.create_subprocess_exec(
        *command, cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said = (await run.communicate())[0].decode()
    assert run.returncode == 0, said[-12_000:]
    told = json.loads(report.read_text())
    assert told["operations"]["tested"] == len(METHODS) + ADDITIONAL - len({*left_out, *STREAMS, *WITHOUT_HTTP})
    assert told["test_cases"]["generated"] >= EXAMPLES * told["operations"]["tested"] * 0.9
