"""A worker's watchdog: when it barks, what it says, and that it is told of what it cannot see."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiokafka import TopicPartition

from streams.folding import Folding
from streams.health import Positions, Watchdog, look
from streams.usage_log import UsageLog
from tests.chained import CHAINED
from tokenweir.topics import Topics
from tokenweir.usage_log import Message

HERE, THERE = TopicPartition("usage", 0), TopicPartition("usage", 1)


@dataclass(slots=True)
class Logs:
    """Partitions with the offsets at which there are messages, and where each one ends."""

    messages: dict[TopicPartition, list[int]] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    asked: int = 0

    async def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        self.asked += 1
        place = TopicPartition(topic, partition)
        there = self.messages.get(place, [])
        end = self.ends.get(place, there[-1] + 1 if there else 0)
        return (there[0] if there else end), end

    async def read(
        self, topic: str, partition: int, start: int, stop: int
    ) -> AsyncIterator[Message]:
        for offset in self.messages.get(TopicPartition(topic, partition), []):
            if start <= offset < stop:
                yield Message(offset, 0, None, None)


class Watched:
    """A watchdog that looks when it is told to, at a worker that goes on when it is told to."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.log = Logs()
        self.positions: dict[TopicPartition, int | None] = {HERE: 10}
        self.dog = Watchdog("nowhere:1", lambda: self.positions, lambda: self.now_s)

    async def after(self, seconds: float) -> tuple[str, ...]:
        """What it says then, with a look each five seconds."""
        for _ in range(round(seconds / 5)):
            self.now_s += 5
            log: Any = self.log
            self.dog.seen = await look(self.positions, self.dog.seen, self.now_s, log)
            self.dog.looked_s = self.now_s
        return self.dog.health().problems


@pytest.fixture
def watched() -> Watched:
    return Watched()


async def test_a_partition_without_messages_is_well(watched: Watched) -> None:
    assert await watched.after(600) == ()


async def test_a_partition_that_goes_on_is_well_and_kafka_is_not_asked(watched: Watched) -> None:
    watched.log.messages[HERE] = [*range(1_000)]
    for watched.positions[HERE] in range(10, 50):
        assert await watched.after(5) == ()
    assert watched.log.asked == 0


async def test_it_is_red_when_messages_have_waited_for_30_s_and_green_when_it_goes_on(
    watched: Watched,
) -> None:
    watched.positions = {HERE: 10, THERE: 10}
    await watched.after(60)
    watched.log.messages[HERE] = [10]
    assert await watched.after(25) == ()
    [problem] = await watched.after(5)
    assert problem.startswith(
        "partition 0 of usage: messages wait and none was finished for 30.0 s (since 20"
    )
    assert watched.dog.still_s() == {HERE: 30.0, THERE: 0.0}
    watched.positions[HERE] = 11
    assert await watched.after(5) == ()


async def test_a_partition_that_has_not_had_a_message_is_red_when_one_comes_and_is_not_taken(
    watched: Watched,
) -> None:
    """Its agent is dead, say. What was there before has been finished by others."""
    watched.positions[HERE] = None
    watched.log.messages[HERE] = [0, 1, 2]
    assert await watched.after(60) == ()
    watched.log.messages[HERE] = [0, 1, 2, 3]
    assert len(await watched.after(35)) == 1


async def test_a_partition_that_is_given_away_is_forgotten(watched: Watched) -> None:
    watched.log.messages[HERE] = [10]
    assert len(await watched.after(60)) == 1
    watched.positions = {}
    assert await watched.after(5) == ()


async def test_the_end_of_a_transaction_and_what_is_gone_do_not_wait(watched: Watched) -> None:
    watched.positions = {HERE: 10, THERE: 10}
    watched.log.messages[HERE], watched.log.ends[HERE] = [8, 9], 11
    watched.log.ends[THERE] = 500
    assert await watched.after(60) == ()


async def test_it_is_red_when_it_cannot_look_and_when_the_worker_says_so(watched: Watched) -> None:
    watched.now_s += 29
    assert watched.dog.health().ok
    watched.now_s += 2
    [problem] = watched.dog.health().problems
    assert problem.startswith("Kafka has not said where the partitions end for 31.0 s (since 20")
    assert await watched.after(5) == ()
    watched.dog.told = "nothing is written yet: ClickHouse is away"
    assert watched.dog.health().problems == (watched.dog.told,)


def test_what_a_worker_has_lost_is_not_among_its_positions() -> None:
    nothing: Any = None
    folding: Folding[Any] = Folding(
        UsageLog(CHAINED, Topics(""), 4), nothing, nothing, nothing, nothing
    )
    folding.assigned([0, 3])
    folding._reached(3, 7)
    folding._reached(1, 7)  # it was being folded when it was given away
    topic = Topics("").usage
    expected: Positions = {TopicPartition(topic, 0): None, TopicPartition(topic, 3): 7}
    assert folding.positions() == expected
