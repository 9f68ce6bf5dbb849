"""What the history could not use, on its way to the dead-letter topic.

A letter is sent before the rows that say so are inserted: it is never lost, and after a crash
between the two it is sent again, under the same topic, partition and offset.
"""

from tokenweir.history.rows import Record
from tokenweir.records.journal import DeadLetter

READER = "history"


def letter(record: Record, reason: str) -> DeadLetter:
    """The dead letter of a record."""
    return DeadLetter(
        topic=record.place.topic,
        partition=record.place.partition,
        offset=record.offset,
        timestamp_ms=record.append_ms,
        key=record.key,
        value=record.value,
        reason=reason,
        reader=READER,
    )
