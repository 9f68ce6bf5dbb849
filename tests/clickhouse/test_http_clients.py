"""The clients that people use, on a real engine: our own, or a real server where there is one."""

import asyncio
import gzip
import json
import subprocess
import threading
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode, urlsplit

import clickhouse_connect
import lz4.frame
import pytest
import urllib3
import zstandard
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import DatabaseError, StreamFailureError

from streams.clickhouse.blocks import from_blocks, to_blocks

pytestmark = pytest.mark.clickhouse

HTTP = urllib3.PoolManager()
NOON = datetime(2026, 1, 2, 12, 0, 0, 123000, UTC)
COLUMNS = {
    "id": "UInt64",
    "cost": "Decimal(38, 12)",
    "at": "DateTime64(3, 'UTC')",
    "tenant": "LowCardinality(String)",
    "maybe": "Nullable(Int32)",
    "tags": "Array(String)",
    "counts": "Map(String, UInt64)",
}


def row(i: int) -> list[Any]:
    cost = Decimal("1.000000000001") * i
    return [i, cost, NOON, f"tenant-{i % 3}", None if i % 2 else i, ["a", "é" * i], {"k": i}]


def connected(url: str, **options: Any) -> Client:
    parts = urlsplit(url)
    return clickhouse_connect.get_client(
        host=parts.hostname, port=parts.port, username=parts.username, tz_mode="aware", **options
    )


def post(url: str, body: bytes = b"", fields: Any = (), **headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return HTTP.request("POST", f"{url}/?{urlencode(fields)}", body=body, headers=named)


@pytest.fixture
def table(clickhouse_url: str) -> Iterator[str]:
    name = f"clients_{uuid.uuid4().hex[:8]}"
    columns = ", ".join(f"{column} {kind}" for column, kind in COLUMNS.items())
    assert (
        post(clickhouse_url, f"CREATE TABLE {name} ({columns}) ORDER BY id".encode()).status == 200
    )
    yield name
    post(clickhouse_url, f"DROP TABLE {name}".encode())


@pytest.mark.parametrize("compress", [True, False, "lz4", "zstd", "gzip"])
def test_connect_inserts_and_reads_with_and_without_compression(
    clickhouse_url: str, table: str, compress: bool | str
) -> None:
    client = connected(clickhouse_url, compress=compress)
    assert client.insert(table, [row(i) for i in range(300)]).written_rows == 300
    by_column = [list(column) for column in zip(*map(row, range(300, 600)), strict=True)]
    client.insert(table, by_column, column_names=list(COLUMNS), column_oriented=True)
    read = client.query(f"SELECT * FROM {table} ORDER BY id").result_rows
    assert [list(line) for line in read] == [row(i) for i in range(600)]
    client.close()


def test_connect_reads_arrays_and_frames(clickhouse_url: str) -> None:
    client = connected(clickhouse_url)
    numbers = client.query_np("SELECT number, number / 2 AS half FROM numbers(3)")
    assert numbers["half"].tolist() == [0, 0.5, 1]
    columns = client.query("SELECT number FROM numbers(3)", column_oriented=True)
    assert columns.result_columns == [[0, 1, 2]]
    assert len(client.query_df("SELECT number FROM numbers(3)")) == 3
    client.close()


def test_connect_passes_parameters_settings_and_raw_bytes(clickhouse_url: str, table: str) -> None:
    client = connected(clickhouse_url)
    values = {"n": 41, "s": "it's \t\\ é", "at": NOON}
    asked = client.query(
        "SELECT {n:Int32} + 1, {s:String}, {at:DateTime64(3, 'UTC')}", parameters=values
    )
    assert asked.first_row == (42, "it's \t\\ é", NOON)
    value = client.query("SELECT getSetting('max_threads')", settings={"max_threads": 1})
    assert value.first_row == (1,)
    assert client.raw_query("SELECT 1 AS x", fmt="JSONEachRow") == b'{"x":1}\n'
    client.raw_insert(table, ["id"], b"7\n8\n", fmt="TSV")
    assert client.command(f"SELECT sum(id) FROM {table}") == 15
    client.close()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SELECT * FROM no_such_table", 60),
        ("SELECT FROM WHERE", 62),
        ("SELECT no_such_column", 47),
        ("SELECT noSuchFunction(1)", 46),
        ("SELECT * FROM no_such_database.t", 81),
        ("SELECT throwIf(1)", 395),
        ("SELECT CAST('x' AS UInt8)", 6),
    ],
)
def test_connect_raises_the_engines_code(clickhouse_url: str, text: str, code: int) -> None:
    client = connected(clickhouse_url)
    with pytest.raises(DatabaseError) as raised:
        client.query(text)
    assert raised.value.code == code
    client.close()


