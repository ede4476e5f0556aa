"""The page of failures of others names every case once, with proofs that exist."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "tests" / "FAILURES.md"

BEHAVIOURS = """
beh-missed-two-hour-outage-daily beh-missed-new-schedule-no-backfill beh-missed-leader-handover-on-slot
beh-missed-laptop-sleep-skip beh-missed-year-bounded beh-missed-catchup-cap-keeps-newest beh-missed-dropped-visible
beh-missed-start-mid-period beh-dup-shared-node-name beh-dup-regained-leadership beh-dup-midnight-all
beh-dup-node-clock-skew beh-dup-lock-released-early beh-dup-startup-race beh-overlap-after-crash
beh-overlap-manual-trigger beh-overlap-retry-pending beh-overlap-replace-kills-retry beh-overlap-queue-key-retry
beh-zombie-rescue-overwrites-done beh-zombie-late-completion beh-zombie-same-worker-twice
beh-zombie-heartbeat-stale-token beh-zombie-token-in-store beh-worker-unknown-heartbeat beh-drain-keeps-heartbeats
beh-worker-vm-dies beh-lease-server-clock beh-stuck-worker-row-pruned beh-recovery-job-itself-stalls
beh-lease-renewed-many-times beh-lease-renewal-of-expired beh-lease-extension-short beh-poll-response-lost
beh-poll-timeout-honoured beh-poll-100k-cycles-memory beh-poll-handler-runs-on beh-channel-close-reader
beh-keepalive-30min-silence beh-goaway-during-poll beh-cancel-then-fail-no-retry beh-cancel-in-backoff
beh-resume-override-once beh-pause-with-leased-runs beh-pause-resume-two-entries beh-edit-interval-takes-effect
beh-edit-payload-next-run beh-delete-recreate beh-backoff-huge-attempt beh-backoff-no-cap-given
beh-backoff-first-retry-nonzero beh-starve-one-slot beh-priority-of-recovered beh-low-priority-progress
beh-tenant-burst beh-clock-forward-then-back beh-suspend-late beh-clock-forward-linear beh-clock-step-between-reads
beh-nul-in-payload beh-lone-surrogate beh-payload-round-trip beh-lease-batch-over-limit beh-oversized-result
beh-payload-limit-at-submit beh-idem-same-key-same-body beh-idem-same-key-other-body beh-idem-key-scope
beh-idem-error-not-cached beh-page-join-limit beh-page-stale-cursor beh-page-deep-cost
beh-intervals-aligned-after-restart beh-empty-poll-herd beh-hash-minute-stable beh-sigterm-drain beh-drain-announced
beh-drain-bounded-phases beh-listen-lost beh-listen-half-open beh-standby-error-loop beh-db-down-at-completion
beh-db-down-at-boot beh-failover-commit-unknown beh-pool-mass-restart beh-migrate-rewrite
beh-migrate-old-rows-ignored beh-migrate-lock-queue beh-mixed-versions beh-plan-many-scheduled beh-plan-dead-tuples
beh-plan-backlog-stale-stats beh-plan-per-row-subquery beh-metrics-ids beh-metrics-tenants
beh-metrics-periodic-children beh-trace-leak-after-retry beh-trace-recurring-no-giant-trace beh-long-job-vs-reaper
beh-jenkins-equal-lines beh-tenant-wait-plateau beh-outbox-commit-then-crash beh-outbox-gap-order
beh-dead-replay-payload-and-count
""".split()  # noqa: SIM905

STORIES = [f"story-{number}" for number in range(1, 56)]

NODE = re.compile(r"`((?:tests|workers/python/tests)/[\w/]+\.py)::(test_\w+)`")


def rows() -> list[list[str]]:
    """The cells of each row that is a case: its name, where it was seen, what is promised, and the proof last."""
    found = []
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if cells and cells[0] != "case" and not set(cells[0]) <= set("-"):
            found.append(cells)
    return found


@cache
def proofs_in(path: str) -> frozenset[str]:
    """The tests that a file defines, of which nothing is imported."""
    tree = ast.parse((ROOT / path).read_text())
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in tree.body if isinstance(node, functions))


def test_every_case_is_there_once() -> None:
    assert Counter(cells[0] for cells in rows()) == Counter([*BEHAVIOURS, *STORIES])


@pytest.mark.parametrize("cells", rows(), ids=lambda cells: cells[0])
def test_what_proves_a_case_exists(cells: list[str]) -> None:
    *told, proof = cells
    assert all(told), "a cell is empty"
    named = NODE.findall(proof)
    assert named and not NODE.sub("", proof).strip(), f"expected names of tests alone, found {proof}"
    for path, name in named:
        assert (ROOT / path).is_file(), path
        assert name in proofs_in(path), f"{path} has no {name}"
