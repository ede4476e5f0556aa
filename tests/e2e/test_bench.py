"""The benchmark as a command: it measures, says so in one JSON object, and leaves nothing behind. Never how fast."""

import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]

KEYS = {
    "workload",
    "n",
    "jobs_per_s",
    "floor_jobs_per_s",
    "ratio",
    "coordinator_cpu_us",
    "worker_cpu_us",
    "store_cpu_us",
    "seconds",
    "leases_per_answer",
    "results_per_call",
    "foreign_cpu_pct",
    "pg",
    "python",
}


def test_drain_finishes_every_job_once_and_prints_one_json_object() -> None:
    done = subprocess.run(
        [ROOT / "bench" / "run", "drain", "--n", "200", "--cap", "60"], capture_output=True, text=True, timeout=110
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found.keys() >= KEYS
    assert (found["workload"], found["n"], found["finished"], found["attempts_max"]) == ("drain", 200, 200, 1)
    assert 1 <= found["leases_per_answer"] <= 200
    assert 1 <= found["results_per_call"] <= 200
    assert found["jobs_per_s"] > 0 and found["floor_jobs_per_s"] > 0


def test_a_run_that_cannot_end_within_its_cap_fails_and_says_why() -> None:
    done = subprocess.run(
        [ROOT / "bench" / "run", "drain", "--n", "200", "--cap", "0.01"], capture_output=True, text=True, timeout=110
    )
    assert done.returncode == 1
    assert "within" in done.stderr and "Traceback" not in done.stderr
