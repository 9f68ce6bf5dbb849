"""An answer as it passes: its usage is read, its call settled, its header fields completed."""

import json
from collections.abc import Callable
from typing import Literal

from tokenweir.adapters.asgi.caller import Message, Send
from tokenweir.adapters.asgi.line import Line
from tokenweir.adapters.asgi.sending import encoded
from tokenweir.adapters.openai.ask import Ask, Count, adds_usage
from tokenweir.adapters.openai.stream import StreamReader
from tokenweir.adapters.openai.usage import Usage, text_of, told
from tokenweir.gateway.call import Call
from tokenweir.gateway.headers import Header

# What is charged for a request that broke off before anything was seen of its answer.
Unseen = Literal["prompt", "nothing"]
LARGEST_ANSWER = 8_000_000  # bytes of an answer that is no stream; what is longer is not read


class Meter:
    """One admitted request between the app and the server. Each message passes at once."""

    def __init__(
        self,
        call: Call,
        ask: Ask,
        line: Line,
        send: Send,
        headers: Callable[[], tuple[Header, ...]],
        count: Count,
        unseen: Unseen,
    ) -> None:
        self._call = call
        self._ask = ask
        self._line = line
        self._send = send
        self._headers = headers
        self._count = count
        self._unseen = unseen
        self._status = 0
        self._stream: StreamReader | None = None
        self._answer = bytearray()
        self._told = 0  # tokens that the call knows of

    @property
    def started(self) -> bool:
        """The answer has begun: its status cannot be changed any more."""
        return self._status > 0

    async def send(self, message: Message) -> None:
        """Pass a message of the answer on; the last one settles the call before it goes."""
        if message["type"] == "http.response.start":
            message = self._begin(message)
        elif message["type"] == "http.response.body":
            if message.get("more_body", False):
                await self._line.resumed(self._call)  # a revoked stream pauses here
            message = self._pass(message)
            if not message["body"] and message["more_body"]:
                return
        try:
            await self._send(message)
        except OSError:
            self._line.hang_up()
            raise

    def end(self, error: BaseException | None = None) -> None:
        """The app has returned or failed: settle what is not settled yet."""
        if self._open:
            broken = type(error).__name__ if isinstance(error, Exception) else ""
            self._break_off(
                "disconnected" if self._line.gone else broken or "cancelled", broken != ""
            )

    @property
    def _open(self) -> bool:
        return self._call.state in ("admitted", "suspended")

    def _begin(self, message: Message) -> Message:
        self._status = message["status"]
        ours = encoded(self._headers())
        names = {name for name, _ in ours}
        kept = [pair for pair in message.get("headers", ()) if pair[0].lower() not in names]
        if any(k.lower() == b"content-type" and b"event-stream" in v.lower() for k, v in kept):
            self._stream = StreamReader(self._ask.kind, adds_usage(self._ask))
            # What is taken out of a stream shortens it.
            kept = [pair for pair in kept if pair[0].lower() != b"content-length"]
        return {**message, "headers": [*kept, *ours]}

    def _pass(self, message: Message) -> Message:
        body, more = message.get("body", b""), message.get("more_body", False)
        if self._stream is not None:
            body = self._read_stream(self._stream, body, more)
        elif len(self._answer) <= LARGEST_ANSWER:
            self._answer += body
        if not more and self._open:
            self._settle()
        return {**message, "body": body, "more_body": more}

    def _read_stream(self, stream: StreamReader, body: bytes, more: bool) -> bytes:
        passed = stream.feed(body)
        if not more:
            passed += stream.end()
        if self._open and stream.chunks > self._told:
            # No more than is certain: what has been reported is not taken back.
            self._call.produced(stream.chunks - self._told)
            self._told = stream.chunks
        if self._open and stream.done:
            self._settle()
        return passed

    def _settle(self) -> None:
        usage, problem = self._usage()
        failed = self._status >= 400
        if usage.uncached is not None and usage.out is not None:
            reason = f"http_{self._status}" if failed else ""
            self._close(usage, error=failed, reason=reason)
        elif self._line.gone:
            self._break_off("disconnected", False)
        elif 400 <= self._status < 500:
            # The backend did not take it up.
            self._close(Usage(0, 0, 0), error=True, reason=f"http_{self._status}")
        elif failed:
            self._break_off(f"http_{self._status}", True)
        else:
            self._close(self._estimated(usage), reason=problem, estimated=True)

    def _usage(self) -> tuple[Usage, str]:
        """What the backend says, and why it cannot be used if it cannot."""
        if self._stream is not None:
            return self._stream.usage, "bad_usage" if self._stream.problem else "no_usage"
        return told(self._ask.kind, self._answer)

    def _estimated(self, usage: Usage) -> Usage:
        """An answer without figures: the prompt as we counted it, and what it says."""
        uncached = usage.uncached
        if uncached is None:
            uncached = max(self._ask.input_tokens - usage.cached, 0)
        out = self._seen() if usage.out is None else usage.out
        return Usage(uncached, usage.cached, out, usage.cache_write)

    def _seen(self) -> int | None:
        """Output tokens by what has passed; None: it cannot be told."""
        if self._stream is not None:
            return self._stream.estimate()
        try:
            answer = json.loads(self._answer)
            return self._count(text_of(answer)) if isinstance(answer, dict) else None
        except ValueError:
            return None

    def _break_off(self, reason: str, error: bool) -> None:
        """It ended before its usage was known: what was produced, and marked as an estimate."""
        out = self._stream.estimate() if self._stream is not None else 0
        charged = out or self._unseen == "prompt"
        usage = Usage(self._ask.input_tokens if charged else 0, 0, out)
        self._close(usage, error=error, reason=reason, estimated=True, cancelled=not error)

    def _close(
        self,
        usage: Usage,
        *,
        reason: str = "",
        error: bool = False,
        estimated: bool = False,
        cancelled: bool = False,
    ) -> None:
        self._call.settle(
            uncached=usage.uncached,
            cached=usage.cached,
            out=usage.out,
            cache_write=usage.cache_write,
            error=error,
            reason=reason,
            estimated=estimated,
            cancelled=cancelled,
        )
