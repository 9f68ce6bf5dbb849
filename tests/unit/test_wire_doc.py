"""`docs/wire.md` is true to the schemas, and its example to the encoder."""

import re

from tests.unit.wire_tables import EXAMPLE, PAGE, example, page
from tokenweir.records.control import Barred
from tokenweir.topics import Topics, partition_of
from tokenweir.wire import decode

TEXT = PAGE.read_text(encoding="utf-8")


def test_the_tables_are_those_of_the_schemas() -> None:
    """If not: `python -m tests.unit.wire_tables` writes them again."""
    assert page(TEXT) == TEXT


def test_the_bytes_of_the_example_are_the_record_that_it_explains() -> None:
    data = bytes.fromhex(" ".join(line[:23] for line in example().splitlines()[1:-1]))
    assert decode(data) == EXAMPLE


def test_every_topic_is_named() -> None:
    topics = Topics()
    for topic in (topics.usage, topics.control, topics.spend, topics.journal, topics.dead_letter):
        assert topic in TEXT


def test_the_partitions_of_the_page_are_kafkas() -> None:
    """Each line `| chat | … | partition |` of the table of murmur2 values."""
    rows = re.findall(r"^\| `(\S+)` \| (\d+) \| (\d+) \|$", TEXT, re.MULTILINE)
    assert len(rows) >= 3
    for pool, positive, partition in rows:
        assert int(positive) % 8 == int(partition) == partition_of(pool, 8)
        assert partition_of(pool, 2**31) == int(positive)


def test_the_reasons_of_the_page_are_those_of_the_record() -> None:
    assert Barred.__dataclass_fields__.keys() >= {"tenant", "reason", "until_ms"}
    for reason in ("suspended", "revoked", "no_grant", "quota"):
        assert f"`{reason}`" in TEXT
