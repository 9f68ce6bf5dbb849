"""What the history could not use, on its way to the dead-letter topic.

A letter is sent before the rows that say so are inserted: it is never lost, and after a crash
between the two it is sent again, under the same topic, partition and offset.
"""

from tokenweir.history.rows import Record
from tokenweir.records.journal import DeadLetter

READER = "history"
MOST_BYTES = 3 << 20  # of a value; the dead-letter topic takes records of 4 MiB


def letter(record: Record, reason: str) -> DeadLetter:
    """The dead letter of a record; a value that would not fit is left where it is."""
    fits = len(record.value or b"") <= MOST_BYTES
    return DeadLetter(
        topic=record.place.topic,
        partition=record.place.partition,
        offset=record.offset,
        timestamp_ms=record.append_ms,
        key=record.key,
        value=record.value if fits else None,
        reason=reason if fits else f"{reason} (the value is too large for a letter)",
        reader=READER,
    )
