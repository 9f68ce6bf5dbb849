"""`tokenweir sql`: ask the history; reading only."""

import logging
import sys
from collections.abc import Sequence
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

from tokenweir.cli.settings import Settings
from tokenweir.cli.show import Column, note, show_json, show_table
from tokenweir.errors import BadInput, Unavailable

READ_ONLY = {"readonly": 2}  # ClickHouse then refuses whatever writes; clients may set formats


def run(settings: Settings, query: str, output: str) -> None:
    """Print what the query finds; `-` reads it from standard input."""
    names, rows = _ask(settings.need_clickhouse(), sys.stdin.read() if query == "-" else query)
    if output == "json":
        show_json([dict(zip(names, row, strict=True)) for row in rows])
    elif not rows:
        note("no rows")
    else:
        columns = [Column(name, right=_is_number(rows, at)) for at, name in enumerate(names)]
        show_table(columns, [[_text(value) for value in row] for row in rows])


def connect(url: str) -> Any:
    """A client that only reads; raises `Unavailable` when nothing answers at `url`."""
    import clickhouse_connect
    from clickhouse_connect.driver.exceptions import ClickHouseError

    quiet()
    try:
        return clickhouse_connect.get_client(
            dsn=url,
            settings=READ_ONLY,
            connect_timeout=5,
            query_limit=0,
            autogenerate_session_id=False,
            tz_mode="aware",
        )
    except (ClickHouseError, OSError) as error:
        raise Unavailable(
            f"ClickHouse at {without_password(url)} does not answer: start it "
            "(`python -m streams up`), or name another with --clickhouse"
        ) from error


def without_password(url: str) -> str:
    """The URL as it may be shown."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _ask(url: str, query: str) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    from clickhouse_connect.driver.exceptions import ClickHouseError

    client = connect(url)
    try:
        result = client.query(query)
    except ClickHouseError as error:
        raise BadInput(reason(str(error))) from error
    finally:
        client.close()
    return result.column_names, result.result_rows


def reason(text: str) -> str:
    """ClickHouse's own words on one line, without what the client puts around them."""
    words = " ".join(text.split())
    return words.rpartition("server response: ")[2].partition(" (for url ")[0]


def quiet() -> None:
    """Our own errors say it; the client's log would say it again."""
    for name in ("clickhouse_connect", "urllib3"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _is_number(rows: Sequence[Sequence[Any]], at: int) -> bool:
    return bool(rows) and isinstance(rows[0][at], (int, float, Decimal))


def _text(value: Any) -> str:
    return "" if value is None else str(value)
