"""A ClickHouse of one's own: the engine (chDB) behind ClickHouse's HTTP interface, on loopback.

with LocalClickHouse(Path(".local/clickhouse")) as clickhouse:
    clickhouse.url  # "http://127.0.0.1:…"
"""

from streams.clickhouse.local import LocalClickHouse

__all__ = ["LocalClickHouse"]
