"""One block into one table, whole or not at all, and never sent twice (H1)."""

from threading import Lock

from clickhouse_connect.datatypes.registry import get_from_name
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.insert import InsertContext
from clickhouse_connect.driver.transform import NativeTransform

from tokenweir.history.client import answered
from tokenweir.history.rows import Block, Place

# One block stays one block, and one block is one part: no buffer in the server, nothing cut or
# spread over threads, and an error rather than a second part when rows of two days meet.
WHOLE = {
    "async_insert": 0,
    "max_insert_block_size": 100_000_000,
    "min_insert_block_size_rows": 100_000_000,
    "min_insert_block_size_bytes": 4_000_000_000,
    "max_insert_threads": 1,
    "max_partitions_per_insert_block": 1,
}

# Encoding takes four times the memory of the rows, and several threads would be no faster at it: it
# is done for one block at a time.
ENCODING = Lock()


def comment_of(place: Place) -> str:
    """The `log_comment` by which a successor finds this sink's inserts (H2)."""
    return f"tokenweir-history {place}"


def insert(client: Client, place: Place, block: Block) -> None:
    """Insert the block. After `Unavailable` its fate is unknown: the table must be asked."""
    with ENCODING:
        head, _, body = encoded(block).partition(b"\n")
    with answered(f"insert into {block.table.name}"):
        # Not `client.insert`: that sends a block again when the connection closes before the
        # answer, so that a block which the server took is there twice.
        client.command(
            head.decode(), data=body, settings={**WHOLE, "log_comment": comment_of(place)}
        )


def encoded(block: Block) -> bytes:
    """The statement, a line end, and the rows as one block of the Native format."""
    context = InsertContext(
        f"`{block.table.name}`",
        block.table.names,
        [get_from_name(column.type) for column in block.table.columns],
        list(block.columns.values()),
        column_oriented=True,
        block_size=len(block),
    )
    data = b"".join(NativeTransform.build_insert(context))
    if context.insert_exception is not None:
        raise context.insert_exception
    return data
