"""The one way into ClickHouse: clickhouse-connect over HTTP, our own engine or a server alike."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote, urlsplit

import clickhouse_connect
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import Error
from urllib3.exceptions import HTTPError

from tokenweir.errors import BadInput, Unavailable

ANSWER_S = 20  # how long an insert or a query may take

# It logs each failed request with its traceback; callers get the error itself.
logging.getLogger("clickhouse_connect").setLevel(logging.CRITICAL)


def connect(url: str) -> Client:
    """A client for `http://user:password@host:port/database`, all but the host optional.

    It has no session, so threads may share it; times come back aware, in UTC. Raises `BadInput`
    for another kind of URL and `Unavailable` when nothing answers there.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadInput(f"ClickHouse URL {url!r}: http://host:port is allowed")
    with answered(url):
        return clickhouse_connect.get_client(
            interface=parts.scheme,
            host=parts.hostname,
            port=parts.port or (8443 if parts.scheme == "https" else 8123),
            username=unquote(parts.username) if parts.username else None,
            password=unquote(parts.password or ""),
            database=parts.path.strip("/") or "default",
            connect_timeout=5,
            send_receive_timeout=ANSWER_S,
            autogenerate_session_id=False,
            tz_mode="aware",
        )


@contextmanager
def answered(what: str) -> Iterator[None]:
    """Turn whatever the driver raises into `Unavailable`, with the engine's own words."""
    try:
        yield
    except (Error, HTTPError, OSError) as error:
        first = next(iter(str(error).splitlines()), type(error).__name__)
        raise Unavailable(
            f"ClickHouse ({what}): {first}; is it running? `python -m streams clickhouse` starts"
            " one, TOKENWEIR_CLICKHOUSE names another"
        ) from error
