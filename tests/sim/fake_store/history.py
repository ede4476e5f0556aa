"""What is forgotten."""

from collections.abc import Callable

from .tables import Port


class FakeHistory(Port):
    """HistoryStore, with one partition for everything."""

    async def make_partitions(self, days_ahead: int, history_s: float | None = None) -> list[str]:
        return await self._write("make_partitions", list)

    async def drop_partitions(self, older_than_s: float) -> list[str]:
        return await self._write("drop_partitions", list)

    async def forget_schedules(self, older_than_s: float, limit: int) -> int:
        return await self._write("forget_schedules", lambda: 0)

    async def delete_requests(self, older_than_s: float, limit: int) -> int:
        def work() -> int:
            db, since_us = self._db, self._db.now_us - round(older_than_s * 1e6)
            gone: list[Callable[[], object]] = []
            windows = [
                (h.until_us, k) for k, h in db.holds.items() if h.until_us is not None and h.until_us < db.now_us
            ]
            ended = [k for k, h in db.holds.items() if h.until_us is None and (k[0], h.job) not in db.jobs]
            closed = [k for k, s in db.sessions.items() if s.closed_us is not None and s.closed_us < since_us]
            old = [(r.created_us, k) for k, r in db.requests.items() if r.created_us < since_us]
            gone += [lambda k=k: db.requests.pop(k) for _, k in sorted(old)[:limit]]
            gone += [lambda k=k: db.holds.pop(k) for _, k in sorted(windows)[:limit]]
            gone += [lambda k=k: db.holds.pop(k) for k in ended[:limit]]
            gone += [lambda k=k: db.sessions.pop(k) for k in closed[:limit]]
            for forget in gone:
                forget()
            return len(gone)

        return await self._write("delete_requests", work)
