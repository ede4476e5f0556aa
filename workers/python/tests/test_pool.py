"""Threads for blocking handlers."""

import threading

from rota_sdk.pool import Pool


def test_every_item_runs_and_blocking_ones_run_side_by_side() -> None:
    together = threading.Barrier(8)
    pool: Pool[int] = Pool(8, lambda _: together.wait(5) and None, "test-pool")
    pool.submit(range(4))
    pool.submit(range(4))
    assert pool.close(5) and not together.broken and together.n_waiting == 0


def test_no_more_threads_than_its_size() -> None:
    seen: set[int] = set()
    done = threading.Semaphore(0)

    def work(_: int) -> None:
        seen.add(threading.get_ident())
        done.release()

    pool: Pool[int] = Pool(3, work, "test-pool")
    pool.submit(range(1000))
    for _ in range(1000):
        assert done.acquire(timeout=5)
    assert 1 <= len(seen) <= 3
    assert pool.close(5)


def test_work_that_comes_while_all_are_busy_is_taken_by_the_first_free_one() -> None:
    gate, second = threading.Event(), threading.Event()
    pool: Pool[str] = Pool(1, lambda item: gate.wait(5) and None if item == "first" else second.set(), "test-pool")
    pool.submit(["first"])
    pool.submit(["second"])
    assert not second.is_set()
    gate.set()
    assert second.wait(5)
    assert pool.close(5)


def test_closing_does_not_wait_for_ever() -> None:
    gate = threading.Event()
    pool: Pool[int] = Pool(2, lambda _: gate.wait(5) and None, "test-pool")
    pool.submit([1])
    assert not pool.close(0.05)
    gate.set()
    assert pool.close(5)
