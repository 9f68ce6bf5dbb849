"""The ASGI middleware: admit, degrade, pass on, and settle by the answer's own usage."""

import inspect
from collections.abc import Callable, Sequence

from tokenweir.adapters.asgi.body import Gone, TooLarge, read_body
from tokenweir.adapters.asgi.caller import App, Callbacks, Caller, Identify, Receive, Scope, Send
from tokenweir.adapters.asgi.exchange import Exchange
from tokenweir.adapters.asgi.line import Line
from tokenweir.adapters.asgi.sending import send_answer
from tokenweir.adapters.asgi.setup import Setup, check
from tokenweir.adapters.openai.ask import Count, Kind, bytes_by_four, kind_of, read_ask
from tokenweir.adapters.openai.reading import Unseen
from tokenweir.adapters.openai.replies import problem
from tokenweir.errors import BadInput
from tokenweir.gateway import Gateway, OnRevoke
from tokenweir.gateway.ladder import Rung

LARGEST_BODY = 8_000_000  # bytes


class Tokenweir:
    """Stands in front of `app`: requests that use tokens are admitted or refused, and metered.

    `pool` is a pool's name, or gives the pool of a model (None: neither limited nor metered).
    `identify` says who calls. `ladder` is what to do before refusing; `callbacks` are the functions
    that it names, `cache` among them. `count` estimates the tokens of a text. `unseen` is charged
    for a request that broke off before anything was seen of its answer. `on_revoke` says what
    becomes of a running request whose tenant is revoked; without it, what the gateway's own says.
    The app finds its call, with what was done to it as `actions`, in `scope["tokenweir"]`.
    """

    def __init__(
        self,
        app: App,
        *,
        gateway: Gateway,
        pool: str | Callable[[str], str | None],
        identify: Identify,
        ladder: Sequence[Rung] = (),
        callbacks: Callbacks | None = None,
        count: Count = bytes_by_four,
        largest_body: int = LARGEST_BODY,
        unseen: Unseen = "prompt",
        on_revoke: OnRevoke | None = None,
    ) -> None:
        self._setup = Setup(
            app=app,
            gateway=gateway,
            pool_of=(lambda _: pool) if isinstance(pool, str) else pool,
            ladder=tuple(ladder),
            callbacks=dict(callbacks or {}),
            count=count,
            unseen=unseen,
            on_revoke=on_revoke,
        )
        self._identify = identify
        self._largest_body = largest_body
        check(self._setup)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection, as ASGI wants it."""
        kind = kind_of(scope["method"], scope["path"]) if scope["type"] == "http" else None
        if kind is None:
            await self._setup.app(scope, receive, send)
            return
        try:
            await self._serve(kind, scope, receive, send)
        except Gone:
            return

    async def _serve(self, kind: Kind, scope: Scope, receive: Receive, send: Send) -> None:
        caller = await self._caller(scope)
        if caller is None:
            text = "no tenant is known for this request; give a valid key"
            await send_answer(send, 401, problem(text, code="invalid_api_key"))
            return
        try:
            body = await read_body(receive, self._largest_body)
            ask = read_ask(kind, body, self._setup.count)
        except TooLarge:
            text = f"the body has more than {self._largest_body} bytes"
            await send_answer(send, 413, problem(text))
            return
        except BadInput as error:
            await send_answer(send, 400, problem(str(error)))
            return
        async with Line(receive) as line:
            exchange = Exchange(self._setup, scope, line, send, ask, body, caller)
            await exchange.run(self._setup.pool_of(ask.model))

    async def _caller(self, scope: Scope) -> Caller | None:
        found = self._identify(scope)
        if inspect.isawaitable(found):
            found = await found
        return None if found is None else Caller(*found)
