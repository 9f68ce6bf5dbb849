"""`tokenweir sql`: ask the history; reading only."""

import sys
from collections.abc import Sequence
from typing import Any

from tokenweir.cli.settings import Settings
from tokenweir.cli.show import Column, show_json, show_table
from tokenweir.errors import BadInput, Unavailable

READ_ONLY = {"readonly": 2}  # ClickHouse then refuses whatever writes; clients may set formats


def run(settings: Settings, query: str, output: str) -> None:
    """Print what the query finds; `-` reads it from standard input."""
    names, rows = _ask(settings.need_clickhouse(), sys.stdin.read() if query == "-" else query)
    if output == "json":
        show_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        columns = [Column(name, right=_is_number(rows, at)) for at, name in enumerate(names)]
        show_table(columns, [[_text(value) for value in row] for row in rows])


def _ask(url: str, query: str) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    import clickhouse_connect
    from clickhouse_connect.driver.exceptions import ClickHouseError, DatabaseError

    try:
        client = clickhouse_connect.get_client(
            dsn=url, settings=READ_ONLY, connect_timeout=5, query_limit=0
        )
    except (ClickHouseError, OSError) as error:
        raise Unavailable(_down(url)) from error
    try:
        result = client.query(query)
    except DatabaseError as error:
        raise BadInput(_reason(error)) from error
    except (ClickHouseError, OSError) as error:
        raise Unavailable(_down(url)) from error
    finally:
        client.close()
    return result.column_names, result.result_rows


def _down(url: str) -> str:
    return (
        f"ClickHouse at {url} does not answer: start it (`python -m streams up`), "
        "or name another with --clickhouse"
    )


def _reason(error: Exception) -> str:
    """ClickHouse's own words, on one line."""
    return " ".join(str(error).split())


def _is_number(rows: Sequence[Sequence[Any]], at: int) -> bool:
    from decimal import Decimal

    return bool(rows) and isinstance(rows[0][at], (int, float, Decimal))


def _text(value: Any) -> str:
    return "" if value is None else str(value)
