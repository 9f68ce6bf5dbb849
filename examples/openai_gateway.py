"""An OpenAI-compatible gateway in about 100 lines: a simulated model behind Tokenweir.

    python -m streams up                                     # in another terminal
    tokenweir apply -f examples/chat-pool.yaml
    python -m examples.openai_gateway --brokers HOST:PORT    # `tokenweir status` says where
    curl localhost:8800/v1/chat/completions -H 'Authorization: Bearer assistant:ana' \
      -d '{"model": "m-large", "messages": [{"role": "user", "content": "Hello"}]}'

The key is `tenant:user`; put your own look-up into `identify`, and your own app in place of
`model`. It needs starlette, uvicorn and pyyaml beside tokenweir.
"""

import asyncio
import json
import time
from argparse import ArgumentParser
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any

import uvicorn
import yaml
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tokenweir.adapters.asgi import Caller, Tokenweir
from tokenweir.gateway import Gateway
from tokenweir.gateway.ladder_file import read_ladder

TOKEN_S = 0.02  # how long the model thinks about one
WORDS = ("water ", "finds ", "its ", "own ", "level ")
DEFAULT_ANSWER = 40  # tokens, when nothing shorter was asked for


async def chat(request: Request) -> Response:
    """Chat completions: a token is a word, and the usage is exact."""
    ask = await request.json()
    if not {"model", "messages"} <= ask.keys():
        return JSONResponse({"error": {"message": "model and messages are needed"}}, 400)
    count = min(DEFAULT_ANSWER, ask.get("max_completion_tokens") or ask.get("max_tokens") or 1000)
    head = {"id": f"chatcmpl-{token_hex(8)}", "created": int(time.time()), "model": ask["model"]}
    prompt = sum(len(str(message["content"]).split()) for message in ask["messages"])
    usage = {
        "prompt_tokens": prompt,
        "completion_tokens": count,
        "total_tokens": prompt + count,
        "prompt_tokens_details": {"cached_tokens": 0},
    }
    words = [WORDS[place % len(WORDS)] for place in range(count)]
    if ask.get("stream"):
        wants_usage = (ask.get("stream_options") or {}).get("include_usage")
        chunks = _chunks(head, words, usage if wants_usage else None)
        return StreamingResponse(_paced(chunks), media_type="text/event-stream")
    await asyncio.sleep(TOKEN_S * count)
    message = {"role": "assistant", "content": "".join(words)}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    whole = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
    return JSONResponse(whole)


def _chunks(
    head: dict[str, Any], words: list[str], usage: dict[str, Any] | None
) -> Iterator[dict[str, Any]]:
    head = {**head, "object": "chat.completion.chunk"}
    for word in words:
        delta = {"role": "assistant", "content": word}
        yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    if usage is not None:
        yield {**head, "choices": [], "usage": usage}


async def _paced(chunks: Iterator[dict[str, Any]]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        await asyncio.sleep(TOKEN_S)
        yield b"data: " + json.dumps(chunk).encode() + b"\n\n"
    yield b"data: [DONE]\n\n"


def identify(scope: Any) -> Caller | None:
    """The tenant and user in a key `tenant:user`."""
    key = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
    tenant, _, user = key.removeprefix("Bearer").strip().partition(":")
    return Caller(tenant, user) if tenant else None


async def no_cache(ask: object, caller: Caller) -> str | None:
    """Where a cache of answers would be asked."""
    return None


def guarded(gateway: Gateway, pool: str, ladder: Path | None = None) -> Tokenweir:
    """The model's app behind the middleware; the gateway runs as long as the app does."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with gateway:
            yield

    model = Starlette(
        routes=[Route("/v1/chat/completions", chat, methods=["POST"])], lifespan=lifespan
    )
    rungs = read_ladder(yaml.safe_load(ladder.read_text()) if ladder else [])
    callbacks = {"cache": no_cache}
    return Tokenweir(
        model, gateway=gateway, pool=pool, identify=identify, ladder=rungs, callbacks=callbacks
    )


def main() -> None:
    """Serve until Ctrl-C."""
    arguments = ArgumentParser(prog="python -m examples.openai_gateway")
    arguments.add_argument("--brokers", required=True, metavar="HOST:PORT")
    arguments.add_argument("--prefix", default="", help="before the topics' names")
    arguments.add_argument("--pool", default="chat")
    arguments.add_argument("--ladder", type=Path, help="a degrade ladder: examples/ladder.yaml")
    arguments.add_argument("--port", type=int, default=8800)
    given = arguments.parse_args()
    gateway = Gateway(
        brokers=given.brokers, name="openai-gateway", pools=[given.pool], prefix=given.prefix
    )
    app = guarded(gateway, given.pool, given.ladder)
    uvicorn.run(app, host="127.0.0.1", port=given.port)


if __name__ == "__main__":
    main()
