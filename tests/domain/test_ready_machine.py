"""The queue in memory, with tenants, gates, weights and bounds, against a plain dictionary of waiting jobs."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rota.domain.fairness import Entry, LaneKey, ReadyQueue, Wants
from rota.domain.ids import ShardNo, TenantId
from rota.domain.limiting import Gate

from .build import entry

TENANTS = (TenantId(1), TenantId(2))
QUEUES = ("q", "p")
KEYS = ("", "", "x", "y")
PLENTY = 1 << 30

tenants = st.sampled_from(TENANTS)
gates = st.sampled_from(
    [Gate(tenant) for tenant in TENANTS]
    + [Gate(tenant, queue, key) for tenant in TENANTS for queue in QUEUES for key in ("", "x", "y")]
)
wants = st.builds(
    Wants,
    tenants,
    st.sampled_from([("q",), ("p",), ("q", "p"), ("p", "q", "p")]),
    st.sampled_from([frozenset[str](), frozenset("a"), frozenset("ab"), frozenset("abc")]),
)


class ReadyAgainstDictionary(RuleBasedStateMachine):
    """`rows` is the database. What is in memory is asked of the queue; that nothing is lost shows when all is taken
    and read again to the end."""

    LANE_MAX = 5
    ENTRIES_MAX = 14

    def __init__(self) -> None:
        super().__init__()
        self.queue = ReadyQueue(self.LANE_MAX, self.ENTRIES_MAX)
        self.rows: dict[str, Entry] = {}
        self.asleep: set[tuple[TenantId, str]] = set()
        self.number = 0

    @rule(
        many=st.integers(1, 4),
        tenant_id=tenants,
        queue=st.sampled_from(QUEUES),
        type=st.sampled_from("ab"),
        concurrency_key=st.sampled_from(KEYS),
        due_s=st.integers(0, 400),
        priority=st.integers(0, 9),
        shard=st.integers(0, 1),
        size=st.integers(0, 5),
        start_by=st.none() | st.integers(0, 500),
    )
    def jobs_become_due(self, many: int, due_s: int, shard: int, **changes: Any) -> None:
        for _ in range(many):
            self.number += 1
            item = entry(self.number, due_us=due_s * 1_000_000, shard=ShardNo(shard), **changes)
            self.rows[item.id] = item
            self.push(item)

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def a_job_is_read_again(self, data: st.DataObject) -> None:
        self.push(self.rows[data.draw(st.sampled_from(sorted(self.rows)))])

    @rule(wants=wants, count=st.integers(0, 6), room=st.integers(0, 12))
    def a_worker_takes(self, wants: Wants, count: int, room: int) -> None:
        open_jobs = self.open_jobs(wants)
        first = self.queue.peek(wants)
        assert self.queue.count(wants, 1_000) == len(open_jobs)
        assert self.queue.count(wants, 2) == min(len(open_jobs), 2)
        taken = self.queue.take(wants, count, room)
        best = {
            queue: sorted((e for e in open_jobs if e.queue == queue), key=lambda e: (e.order, e.id))
            for queue in wants.queues
        }
        for queue in best:
            own = [e for e in taken if e.queue == queue]
            assert own == best[queue][: len(own)]
            best[queue] = best[queue][len(own) :]
        assert len(taken) <= count
        assert len(taken) < 2 or sum(e.size for e in taken) <= room
        left = [jobs[0] for jobs in best.values() if jobs]
        if len(taken) < count and left:
            assert taken and any(sum(e.size for e in taken) + e.size > room for e in left)
        assert (first is None) == (not open_jobs)
        if taken:
            assert taken[0].order == first
        self.leave(taken)

    @rule(room=st.integers(1, 30), turn_jobs=st.integers(1, 3))
    def a_round_with_workers_everywhere(self, room: int, turn_jobs: int) -> None:
        turns = 0
        while room and (turn := self.queue.next_turn()) is not None:
            turns += 1
            assert turns < 200, "the turns do not end"
            taken = self.queue.take(Wants(turn[0], (turn[1],), frozenset()), min(room, turn_jobs), PLENTY)
            if not taken:
                assert not self.open_jobs(Wants(turn[0], (turn[1],), frozenset()))
                self.pass_over(turn)
            room -= len(taken)
            self.leave(taken)
        if room:
            assert set(self.queue.queues()) <= self.asleep

    @rule(turns=st.integers(1, 4))
    def a_round_without_workers(self, turns: int) -> None:
        for _ in range(turns):
            turn = self.queue.next_turn()
            if turn is not None:
                self.pass_over(turn)

    @rule(tenant=tenants, queue=st.sampled_from(QUEUES))
    def a_worker_comes(self, tenant: TenantId, queue: str) -> None:
        self.queue.wake(tenant, queue)
        self.asleep.discard((tenant, queue))

    @rule(gate=gates)
    def a_gate_closes(self, gate: Gate) -> None:
        self.queue.close(gate)
        assert gate in self.queue.closed

    @precondition(lambda self: self.queue.closed)
    @rule(data=st.data())
    def a_gate_opens(self, data: st.DataObject) -> None:
        gate = data.draw(st.sampled_from(sorted(self.queue.closed)))
        self.queue.open(gate)
        assert gate not in self.queue.closed
        self.asleep -= {(t, q) for t, q in self.asleep if t == gate.tenant_id and gate.queue in ("", q)}

    @rule(
        tenant_weights=st.dictionaries(tenants, st.sampled_from((1, 100, 1_000))),
        queue_weights=st.dictionaries(st.tuples(tenants, st.sampled_from(QUEUES)), st.sampled_from((1, 7, 1_000))),
    )
    def weights_change(
        self, tenant_weights: dict[TenantId, int], queue_weights: dict[tuple[TenantId, str], int]
    ) -> None:
        self.queue.set_weights(tenant_weights, queue_weights)

    @rule()
    def the_poller_refills(self) -> None:
        for lane, left_out in self.queue.refillable():
            rows = [
                e
                for e in self.rows.values()
                if lane.covers(e) and e.shard in left_out and e.position >= left_out[e.shard]
            ]
            rows.sort(key=lambda e: e.position)
            for number, item in enumerate(rows):
                if self.queue.is_full(lane):
                    for rest in rows[number:]:
                        self.queue.leave_out(lane, rest.shard, rest.position)
                    break
                self.push(item)

    @rule(shard=st.integers(0, 1))
    def a_shard_is_lost(self, shard: int) -> None:
        self.queue.forget_shards(frozenset({ShardNo(shard)}))
        self.leave([e for e in self.rows.values() if e.shard == shard])

    @rule(now=st.integers(0, 500))
    def start_by_passes(self, now: int) -> None:
        late = {e.id for e in self.held() if e.start_by is not None and e.start_by <= now}
        gone = self.queue.expired(now)
        assert {e.id for e in gone} == late
        self.leave(gone)

    @invariant()
    def memory_is_bounded_and_true(self) -> None:
        held = self.held()
        assert len(self.queue) == len(held)
        lanes: dict[LaneKey, int] = {}
        for item in held:
            lanes[item.lane] = lanes.get(item.lane, 0) + 1
        # A lane, and those of its two keys.
        assert all(count <= (self.LANE_MAX + self.LANE_MAX // 4) * 3 for count in lanes.values())
        open_pairs = {(e.tenant_id, e.queue) for e in held if self.is_open(e)}
        assert set(self.queue.queues()) == open_pairs

    def teardown(self) -> None:
        """Every waiting job comes out once all gates are open, and then nothing is left."""
        for gate in sorted(self.queue.closed):
            self.queue.open(gate)
        for _ in range(len(self.rows) + 5):
            self.the_poller_refills()
            for tenant in TENANTS:
                self.a_worker_takes(Wants(tenant, QUEUES, frozenset()), 99, PLENTY)
        assert self.rows == {}
        assert self.queue.refillable() == []
        assert len(self.queue) == 0

    def push(self, item: Entry) -> None:
        known = item.id in self.queue
        accepted = self.queue.push(item)
        assert accepted == (item.id in self.queue)
        assert accepted or not known
        if accepted and not known:
            self.asleep.discard((item.tenant_id, item.queue))

    def pass_over(self, turn: tuple[TenantId, str]) -> None:
        self.queue.pass_over(*turn)
        self.asleep.add(turn)

    def leave(self, gone: list[Entry]) -> None:
        for item in gone:
            assert item.id not in self.queue
            del self.rows[item.id]

    def held(self) -> list[Entry]:
        return [e for e in self.rows.values() if e.id in self.queue]

    def is_open(self, item: Entry) -> bool:
        passed = {Gate(item.tenant_id), Gate(item.tenant_id, item.queue)}
        if item.concurrency_key:
            passed.add(Gate(item.tenant_id, item.queue, item.concurrency_key))
        return not passed & self.queue.closed

    def open_jobs(self, wants: Wants) -> list[Entry]:
        return [
            e
            for e in self.held()
            if e.tenant_id == wants.tenant_id
            and e.queue in wants.queues
            and (not wants.types or e.type in wants.types)
            and self.is_open(e)
        ]


TestReadyAgainstDictionary = ReadyAgainstDictionary.TestCase
TestReadyAgainstDictionary.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
