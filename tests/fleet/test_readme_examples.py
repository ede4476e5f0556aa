"""The first worker of each SDK's README, copied as printed into an empty folder and run by the commands that the README
prints, does a job of a real coordinator."""

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from ..harness import CoordinatorProcess, Process, clean_environment, eventually

ROOT = Path(__file__).parents[2]
TOOLS = {"python": ["python3"], "go": ["go"], "typescript": ["node", "npm"], "java": ["java", "mvn"]}
LINES_MAX = 15
"""Of a first worker, beside its imports."""
COMMAND_S = 240.0


def first_worker(language: str) -> tuple[dict[str, str], list[str]]:
    """The files that the section tells to make, by their names, and its commands."""
    readme = (ROOT / "workers" / language / "README.md").read_text()
    section = readme.split("## A first worker\n")[1].split("\n## ")[0]
    files = dict(re.findall(r"as `(\S+)`:\n\n```\w+\n(.*?)```", section, re.DOTALL | re.IGNORECASE))
    commands = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    assert files and len(commands) == 1, f"{language}: expected files and one block of commands, found {sorted(files)}"
    return files, commands[0].splitlines()


def need(language: str) -> None:
    for tool in TOOLS[language]:
        if shutil.which(tool) is None:
            assert os.environ.get("CI") != "true", f"{language}: expected {tool} on the PATH, found none"
            pytest.skip(f"LEFT OUT: the README of {language}, since there is no {tool} here")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("language", TOOLS)
def test_the_first_worker_of_the_readme_does_a_job(
    language: str, coordinator: CoordinatorProcess, tmp_path: Path
) -> None:
    need(language)
    folder = tmp_path / "empty"
    folder.mkdir()
    files, commands = first_worker(language)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    env = clean_environment() | {
        "ROTA": str(ROOT),
        "ROTA_ADDRESS": coordinator.address,
        "ROTA_API_KEY": coordinator.key,
    }
    # The environment of the tests is no part of an empty folder.
    env.pop("PYTHONPATH", None)
    for command in commands[:-1]:
        done = subprocess.run(
            ["sh", "-ec", command], cwd=folder, env=env, capture_output=True, text=True, timeout=COMMAND_S
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    worker = Process(["sh", "-ec", f"cd {folder}; {commands[-1]}"], env, tmp_path / "worker.log")
    try:
        with coordinator.client() as client:
            job = client.create_job("greet", {"name": "Ada"})
            eventually(
                lambda: client.get_job(job.name).state.terminal or worker.popen.poll() is not None, within_s=COMMAND_S
            )
            found = client.get_job(job.name)
        assert found.result is not None and found.result.text() in ("hello Ada", '"hello Ada"'), worker.output
        # To all that runs below it, as Ctrl-C in a terminal.
        os.killpg(worker.pid, signal.SIGINT)
        worker.popen.wait(30)
    finally:
        if worker.popen.poll() is None:
            os.killpg(worker.pid, signal.SIGKILL)
        worker.kill()


@pytest.mark.parametrize("language", TOOLS)
def test_the_first_worker_is_short(language: str) -> None:
    files, _ = first_worker(language)
    source = next(text for name, text in files.items() if name != "pom.xml")
    code = re.sub(r"^(import \(.*?^\)|(import|from|package) .*?$)", "", source, flags=re.DOTALL | re.MULTILINE)
    assert 5 <= len([line for line in code.splitlines() if line]) <= LINES_MAX
