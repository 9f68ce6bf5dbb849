"""ClickHouse's HTTP interface: `/`, `/ping`, and errors as ClickHouse tells them."""

import asyncio
import functools
import ipaddress
import logging
import secrets
import uuid
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from streams.clickhouse import answer
from streams.clickhouse.answer import Counts
from streams.clickhouse.blocks import from_blocks
from streams.clickhouse.compression import Encoder, NativeBlocks, decoded, encoder
from streams.clickhouse.desk import Desk
from streams.clickhouse.engine import Piece
from streams.clickhouse.errors import QueryError, refusal
from streams.clickhouse.pipe import Pipe
from streams.clickhouse.request import Fields, Query, check_user, read_fields, read_query

_HEAD_BYTES: Final = 1 << 20  # of the request's line, and of each header's field
_PATIENCE_S: Final = 300.0  # with a client that neither sends nor reads
_FIRST_PIECES: Final = 4  # gathered before the head is sent: small answers get a length
_SMALL_BYTES: Final = 1 << 16  # a body that is decompressed and parsed at once

log = logging.getLogger(__name__)


class Front:
    """The handlers, over one desk."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._limits = desk.engine.limits
        self._server = desk.engine.server
        self._held_bytes = 0  # of all bodies

    def runner(self) -> web.AppRunner:
        """Return the server, ready to be set up."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.handle)
        return web.AppRunner(
            app,
            handle_signals=False,
            handler_cancellation=True,  # a client that leaves ends its query
            auto_decompress=False,
            access_log=None,
            max_line_size=_HEAD_BYTES,
            max_field_size=_HEAD_BYTES,
            shutdown_timeout=0.1,
        )

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer any request; what goes wrong is told in ClickHouse's form."""
        fields: Fields = {}
        try:
            _check_caller(request.headers)
            fields = read_fields(request.raw_path.partition("?")[2])
            fields = {"query_id": str(uuid.uuid4()).encode(), **fields}
            return await self._route(request, fields)
        except QueryError as error:
            return self._failed(error, fields)
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception as error:
            log.exception("request failed")
            return self._failed(refusal(1001, f"{type(error).__name__}: {error}"), fields)

    async def _route(self, request: web.Request, fields: Fields) -> web.StreamResponse:
        path, get = request.path, request.method in ("GET", "HEAD")
        if path not in ("/", "/ping"):
            text = f"There is no handle {path}\n\nUse / or /ping for health checks.\n"
            return web.Response(status=404, text=text)
        if get and (path == "/ping" or "query" not in fields or request.method == "HEAD"):
            return web.Response(text="Ok.\n")
        if request.method not in ("GET", "POST"):
            raise refusal(48, f"The method {request.method} is not supported: use GET or POST.")
        check_user(fields, request.headers)
        if request.content_type.startswith("multipart/"):
            raise refusal(48, "External data (multipart/form-data) is not supported.")
        return await self._query(request, fields)

    async def _query(self, request: web.Request, fields: Fields) -> web.StreamResponse:
        body = b""
        try:
            body = await self._body(request)
            limit = self._limits.body_bytes
            read = functools.partial(_read, fields, request.headers, body, limit, request.method)
            query = read() if len(body) <= _SMALL_BYTES else await asyncio.to_thread(read)
            codec = NativeBlocks() if query.native_blocks else encoder(query.coding)
            pipe = self._desk.start(query, codec)
            try:
                return await self._send(request, query, pipe, codec)
            except (asyncio.CancelledError, ConnectionError, TimeoutError):
                self._desk.leave(query, pipe)
                raise
        finally:
            self._held_bytes -= len(body)

    async def _body(self, request: web.Request) -> bytes:
        """Read the body; all bodies together may hold twice what one may."""
        pieces: list[bytes] = []
        size, limit = 0, self._limits.body_bytes
        try:
            async with asyncio.timeout(_PATIENCE_S):
                async for piece in request.content.iter_any():
                    size += len(piece)
                    self._held_bytes += len(piece)
                    if size > limit:
                        raise refusal(241, f"The request's body is larger than {limit} bytes.")
                    if self._held_bytes > 2 * limit:
                        raise refusal(202, "Too many large requests at once: send it again later.")
                    pieces.append(piece)
        except TimeoutError:
            self._held_bytes -= size
            raise refusal(209, f"The request's body did not come in {_PATIENCE_S:.0f} s.") from None
        except BaseException:
            self._held_bytes -= size
            raise
        return b"".join(pieces)

    async def _send(
        self, request: web.Request, query: Query, pipe: Pipe, codec: Encoder
    ) -> web.StreamResponse:
        pieces, ended = await self._first(query, pipe)
        head = answer.head(query, self._server, pieces[-1].counts if pieces else Counts())
        data = b"".join(piece.data for piece in pieces)
        if ended:
            return web.Response(body=data, headers=head)
        tag = secrets.token_hex(8)
        response = web.StreamResponse(headers={**head, "X-ClickHouse-Exception-Tag": tag})
        await response.prepare(request)
        try:
            await _write(response, data)
            while (piece := await pipe.get()) is not None:
                await _write(response, piece.data)
        except QueryError as error:
            told = answer.error_in_stream(error, self._server, tag)
            await _write(response, codec.add(told) + codec.end())
            _break_off(request)  # so that no client takes it for a whole answer
        return response

    async def _first(self, query: Query, pipe: Pipe) -> tuple[list[Piece], bool]:
        """Return the first pieces, and whether they are all; all if the request waits for all."""
        pieces: list[Piece] = []
        size = 0
        while (piece := await pipe.get()) is not None:
            pieces.append(piece)
            size += len(piece.data)
            if not query.whole and len(pieces) == _FIRST_PIECES:
                return pieces, False
            if size > self._limits.body_bytes and query.whole:
                self._desk.leave(query, pipe)
                raise refusal(396, "The answer is too large for wait_end_of_query=1: leave it out.")
        return pieces, True

    def _failed(self, error: QueryError, fields: Fields) -> web.Response:
        query_id = fields.get("query_id", b"").decode("utf-8", "replace")
        head = answer.error_head(error, self._server, query_id)
        body = answer.error_body(error, self._server)
        return web.Response(status=error.status, headers=head, body=body)


def _read(
    fields: Fields, headers: Mapping[str, str], body: bytes, limit_bytes: int, method: str
) -> Query:
    """Undo the body's compression and read the query."""
    body = decoded(body, headers.get("Content-Encoding", ""), limit_bytes)
    if fields.get("decompress", b"0") in (b"1", b"true"):
        body = b"".join(from_blocks(body, limit_bytes))
    return read_query(fields, headers, body, get=method == "GET")


async def _write(response: web.StreamResponse, data: bytes) -> None:
    if data:
        async with asyncio.timeout(_PATIENCE_S):
            await response.write(data)


def _break_off(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.close()


def _check_caller(headers: Mapping[str, str]) -> None:
    """Refuse what a web page sends: a name that was bound to loopback, or another origin."""
    host, origin = headers.get("Host", "localhost"), headers.get("Origin")
    if not _is_loopback(f"//{host}"):
        raise refusal(497, f"Host {host!r} is not this machine's: use 127.0.0.1 or localhost.")
    site = headers.get("Sec-Fetch-Site", "none")
    foreign = site == "cross-site" if origin is None else not _is_loopback(origin)
    if foreign:
        raise refusal(497, f"Requests of web pages are refused (origin {origin!r}).")


def _is_loopback(address: str) -> bool:
    try:
        host = urlsplit(address).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
