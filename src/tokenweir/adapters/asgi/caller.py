"""Who calls, and ASGI's own shapes."""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, NamedTuple, TypeAlias

from tokenweir.adapters.openai.ask import Ask
from tokenweir.records.usage import Flow

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


class Caller(NamedTuple):
    """Who is charged, and how it is asked for; a plain `(tenant, user)` is one too."""

    tenant: str
    user: str = ""
    priority: int = 2
    flow: Flow = "online"


Identity: TypeAlias = tuple[Any, ...] | None
# From the request's scope; None: nobody that may ask, and the answer is 401.
Identify: TypeAlias = Callable[[Scope], Identity | Awaitable[Identity]]
# Gives an answer's text instead of the backend, or None.
Callback: TypeAlias = Callable[[Ask, Caller], Awaitable[str | None]]
Callbacks: TypeAlias = Mapping[str, Callback]


def header(scope: Scope, name: bytes) -> str:
    """A request's header, empty when it is not there; `name` in lower case."""
    found = (value for key, value in scope["headers"] if key.lower() == name)
    return next(found, b"").decode("latin-1")
