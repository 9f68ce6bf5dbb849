"""A real LiteLLM proxy with the example's callback, a backend, and LiteLLM's own log."""

import asyncio
import json
import os
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml
from aiohttp import ClientError, ClientSession, web

from streams.config import CHECKOUT
from streams.supervise import Child
from tests.broker.envoy_parts import free_ports

EXAMPLE = CHECKOUT / "examples" / "litellm"
HOME = CHECKOUT / ".local" / "litellm"
USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 7,
    "total_tokens": 107,
    "prompt_tokens_details": {"cached_tokens": 40},
}
RESPONSE_USAGE = {
    "input_tokens": 100,
    "output_tokens": 7,
    "total_tokens": 107,
    "input_tokens_details": {"cached_tokens": 40},
    "output_tokens_details": {"reasoning_tokens": 0},
}
MODELS = ("plain", "slow", "late", "broken", "breaks", "mute", "once")
# A key is a team's name; LiteLLM keeps keys in a database, which the test does without.
AUTH = """
from litellm.proxy._types import UserAPIKeyAuth

async def auth(request, api_key):
    return UserAPIKeyAuth(api_key=api_key, team_id=api_key.removeprefix("sk-"), user_id="bo")
"""
# What LiteLLM itself counts, a line a call.
LOG = """
import json, os
from litellm.integrations.custom_logger import CustomLogger

class Log(CustomLogger):
    def note(self, kwargs):
        found = kwargs["standard_logging_object"]
        names = ("status", "prompt_tokens", "completion_tokens", "model_group", "call_type")
        line = {name: found.get(name) for name in names}
        with open(os.environ["LITELLM_OWN_LOG"], "a") as file:
            file.write(json.dumps({"id": kwargs["litellm_call_id"], **line}) + "\\n")

    async def async_log_success_event(self, kwargs, response_obj, start_time, end_time):
        self.note(kwargs)

    async def async_log_failure_event(self, kwargs, response_obj, start_time, end_time):
        self.note(kwargs)

log = Log()
"""


