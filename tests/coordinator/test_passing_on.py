"""A job that is told of to whom its shard has left is told on to its owner, and not back."""

from rota.domain.ids import CoordinatorId, ShardNo

from .fakes import PEER, World

TELLER = CoordinatorId("c9000000-0000-7000-8000-000000000000")


async def test_news_of_a_strange_job_go_on_to_its_owner() -> None:
    world = World()
    news = world.meet(6)
    entry = world.entry(1, shard=ShardNo(6))
    world.memory.take_waiting([entry], TELLER)
    assert list(news.waiting) == [entry]
    assert len(world.memory.ready) == 0


async def test_they_do_not_go_back_to_who_told_of_it() -> None:
    world = World()
    news = world.meet(6)
    world.memory.take_waiting([world.entry(1, shard=ShardNo(6))], PEER)
    assert list(news.waiting) == []
