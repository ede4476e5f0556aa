"""The benchmark as a command: it measures, says so in one JSON object, and leaves nothing behind. Never how fast."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import psycopg
import pytest

from bench import arguments, plot, report, standard
from bench.__main__ import WORKLOADS

from ..harness import eventually

ROOT = Path(__file__).parents[2]

KEYS = {
    "workload",
    "n",
    "jobs_per_s",
    "floor_jobs_per_s",
    "ratio",
    "cpu_us",
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


def bench(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([ROOT / "bench" / "run", *arguments], capture_output=True, text=True, timeout=110)


def figures(*arguments: str) -> dict[str, Any]:
    done = bench(*arguments, "--cap", "90")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(found, dict)
    return found


def test_drain_finishes_every_job_once_and_prints_one_json_object() -> None:
    found = figures("drain", "--n", "200")
    assert found.keys() >= KEYS
    assert (found["workload"], found["n"], found["finished"], found["attempts_max"]) == ("drain", 200, 200, 1)
    assert 1 <= found["leases_per_answer"] <= 200
    assert 1 <= found["results_per_call"] <= 200
    assert found["jobs_per_s"] > 0 and found["floor_jobs_per_s"] > 0


def test_timers_that_were_loaded_by_sql_stay_where_they_are_while_due_jobs_are_drained() -> None:
    found = figures("timers", "--n", "100", "--resident", "3000", "--rounds", "1")
    assert (found["finished"], found["attempts_max"], found["resident"]) == (200, 1, 3000)
    assert found["loaded_mb"] > found["bare_mb"]


def test_a_run_that_cannot_end_within_its_cap_fails_and_says_why() -> None:
    done = bench("drain", "--n", "200", "--cap", "0.01")
    assert done.returncode == 1
    assert "within" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("line", ["drown", "drain --n 0", "latency --aged", "standard --only drain,drown"])
def test_what_is_no_workload_no_step_and_no_option_of_it_is_a_usage_error(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        arguments.parse(line.split(), WORKLOADS, standard.NAMES)
    assert ended.value.code == 2
    assert "bench/run" in capsys.readouterr().err


@pytest.mark.parametrize("step", standard.STEPS, ids=lambda step: step.name)
def test_every_step_of_both_sets_is_a_command_line_that_is_understood(step: standard.Step) -> None:
    for line in filter(None, (step.arguments, step.quick)):
        given = arguments.parse(line.split(), WORKLOADS, standard.NAMES)
        assert arguments.options(given, {}).n == given.n


def test_the_table_shows_median_spread_target_and_what_missed_it() -> None:
    runs = {
        "drain": [
            {"jobs_per_s": rate, "floor_jobs_per_s": 20_000.0, "ratio": rate / 20_000}
            for rate in (9_000.0, 8_000.0, 10_000.0)
        ],
        "idle": [{"coordinator_cpu_pct": 0.5}],
    }
    lines = report.table(runs).splitlines()
    assert [line.split("  ")[0] for line in lines] == [
        "what",
        "drain",
        "drain, share of the SQL floor",
        "idle, coordinator",
    ]
    assert "9,000 (8,000–10,000)" in lines[1] and "20,000" in lines[1]
    assert "0.45 (0.4–0.5)" in lines[2] and "≥ 0.5" in lines[2] and "MISSED" in lines[2]
    assert "≤ 1" in lines[3] and "MISSED" not in lines[3] and "met" in lines[3]


def test_the_plot_has_a_bar_on_the_right_side_for_each_figure_with_a_target() -> None:
    picture = ElementTree.fromstring(plot.margins({"drain": [{"jobs_per_s": 9_000.0, "ratio": 0.25, "cpu_us": 80.0}]}))
    paper, *bars = [e.attrib for e in picture.iter("{http://www.w3.org/2000/svg}rect")]
    assert len(bars) == 2
    missed, met = bars
    assert missed["fill"] != met["fill"]
    # The one ends where the other begins: at the target.
    assert float(missed["x"]) + float(missed["width"]) == pytest.approx(float(met["x"]), abs=0.2)
    assert float(missed["x"]) > 0
    assert float(met["x"]) + float(met["width"]) < float(paper["width"])


def test_the_driver_of_the_peer_benchmark_takes_jobs_and_records_each_start(
    empty_database: str, tmp_path: Path
) -> None:
    events = tmp_path / "events"
    environment = {**os.environ, "DATABASE_URL": empty_database, "BENCH_EVENTS": str(events), "BENCH_CONC": "10"}
    driver = [str(ROOT / "bench" / "peer" / "driver")]
    pending = json.loads((ROOT / "bench" / "peer" / "peer.json").read_text())["pending_sql"]

    def ask(*verb: str) -> dict[str, Any]:
        done = subprocess.run([*driver, *verb], env=environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout) if done.stdout else {}
        assert isinstance(answer, dict)
        return answer

    def waiting() -> int:
        with psycopg.connect(empty_database) as conn:
            row = conn.execute(pending.encode()).fetchone()
            assert row is not None
            return int(row[0])

    ask("setup")
    assert ask("preload", "--n", "50")["secs"] > 0
    assert waiting() == 0
    assert ask("enqueue", "--n", "30")["secs"] > 0
    assert waiting() == 30
    worker = subprocess.Popen([*driver, "worker"], env=environment, start_new_session=True)
    try:
        eventually(lambda: events.exists() and len(events.read_bytes()) == 30 * 40, within_s=30)
        due = time.time() + 1
        ask("enqueue", "--n", "5", "--at", str(due))
        eventually(lambda: waiting() == 0, within_s=30)
    finally:
        os.killpg(worker.pid, signal.SIGTERM)
        worker.wait(20)
    lines = [line.split() for line in events.read_text().splitlines()]
    assert {(kind, int(number)) for kind, number, *_ in lines[:30]} == {("s", number) for number in range(30)}
    assert sorted(int(number) for _, number, *_ in lines[30:]) == list(range(5))
    assert all(float(at) >= due for _, _, at, _ in lines[30:])