class Backend:
    """An OpenAI-compatible backend that says what it used, model by model as the tests want it."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """Chat completions."""
        body = await request.json()
        model = body["model"]
        self.asked[model] += 1
        if model == "broken" or (model == "once" and self.asked[model] == 1):
            return web.json_response({"error": {"message": "no"}}, status=500)
        if body.get("stream"):
            return await self._stream(request, body)
        await asyncio.sleep(5 if model == "late" else 0)
        message = {"role": "assistant", "content": "seven tokens of it"}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        usage = {} if model == "mute" else {"usage": USAGE}
        return web.json_response({**_head(body, "chat.completion"), "choices": choices, **usage})

    async def _stream(self, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        model = body["model"]
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        head = _head(body, "chat.completion.chunk")
        for number in range(200 if model == "slow" else 7):
            choice = {"index": 0, "delta": {"content": " word"}, "finish_reason": None}
            await response.write(_event({**head, "choices": [choice]}))
            await asyncio.sleep(0.05 if model == "slow" else 0.01)
            if model == "breaks" and number == 3:
                assert request.transport is not None
                request.transport.abort()
                return response
        end = {"index": 0, "delta": {}, "finish_reason": "stop"}
        await response.write(_event({**head, "choices": [end]}))
        if model != "mute" and (body.get("stream_options") or {}).get("include_usage"):
            await response.write(_event({**head, "choices": [], "usage": USAGE}))
        await response.write(b"data: [DONE]\n\n")
        return response

    async def respond(self, request: web.Request) -> web.StreamResponse:
        """The responses API."""
        body = await request.json()
        text = {"type": "output_text", "text": "hi", "annotations": []}
        item = {"type": "message", "id": "m", "status": "completed", "role": "assistant"}
        whole = _response(body, {**item, "content": [text]})
        if not body.get("stream"):
            return web.json_response(whole)
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for number in range(5):
            place = {"item_id": "m", "output_index": 0, "content_index": 0, "logprobs": []}
            kind = "response.output_text.delta"
            event = {"type": kind, "delta": " w", "sequence_number": number, **place}
            await response.write(_event(event))
        end = {"type": "response.completed", "response": whole, "sequence_number": 9}
        await response.write(_event(end))
        return response

    async def embed(self, request: web.Request) -> web.Response:
        """Embeddings."""
        data = [{"object": "embedding", "index": 0, "embedding": [0.1, 0.2]}]
        usage = {"prompt_tokens": 9, "total_tokens": 9}
        return web.json_response({"object": "list", "model": "e", "data": data, "usage": usage})


def _head(body: dict[str, Any], kind: str) -> dict[str, Any]:
    return {"id": "c1", "created": int(time.time()), "model": body["model"], "object": kind}


def _response(body: dict[str, Any], item: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": int(time.time()),
        "status": "completed",
        "model": body["model"],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "metadata": {},
        "output": [item],
        "usage": RESPONSE_USAGE,
    }


def _event(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


@asynccontextmanager
async def served(backend: Backend) -> AsyncIterator[int]:
    """The backend on a port of its own."""
    app = web.Application()
    app.router.add_post("/v1/chat/completions", backend.chat)
    app.router.add_post("/v1/responses", backend.respond)
    app.router.add_post("/v1/embeddings", backend.embed)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield runner.addresses[0][1]
    await runner.cleanup()


class Proxy:
    """A LiteLLM proxy as a process, with the example's callback beside its configuration."""

    def __init__(self, data: Path, backend: int, brokers: str, prefix: str) -> None:
        self.port = free_ports(1)[0]
        self.url = f"http://127.0.0.1:{self.port}"
        self.own_log = data / "own.jsonl"
        shutil.copy(EXAMPLE / "weir.py", data)
        (data / "auth.py").write_text(AUTH)
        (data / "own.py").write_text(LOG)
        (data / "config.yaml").write_text(_configuration(backend))
        environ = {
            **os.environ,
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "LITELLM_MASTER_KEY": "sk-5f0e9a7c1b2d4e6f8a9b0c1d2e3f4a5b",
            "LITELLM_OWN_LOG": str(self.own_log),
            "BACKEND_KEY": "none",
            "TOKENWEIR_BROKERS": brokers,
            "TOKENWEIR_TOPIC_PREFIX": prefix,
        }
        command = [str(HOME / "bin" / "litellm"), "--config", str(data / "config.yaml")]
        where = ["--host", "127.0.0.1", "--port", str(self.port)]
        self.child = Child("litellm", [*command, *where], log=data / "litellm.log", env=environ)

    async def ready(self, deadline_s: float = 400) -> None:
        """Wait until it answers; it takes seconds to import all that it has."""
        end_s = time.monotonic() + deadline_s
        async with ClientSession() as client:
            while not await _lives(client, f"{self.url}/health/liveliness"):
                assert self.child.running, self.child.tail()
                assert time.monotonic() < end_s, self.child.tail()
                await asyncio.sleep(0.2)

    def counted(self) -> list[dict[str, Any]]:
        """LiteLLM's own log."""
        lines = self.own_log.read_text().splitlines() if self.own_log.exists() else []
        return [json.loads(line) for line in lines]


def installed() -> None:
    """Make the proxy's environment where `make test` has not."""
    if not (HOME / ".ready").exists():
        subprocess.run(["make", ".local/litellm/.ready"], cwd=CHECKOUT, check=True)


def _configuration(backend: int) -> str:
    found = yaml.safe_load((EXAMPLE / "config.yaml").read_text())
    large, mock = found["model_list"]
    base = f"http://127.0.0.1:{backend}/v1"
    for name in MODELS:
        parameters = {**large["litellm_params"], "model": f"openai/{name}", "api_base": base}
        model = {"model_name": name, "litellm_params": {**parameters, "max_retries": 0}}
        found["model_list"].append(model)
    found["model_list"] = [mock, *found["model_list"][2:]]
    found["litellm_settings"]["callbacks"] = ["weir.weir", "own.log"]
    found["general_settings"]["custom_auth"] = "auth.auth"
    found["litellm_settings"]["cache"] = True
    found["litellm_settings"]["cache_params"] = {"type": "local", "mode": "default_off"}
    found["router_settings"] = {"num_retries": 1, "retry_after": 0}
    return yaml.safe_dump(found)


async def _lives(client: ClientSession, url: str) -> bool:
    try:
        async with client.get(url) as response:
            return response.status == 200
    except ClientError:
        return False
