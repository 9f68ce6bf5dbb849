"""Answers that come from the middleware itself."""

from collections.abc import Iterable

from tokenweir.adapters.asgi.caller import Send
from tokenweir.adapters.openai.replies import JSON
from tokenweir.gateway.headers import Header


async def send_answer(
    send: Send,
    status: int,
    body: bytes,
    headers: Iterable[Header] = (),
    content_type: str = JSON,
) -> None:
    """A whole answer at once; a content type among the headers is not repeated."""
    fields = {"content-type": content_type, **dict(headers), "content-length": str(len(body))}
    await send(
        {"type": "http.response.start", "status": status, "headers": encoded(fields.items())}
    )
    await send({"type": "http.response.body", "body": body, "more_body": False})


def encoded(headers: Iterable[Header]) -> list[tuple[bytes, bytes]]:
    """Header fields as ASGI has them."""
    return [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers]
