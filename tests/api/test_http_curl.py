"""What can be done with curl alone: the calls of the README as it prints them, and a worker."""

import asyncio
import os
import re
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from .running import Running, Tenant

CURL = shutil.which("curl")
ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(CURL is None, reason="NO CALL BY CURL WAS TESTED: curl is not installed"),
]


async def shell(command: list[str], tenant: Tenant, **environment: str) -> str:
    """What a command prints; that it ends well."""
    assert tenant.key is not None
    run = await asyncio.create_subprocess_exec(
        *command,
        env={**os.environ, "ROTA_HTTP": tenant.coordinator.http, "ROTA_API_KEY": tenant.key, **environment},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(run.communicate(), 60)
    assert run.returncode == 0, (out, err)
    return out.decode()


async def test_a_worker_with_nothing_but_curl(start: Callable[..., Awaitable[Running]]) -> None:
    # Shorter than the second job, so that it lives by beats.
    coordinator = await start(session_ttl_s=5.0)
    tenant = await coordinator.tenant()
    names = [(await tenant.create(queue="shell", data=data)).name for data in (b"one", b"sleep", b"fail")]
    script = 'read -r word || true; case $word in sleep) sleep 6 ;; fail) exit 3 ;; esac; printf "did %s" "$word"'
    said = await shell([str(ROOT / "examples" / "curl_worker.sh"), "shell", "sh", "-c", script], tenant, ROTA_JOBS="3")
    assert sorted(line.split()[0] for line in said.splitlines()) == sorted(names)
    ended = [await tenant.get(name) for name in names]
    assert [job.result.data for job in ended] == [b"did one", b"did sleep", b""]
    assert [job.attempt for job in ended[:2]] == [1, 1]
    failed = ended[2].last_failure
    assert (failed.type, failed.message) == ("ExitCode", "exit code 3")


@pytest.mark.skipif(shutil.which("jq") is None, reason="THE README'S CALLS WERE NOT TESTED: jq is not installed")
async def test_the_calls_of_the_readme_work_as_printed(tenant: Tenant) -> None:
    section = (ROOT / "README.md").read_text().partition("\n## HTTP and JSON\n")[2].partition("\n## ")[0]
    printed = re.findall(r"```\n(\$ .*?)```", section, re.DOTALL)
    assert len(printed) == 1
    assert printed[0].count("$ROTA_HTTP/") >= 6
    script = "set -eu\n" + re.sub(r"^\$ ", "", printed[0], flags=re.MULTILINE)
    said = await shell(["bash", "-c", script], tenant)
    assert said.count("schedules/nightly") >= 2
    assert "JOB_STATE_SUCCEEDED" in said
    assert '"error"' not in said