def test_an_error_in_the_middle_of_an_answer_reaches_the_reader(clickhouse_url: str) -> None:
    client = connected(clickhouse_url)
    text = "SELECT throwIf(number = 900000) FROM numbers(1000000)"
    with (
        pytest.raises(StreamFailureError) as raised,
        client.query_row_block_stream(text, settings={"max_block_size": 10_000}) as stream,
    ):
        for _ in stream:
            pass
    assert raised.value.code == 395
    client.close()


async def test_the_async_client_asks_many_things_at_once(clickhouse_url: str, table: str) -> None:
    parts = urlsplit(clickhouse_url)
    client = await clickhouse_connect.get_async_client(host=parts.hostname, port=parts.port)
    await client.insert(table, [row(i) for i in range(100)])
    asked = [
        client.query(f"SELECT count() FROM {table} WHERE id < {{n:UInt64}}", parameters={"n": n})
        for n in range(0, 100, 10)
    ]
    counts = [answer.result_rows for answer in await asyncio.gather(*asked)]
    assert counts == [[(n,)] for n in range(0, 100, 10)]
    with pytest.raises(DatabaseError):
        await client.query("SELECT * FROM no_such_table")
    await client.close()


def test_readers_see_whole_blocks_while_a_writer_writes(clickhouse_url: str, table: str) -> None:
    seen: list[int] = []
    done = threading.Event()

    def read() -> None:
        client = connected(clickhouse_url)
        while not done.is_set():
            seen.append(int(str(client.command(f"SELECT count() FROM {table}"))))
        client.close()

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    writer = connected(clickhouse_url)
    for start in range(0, 10_000, 1000):
        writer.insert(
            table, [row(0)] * 1000, settings={"insert_deduplicate": 0, "log_comment": start}
        )
    done.set()
    for reader in readers:
        reader.join()
    writer.close()
    assert {count % 1000 for count in seen} == {0}


def test_curl_reads_and_writes(clickhouse_url: str, table: str) -> None:
    def curl(*arguments: str, data: bytes | None = None) -> bytes:
        command = ["curl", "-sS", "--max-time", "20", *arguments]
        return subprocess.run(command, input=data, stdout=-1, check=True, timeout=150).stdout

    assert curl(f"{clickhouse_url}/ping") == b"Ok.\n"
    assert curl(f"{clickhouse_url}/?query=SELECT%201") == b"1\n"
    assert curl(clickhouse_url, "-d", "SELECT 2 FORMAT CSV") == b"2\n"
    insert = f"{clickhouse_url}/?query=INSERT%20INTO%20{table}%20(id)%20FORMAT%20TSV"
    curl(insert, "--data-binary", "@-", data=b"1\n2\n")
    curl(insert, "-H", "Transfer-Encoding: chunked", "--data-binary", "@-", data=b"3\n")
    packed = gzip.compress(b"4\n")
    curl(insert, "-H", "Content-Encoding: gzip", "--data-binary", "@-", data=packed)
    curl(clickhouse_url, "-d", f"INSERT INTO {table} (id) VALUES (5), (2 * 3)")
    assert curl(
        clickhouse_url, "-d", f"SELECT groupArray(id) FROM (SELECT id FROM {table} ORDER BY id)"
    ) == (b"[1,2,3,4,5,6]\n")
    assert b"UNKNOWN_TABLE" in curl(clickhouse_url, "-d", "SELECT * FROM no_such_table")


def test_dashboards_get_json_with_its_headers(clickhouse_url: str) -> None:
    answer = post(clickhouse_url, b"SELECT 1 AS x", {"default_format": "JSON", "query_id": "q-1"})
    assert answer.headers["Content-Type"] == "application/json; charset=UTF-8"
    assert answer.headers["X-ClickHouse-Format"] == "JSON"
    assert answer.headers["X-ClickHouse-Query-Id"] == "q-1"
    assert answer.headers["X-ClickHouse-Timezone"]
    assert json.loads(answer.headers["X-ClickHouse-Summary"])["read_rows"] == "1"
    assert json.loads(answer.data)["data"] == [{"x": 1}]


