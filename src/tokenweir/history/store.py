"""What the tables say of themselves: whether they are right, and where reading goes on (H2)."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from clickhouse_connect.driver.client import Client

from tokenweir.errors import BadInput
from tokenweir.history.client import answered
from tokenweir.history.ddl import Table, quoted
from tokenweir.history.insert import comment_of
from tokenweir.history.journal import Entry, Seen
from tokenweir.history.lane import JournalReader, Lane, Reader, UsageReader
from tokenweir.history.rows import Place
from tokenweir.history.sequences import KEPT_MS, restored
from tokenweir.history.tables import AUDIT, DECISIONS, RECORDS, TABLES, VIEWS


def prepare(client: Client) -> str:
    """Create what is missing and check what is there; returns the server's time zone.

    Raises `BadInput` that names each column that is missing or of another type.
    """
    with answered("create tables"):
        for part in (*TABLES, *VIEWS):
            client.command(part.ddl())
    problems = [problem for table in TABLES for problem in _problems(client, table)]
    if problems:
        raise BadInput(
            "\n".join(problems) + "\nrename these tables, or name another database in"
            " TOKENWEIR_CLICKHOUSE (http://host:port/database)"
        )
    return str(_rows(client, "SELECT timezone()", {})[0][0])


def open_usage(client: Client, place: Place, partitions: int) -> Lane:
    """The lane of one of the usage log's partitions, its predecessor's inserts ended (H2)."""
    end_predecessor(client, place)
    sequences = _rows(client, LAST_SEQUENCES, _of(place) | {"kept": KEPT_MS})
    clocks = _rows(client, CLOCKS, _of(place) | {"kept": KEPT_MS})
    return _lane(client, place, UsageReader(restored(sequences, clocks), partitions))


def open_journal(client: Client, place: Place) -> Lane:
    """The lane of a partition of the journal, its predecessor's inserts ended (H2)."""
    end_predecessor(client, place)
    newest = {
        (table.name, pool): at_ms
        for table in (DECISIONS, AUDIT)
        for pool, at_ms in _rows(client, NEWEST.format(table=table.name), _of(place))
    }
    return _lane(client, place, JournalReader(Seen(newest)))


def end_predecessor(client: Client, place: Place) -> None:
    """End what an earlier sink of this partition may still be inserting, and wait for it."""
    with answered("end the predecessor's inserts"):
        client.command(
            f"KILL QUERY WHERE Settings['log_comment'] = {quoted(comment_of(place))} SYNC"
        )


def checksums(client: Client, entries: Sequence[Entry]) -> Mapping[str, int]:
    """Which of the entries the tables hold: their checksums by id."""
    found: dict[str, int] = {}
    by_home = sorted(entries, key=lambda entry: (str(entry.home), entry.entry.pool))
    for (home, pool), some in groupby(by_home, lambda entry: (entry.home, entry.entry.pool)):
        at = sorted({entry.entry.at_ms for entry in some})
        given = {"pool": pool, "first": at[0], "last": at[-1]}
        found.update(dict(_rows(client, CHECKSUMS.format(table=home), given)))
    return found


# The newest report of each gateway, of the last 24 h of the partition (R1).
RECENT = """
    topic = {topic:String} AND partition = {partition:UInt32} AND append_time >= (
        SELECT max(append_time) FROM records
        WHERE topic = {topic:String} AND partition = {partition:UInt32}
    ) - toIntervalMillisecond({kept:Int64})
"""
LAST_SEQUENCES = f"""
    SELECT pool, gateway, argMax(sequence, offset), toUnixTimestamp64Milli(max(append_time))
    FROM {RECORDS.name}
    WHERE {RECENT} AND kind = 'UsageReport' AND outcome NOT IN ('repeat', 'bad')
    GROUP BY pool, gateway
"""
CLOCKS = f"""
    SELECT pool, toUnixTimestamp64Milli(max(append_time))
    FROM {RECORDS.name} WHERE {RECENT} AND kind != '' GROUP BY pool
"""
NEWEST = """
    SELECT pool, toUnixTimestamp64Milli(max(at)) FROM {table}
    WHERE topic = {{topic:String}} AND partition = {{partition:UInt32}} GROUP BY pool
"""
LARGEST = """
    SELECT max(offset) FROM {table}
    WHERE topic = {{topic:String}} AND partition = {{partition:UInt32}}
    GROUP BY topic, partition
"""
CHECKSUMS = """
    SELECT id, checksum FROM {table} WHERE pool = {{pool:String}} AND checksum != 0
    AND at >= fromUnixTimestamp64Milli({{first:Int64}}, 'UTC')
    AND at <= fromUnixTimestamp64Milli({{last:Int64}}, 'UTC')
"""


def _lane(client: Client, place: Place, reader: Reader) -> Lane:
    held = {}
    for table in reader.tables:
        rows = _rows(client, LARGEST.format(table=table.name), _of(place))
        held[table.name] = rows[0][0] if rows else -1
    return Lane(place, reader, held)


def _of(place: Place) -> dict[str, Any]:
    return {"topic": place.topic, "partition": place.partition}


def _rows(client: Client, sql: str, given: Mapping[str, Any]) -> list[Any]:
    with answered("where to go on"):
        return list(client.query(sql, parameters=dict(given)).result_rows)


def _problems(client: Client, table: Table) -> list[str]:
    sql = (
        "SELECT name, type FROM system.columns"
        " WHERE database = currentDatabase() AND table = {table:String}"
    )
    there = dict(_rows(client, sql, {"table": table.name}))
    return [
        f"table {table.name}: column {column.name} is {there.get(column.name, 'missing')},"
        f" {column.type} is needed"
        for column in table.columns
        if there.get(column.name) != column.type
    ]
