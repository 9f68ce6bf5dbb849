"""A request's body, whole, and a request with another body in its place."""

from tokenweir.adapters.asgi.caller import Message, Receive, Scope

# What no longer holds for a body that was read: an answer must come as it can be read, too.
_DROPPED = frozenset({b"content-length", b"transfer-encoding", b"accept-encoding"})


class TooLarge(Exception):
    """The body is longer than may be buffered."""


class Gone(Exception):
    """The client went away before its request was whole."""


async def read_body(receive: Receive, largest: int) -> bytes:
    """The whole body; raises `TooLarge` above `largest` bytes, `Gone` for half a one."""
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Gone
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > largest:
            raise TooLarge
        if not message.get("more_body", False):
            return b"".join(parts)


def with_body(scope: Scope, body: bytes) -> Scope:
    """The scope of a request that has this body."""
    headers = [pair for pair in scope["headers"] if pair[0].lower() not in _DROPPED]
    length = (b"content-length", str(len(body)).encode())
    return {**scope, "headers": [*headers, length]}


def request_message(body: bytes) -> Message:
    """The message that an app receives for it."""
    return {"type": "http.request", "body": body, "more_body": False}
