"""What one answer used, read as it passes: it settles the calls that the request is."""

import json
from contextlib import suppress

from tokenweir.adapters.openai.ask import Ask, Count, Kind, adds_usage
from tokenweir.adapters.openai.stream import StreamReader
from tokenweir.adapters.openai.usage import UNKNOWN, Usage, text_of, told
from tokenweir.gateway import AlreadyEnded, Call

LARGEST_ANSWER = 8_000_000  # bytes of an answer that is no stream; what is longer is not read
EVENTS = "text/event-stream"


class Meter:
    """One answer. `calls` are what was admitted for it: each is settled with its usage and removed.

    `ask` None: the request's body was not read or not understood.
    """

    def __init__(self, kind: Kind, ask: Ask | None, count: Count, calls: list[Call]) -> None:
        self._kind = kind
        self._ask = ask
        self._count = count
        self._status = 0
        self._stream: StreamReader | None = None
        self._answer = bytearray()
        self._told = 0  # tokens that the calls know of
        self._calls = calls

    def begin(self, status: int, content_type: str) -> None:
        """The answer's header is here."""
        self._status = status
        if content_type.lower().startswith(EVENTS):
            strips = self._ask is not None and adds_usage(self._ask)
            self._stream = StreamReader(self._kind, strips)

    def feed(self, data: bytes, end: bool) -> bytes:
        """A piece of the answer's body; returns what goes on. The last one settles."""
        if self._stream is not None:
            data = self._read(self._stream, data, end)
        elif len(self._answer) <= LARGEST_ANSWER:
            self._answer += data
        if end:
            self._settle()
        return data

    def close(self) -> None:
        """Nothing more comes: what is not settled broke off, unless its usage came before."""
        if self._stream is not None and self._stream.usage is not UNKNOWN:
            self._settle()
        else:
            self._break_off("disconnected", error=False)

    def _read(self, stream: StreamReader, data: bytes, end: bool) -> bytes:
        passed = stream.feed(data) + (stream.end() if end else b"")
        # No more than is certain: what has been reported is not taken back.
        news, self._told = stream.chunks - self._told, stream.chunks
        for call in self._calls:
            with suppress(AlreadyEnded):
                call.produced(news)
        return passed

    def _settle(self) -> None:
        usage, problem = self._usage()
        failed = f"http_{self._status}" if self._status >= 400 else ""
        if usage.uncached is not None and usage.out is not None:
            self._end(usage, failed, error=failed != "")
        elif 400 <= self._status < 500:
            # The backend did not take it up.
            self._end(Usage(0, 0, 0), failed, error=True)
        elif failed:
            self._break_off(failed, error=True)
        else:
            self._end(self._estimate(usage), problem, estimated=True)

    def _usage(self) -> tuple[Usage, str]:
        """What the backend says, and why it cannot be used if it cannot."""
        if self._stream is not None:
            return self._stream.usage, "bad_usage" if self._stream.problem else "no_usage"
        return told(self._kind, self._answer)

    def _estimate(self, usage: Usage) -> Usage:
        """An answer without figures: the prompt as we counted it, and what it says."""
        uncached = usage.uncached
        if uncached is None and self._ask is not None:
            uncached = max(self._ask.input_tokens - usage.cached, 0)
        out = self._seen() if usage.out is None else usage.out
        return Usage(uncached, usage.cached, out, usage.cache_write)

    def _seen(self) -> int | None:
        """Output tokens by what has passed; None: it cannot be told."""
        if self._stream is not None:
            return self._stream.estimate()
        try:
            answer = json.loads(self._answer)
        except ValueError:
            return None
        return self._count(text_of(answer)) if isinstance(answer, dict) else None

    def _break_off(self, reason: str, error: bool) -> None:
        """It ended before its usage was known: its prompt, and what was produced, estimated."""
        out = self._stream.estimate() if self._stream is not None else 0
        uncached = self._ask.input_tokens if self._ask is not None else None
        usage = Usage(uncached, 0, out)
        self._end(usage, reason, error=error, estimated=True, cancelled=not error)

    def _end(
        self,
        usage: Usage,
        reason: str,
        *,
        error: bool = False,
        estimated: bool = False,
        cancelled: bool = False,
    ) -> None:
        while self._calls:
            call = self._calls.pop()
            with suppress(AlreadyEnded):  # it ran longer than the pool's longest request
                call.settle(
                    uncached=usage.uncached,
                    cached=usage.cached,
                    out=usage.out,
                    cache_write=usage.cache_write,
                    error=error,
                    reason=reason,
                    estimated=estimated,
                    cancelled=cancelled,
                )
