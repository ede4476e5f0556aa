"""What the README shows works."""

import re
from pathlib import Path
from typing import Any

import pytest
import rota_sdk
from conftest import running
from script_server import ScriptServer

BLOCKS = re.findall(r"```python\n(.*?)```", (Path(__file__).parents[1] / "README.md").read_text(), re.DOTALL)


def test_the_first_worker_runs_and_is_short(server: ScriptServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_ADDRESS", server.address)
    assert len([line for line in BLOCKS[0].splitlines() if line]) <= 15
    space: dict[str, Any] = {"__name__": "readme"}
    exec(compile(BLOCKS[0], "README.md", "exec"), space)
    job = server.job("greet", payload={"data": b'{"name":"Ada"}'})
    server.offer(job)
    with running(space["worker"]):
        assert server.result_of(job.job).succeeded.result.data == b"hello Ada"


def test_all_blocks_are_python_and_all_names_exist() -> None:
    for block in BLOCKS:
        compile(block, "README.md", "exec")
    for name in rota_sdk.__all__:
        assert getattr(rota_sdk, name) is not None
    with pytest.raises(AttributeError, match="nothing_like_it"):
        rota_sdk.nothing_like_it  # noqa: B018
    assert set(rota_sdk.__all__) <= set(dir(rota_sdk))
