"""`/healthz` and `/metrics` over HTTP, for gateways that have no HTTP server of their own.

    with StatusServer(gateway, port=9464):
        ...

The standard library's server in a thread of its own: it answers, and in red, also while the
gateway's event loop is blocked, which a server on that loop could not; and it needs no package.
"""

from collections.abc import Callable
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import TypeAlias

from tokenweir.gateway.health import LIMITS, Limits, Shown, health_of

STOP_S = 0.05  # after which a wish to stop is seen
PORT = 9464  # what OpenTelemetry gives to Prometheus exporters

Answer: TypeAlias = tuple[int, str, bytes]  # status, content type, body
Page: TypeAlias = Callable[[str], Answer]  # of what the caller accepts


class StatusServer:
    """Answers `/healthz` (200, or 503 with the problems) and `/metrics`; GET only.

    `port` 0 takes a free one; `self.port` tells it. On loopback unless `host` says otherwise.
    """

    def __init__(
        self, gateway: Shown, port: int = PORT, host: str = "127.0.0.1", limits: Limits = LIMITS
    ) -> None:
        pages: dict[str, Page] = {
            "/healthz": partial(_health, gateway, limits),
            "/metrics": _metrics(gateway),
        }
        self._server = ThreadingHTTPServer((host, port), partial(_Handler, pages))
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self._thread = Thread(target=self._serve, name="status", daemon=True)

    def __enter__(self) -> "StatusServer":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _serve(self) -> None:
        self._server.serve_forever(poll_interval=STOP_S)


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, pages: dict[str, Page], *arguments: object) -> None:
        self._pages = pages
        super().__init__(*arguments)  # type: ignore[arg-type]  # as the server makes it

    def do_GET(self) -> None:
        page = self._pages.get(self.path.partition("?")[0])
        known = ", ".join(self._pages).encode()
        answer = (
            (404, "text/plain", known) if page is None else page(self.headers.get("Accept", ""))
        )
        status, kind, body = answer
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing: a probe a second is no news."""


def _health(gateway: Shown, limits: Limits, _: str) -> Answer:
    found = health_of(gateway, limits)
    return 200 if found.ok else 503, "application/json", found.body(gateway=gateway.id)


def _metrics(gateway: Shown) -> Page:
    try:
        from prometheus_client import CollectorRegistry
        from prometheus_client.exposition import choose_encoder

        from tokenweir.gateway.metrics import GatewayCollector
    except ImportError:
        missing = b"the gateway's machine needs: pip install 'tokenweir[metrics]'\n"
        return lambda _: (501, "text/plain", missing)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(GatewayCollector(gateway))

    def metrics(accept: str) -> Answer:
        encode, kind = choose_encoder(accept)
        return 200, kind, encode(registry)

    return metrics
