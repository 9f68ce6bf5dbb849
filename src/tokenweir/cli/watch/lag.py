"""How far the consumer groups are behind."""

from aiokafka import TopicPartition

from tokenweir.cli.log import Log
from tokenweir.cli.pools import Row
from tokenweir.topics import Topics


async def rows_of(log: Log, topics: Topics) -> list[Row]:
    """One row a group and topic of ours that it reads: its lag over all partitions, in records."""
    ours = {topics.usage, topics.control, topics.journal, topics.dead_letter, topics.spend}
    rows = []
    for group in sorted(name for name, *_ in await log.admin.list_consumer_groups()):
        offsets = await log.admin.list_consumer_group_offsets(group)
        at = {part: found.offset for part, found in offsets.items() if part.topic in ours}
        rows += await _rows(log, group, at)
    return rows


async def _rows(log: Log, group: str, at: dict[TopicPartition, int]) -> list[Row]:
    ends = await log.ends(list(at)) if at else {}
    return [
        {
            "group": group,
            "topic": topic,
            "partitions": sum(part.topic == topic for part in at),
            "lag_records": sum(
                max(0, ends[part] - max(0, offset))
                for part, offset in at.items()
                if part.topic == topic
            ),
        }
        for topic in sorted({part.topic for part in at})
    ]
