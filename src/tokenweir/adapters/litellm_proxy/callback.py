"""The callback that the LiteLLM proxy is given: admits before a call, and settles after it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from litellm.integrations.custom_logger import CustomLogger

from tokenweir.adapters.litellm_proxy.admission import Admission
from tokenweir.adapters.litellm_proxy.holds import Holds
from tokenweir.adapters.litellm_proxy.refusal import Turned, bad_request
from tokenweir.adapters.litellm_proxy.settings import Settings, Who, check
from tokenweir.adapters.litellm_proxy.shutdown import before_shutdown
from tokenweir.adapters.litellm_proxy.usage import get, tokens_of, usage_in
from tokenweir.errors import BadInput
from tokenweir.gateway import Refused

__all__ = ["Callback", "Settings", "Who"]
_DISCONNECTED = 499


class Callback(CustomLogger):  # type: ignore[misc]  # LiteLLM is not in this environment
    """One of a proxy worker, and with it one gateway, which starts with the first request.

    LiteLLM looks for hooks in the class itself: do not derive from it. Raises `BadInput` for
    settings that cannot be.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        check(settings)
        self._admission = Admission(settings)
        self._holds = Holds()
        self._started: asyncio.Task[None] | None = None

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: str
    ) -> dict[str, Any] | None:
        """Admit, let wait, or refuse a request before any model is asked."""
        if self._holds.find(data) is not None:
            return None
        await self._start()
        try:
            hold = await self._admission.admit(user_api_key_dict, data, call_type)
        except Refused as refused:
            raise Turned(self._admission.answer(refused, user_api_key_dict)) from None
        except BadInput as error:
            raise bad_request(error) from error
        if hold is None:
            return None
        self._holds.put(data, hold)
        return data

    async def async_post_call_success_hook(
        self, data: Mapping[str, Any], user_api_key_dict: Any, response: Any
    ) -> None:
        """An answer that is no stream is here, and goes to the client."""
        hold = self._holds.find(data)
        said = usage_in(response)
        if hold is None or not hold.open or said is None:
            return
        if (getattr(response, "_hidden_params", None) or {}).get("cache_hit") is True:
            hold.cached()
        elif _unsaid(said, data):
            hold.unsaid(response)
        else:
            hold.answered(said)

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: Any, response: Any, request_data: Mapping[str, Any]
    ) -> AsyncIterator[Any]:
        """Look at a stream's chunks as they pass, and at how it ends."""
        hold = self._holds.find(request_data)
        if hold is None:
            async for chunk in response:
                yield chunk
            return
        try:
            async for chunk in response:
                await hold.resumed()
                if not _from_cache(response):
                    hold.saw(chunk)
                yield chunk
        except (asyncio.CancelledError, GeneratorExit):
            hold.break_off("disconnected")
            raise
        if _from_cache(response):
            hold.cached()
        hold.streamed(_silent(response))

    async def async_post_call_failure_hook(
        self,
        request_data: Mapping[str, Any],
        original_exception: Exception,
        user_api_key_dict: Any,
        traceback_str: str | None = None,
    ) -> None:
        """A request has failed for good: retries and fallbacks are over."""
        hold = self._holds.find(request_data)
        if hold is None:
            return
        status = get(original_exception, "status_code")
        if status == _DISCONNECTED:
            hold.break_off("disconnected", last=True)
            return
        hold.fail(
            type(original_exception).__name__,
            status if isinstance(status, int) else None,
            asked=request_data.get("first_api_call_start_time") is not None,
            said=request_data.get("combined_usage_object"),
        )

    async def async_log_success_event(
        self, kwargs: Mapping[str, Any], response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        """LiteLLM logs a request: where nothing else told its usage, this does."""
        hold = self._holds.find(kwargs)
        if hold is None or not hold.open:
            return
        if kwargs.get("cache_hit") is True:
            hold.cached()
        else:
            hold.answered(usage_in(response_obj))

    async def async_post_call_response_headers_hook(
        self,
        data: Mapping[str, Any],
        user_api_key_dict: Any,
        response: Any,
        request_headers: Any = None,
        litellm_call_info: Any = None,
    ) -> dict[str, str]:
        """The header fields of an admitted request's answer."""
        hold = self._holds.find(data)
        return {} if hold is None else self._admission.headers(hold)

    async def _start(self) -> None:
        if self._started is None:
            before_shutdown(self._admission.stop)
            self._started = asyncio.create_task(self._admission.start())
        if not self._started.done():
            await asyncio.shield(self._started)


def _unsaid(said: object, data: Mapping[str, Any]) -> bool:
    """LiteLLM fills in zeros where a provider gave no usage: what it sent tells the two apart."""
    tokens = tokens_of(said)
    if tokens is None or tokens.total:
        return False
    details = get(data.get("litellm_logging_obj"), "model_call_details") or {}
    sent = details.get("original_response")
    return isinstance(sent, str) and "usage" not in sent


def _from_cache(stream: Any) -> bool:
    """Whether LiteLLM plays the stream from its cache: no model was asked."""
    return bool(get(stream, "custom_llm_provider") == "cached_response")


def _silent(stream: object) -> bool:
    """LiteLLM counts a stream's usage itself when none of the provider's chunks had any."""
    chunks = get(stream, "chunks")
    return isinstance(chunks, list) and not any(get(chunk, "usage") for chunk in chunks)
