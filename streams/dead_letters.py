"""What could not be used, with the place that it came from and the reason."""

from tokenweir.records.journal import DeadLetter
from tokenweir.usage_log import Message

READER = "control"  # who could not use it


def dead_letter(
    topic: str, partition: int, message: Message, reason: str, reader: str = READER
) -> DeadLetter:
    """The letter for one message; the same bytes whenever it is made again (S6)."""
    return DeadLetter(
        topic=topic,
        partition=partition,
        offset=message.offset,
        timestamp_ms=message.append_ms,
        key=message.key,
        value=message.value,
        reason=reason,
        reader=reader,
    )
