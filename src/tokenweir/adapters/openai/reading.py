"""An answer as it passes: what it says that it used, and else what it is taken to have used."""

import json
from dataclasses import dataclass
from typing import Literal

from tokenweir.adapters.openai.ask import Ask, Count, Kind, adds_usage
from tokenweir.adapters.openai.stream import StreamReader
from tokenweir.adapters.openai.usage import UNKNOWN, Usage, text_of, told
from tokenweir.gateway import Call

# What is charged for a request that broke off before anything was seen of its answer.
Unseen = Literal["prompt", "nothing"]
LARGEST_ANSWER = 8_000_000  # bytes of an answer that is no stream; what is longer is not read


@dataclass(frozen=True, slots=True)
class Used:
    """What an ended request is settled with."""

    usage: Usage
    reason: str = ""
    error: bool = False
    estimated: bool = False
    cancelled: bool = False

    def settle(self, call: Call) -> None:
        """Settle the call; raises `AlreadyEnded` when it has ended."""
        call.settle(
            uncached=self.usage.uncached,
            cached=self.usage.cached,
            out=self.usage.out,
            cache_write=self.usage.cache_write,
            error=self.error,
            reason=self.reason,
            estimated=self.estimated,
            cancelled=self.cancelled,
        )


class Reading:
    """One answer. `ask` None: the request's body was not read or not understood."""

    def __init__(self, kind: Kind, ask: Ask | None, count: Count) -> None:
        self.status = 0  # 0: the answer has not begun
        self._kind = kind
        self._ask = ask
        self._count = count
        self._stream: StreamReader | None = None
        self._answer = bytearray()
        self._told = 0  # tokens that `news` has told

    def begin(self, status: int, streams: bool) -> None:
        """The answer's header is here; `streams`: its body is a stream of events."""
        self.status = status
        if streams:
            strips = self._ask is not None and adds_usage(self._ask)
            self._stream = StreamReader(self._kind, strips)

    def feed(self, data: bytes, end: bool) -> bytes:
        """A piece of the answer's body; returns what goes on."""
        if self._stream is not None:
            return self._stream.feed(data) + (self._stream.end() if end else b"")
        if len(self._answer) <= LARGEST_ANSWER:
            self._answer += data
        return data

    def news(self) -> int:
        """Output tokens since it was last asked: no more than is certain, as what has been reported
        is not taken back.
        """
        if self._stream is None:
            return 0
        before, self._told = self._told, self._stream.chunks
        return self._told - before

    @property
    def done(self) -> bool:
        """A stream has said that nothing more comes."""
        return self._stream is not None and self._stream.done

    @property
    def knows(self) -> bool:
        """A stream has said what it used."""
        return self._stream is not None and self._stream.usage is not UNKNOWN

    def ended(self, gone: bool = False, unseen: Unseen = "prompt") -> Used:
        """It came to its end. `gone`: the client had hung up before."""
        usage, problem = self._usage()
        failed = f"http_{self.status}" if self.status >= 400 else ""
        if usage.uncached is not None and usage.out is not None:
            return Used(usage, failed, error=failed != "")
        if gone:
            return self.broken("disconnected", unseen=unseen)
        if 400 <= self.status < 500:
            # The backend did not take it up.
            return Used(Usage(0, 0, 0), failed, error=True)
        if failed:
            return self.broken(failed, True, unseen)
        return Used(self._estimated(usage), problem, estimated=True)

    def broken(self, reason: str, error: bool = False, unseen: Unseen = "prompt") -> Used:
        """It ended before its usage was known: its prompt, and what was produced, estimated."""
        out = self._stream.estimate() if self._stream is not None else 0
        uncached = self._ask.input_tokens if self._ask is not None else None
        if unseen == "nothing" and not out:
            uncached = 0
        return Used(Usage(uncached, 0, out), reason, error, estimated=True, cancelled=not error)

    def _usage(self) -> tuple[Usage, str]:
        """What the backend says, and why it cannot be used if it cannot."""
        if self._stream is not None:
            return self._stream.usage, "bad_usage" if self._stream.problem else "no_usage"
        return told(self._kind, self._answer)

    def _estimated(self, usage: Usage) -> Usage:
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