@pytest.mark.parametrize("size", [1, 1_000_000])
@pytest.mark.parametrize("coding", ["gzip", "lz4", "zstd"])
def test_http_compression_is_what_it_says(clickhouse_url: str, size: int, coding: str) -> None:
    answer = HTTP.request(
        "POST",
        f"{clickhouse_url}/?enable_http_compression=1",
        body=f"SELECT number FROM numbers({size})".encode(),
        headers={"Accept-Encoding": coding},
        decode_content=False,
    )
    assert answer.headers["Content-Encoding"] == coding
    unpack = {
        "gzip": gzip.decompress,
        "lz4": lz4.frame.decompress,
        "zstd": lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data),
    }
    assert unpack[coding](answer.data).split() == [str(n).encode() for n in range(size)]


@pytest.mark.parametrize("rows", [0, 5, 200_000])
def test_native_blocks_go_both_ways_as_clickhouse_go_sends_them(
    clickhouse_url: str, table: str, rows: int
) -> None:
    native = post(
        clickhouse_url, f"SELECT number AS id FROM numbers({rows}) FORMAT Native".encode()
    )
    fields = {"query": f"INSERT INTO {table} (id) FORMAT Native", "decompress": 1, "compress": 1}
    # The driver ends with an empty block.
    sent = post(clickhouse_url, to_blocks(native.data) + to_blocks(b"\x00\x00"), fields)
    assert (sent.status, sent.data) == (200, b"")
    asked = {"default_format": "Native", "compress": 1}
    answer = post(clickhouse_url, f"SELECT count() AS n FROM {table}".encode(), asked)
    block = b"\x01\x01\x01n\x06UInt64" + rows.to_bytes(8, "little")
    assert b"".join(from_blocks(answer.data, 1000)) == block


def test_a_recent_protocol_version_gets_block_info(clickhouse_url: str) -> None:
    fields = {"default_format": "Native", "client_protocol_version": 54460}
    answer = post(clickhouse_url, b"SELECT toUInt8(7) AS a", fields)
    info = b"\x01\x00\x02\xff\xff\xff\xff\x00"
    assert answer.data == info + b"\x01\x01\x01a\x05UInt8\x00\x07"


def test_columns_of_every_kind_end_where_they_should(clickhouse_url: str) -> None:
    """A column whose end is misjudged would shift all that follows."""
    columns = (
        "number, toString(number) AS s, toNullable(s) AS n, toLowCardinality(s) AS lc,"
        " toLowCardinality(toNullable(s)) AS lcn, [s, s] AS a, [[lc]] AS aa, map(s, [number]) AS m,"
        " tuple(number, s, lc) AS t,"
        " CAST((1, 'x'), 'Tuple(a Int8, b LowCardinality(String))') AS nt,"
        " toDecimal128(1, 12) AS d128, toDecimal32(1, 2) AS d32, toFixedString('ab', 3) AS fs,"
        " now64(3, 'UTC') AS dt, generateUUIDv4() AS u, true AS b, NULL AS nothing,"
        " CAST('a', 'Enum8(\\'a\\' = 1, \\'x,)(\\' = 2)') AS e, toIPv6('::1') AS ip,"
        " INTERVAL 1 DAY AS i, (1.5, 2.5)::Point AS p, [(1., 2.)]::Ring AS r, [] AS none,"
        " toInt256(1) AS big, map(lc, toNullable(lc)) AS mlc, toDate32('2020-01-01') AS d"
    )
    text = (
        f"SELECT {columns} FROM numbers(1000) SETTINGS allow_suspicious_low_cardinality_types = 1"
    )
    fields = {"default_format": "Native", "max_block_size": 300}
    plain = post(clickhouse_url, text.encode(), fields)
    assert plain.status == 200, plain.data
    answer = post(clickhouse_url, text.encode(), {**fields, "client_protocol_version": 54460})
    assert answer.status == 200, answer.data
    blocks, extra = divmod(len(answer.data) - len(plain.data), 8 + 26)
    assert (extra, blocks > 0) == (0, True)
