"""What one answer used, read as it passes: it settles the calls that the request is."""

from contextlib import suppress

from tokenweir.adapters.openai.ask import Ask, Count, Kind
from tokenweir.adapters.openai.reading import Reading, Used
from tokenweir.gateway import AlreadyEnded, Call

EVENTS = "text/event-stream"


class Meter:
    """One answer. `calls` are what was admitted for it: each is settled with its usage and removed.

    `ask` None: the request's body was not read or not understood.
    """

    def __init__(self, kind: Kind, ask: Ask | None, count: Count, calls: list[Call]) -> None:
        self._reading = Reading(kind, ask, count)
        self._calls = calls

    def begin(self, status: int, content_type: str) -> None:
        """The answer's header is here."""
        self._reading.begin(status, content_type.lower().startswith(EVENTS))

    def feed(self, data: bytes, end: bool) -> bytes:
        """A piece of the answer's body; returns what goes on. The last one settles."""
        passed = self._reading.feed(data, end)
        if news := self._reading.news():
            self._produced(news)
        if end:
            self._end(self._reading.ended())
        return passed

    def close(self) -> None:
        """Nothing more comes: what is not settled broke off, unless its usage came before."""
        reading = self._reading
        self._end(reading.ended() if reading.knows else reading.broken("disconnected"))

    def _produced(self, tokens: int) -> None:
        for call in self._calls:
            with suppress(AlreadyEnded):
                call.produced(tokens)

    def _end(self, used: Used) -> None:
        while self._calls:
            with suppress(AlreadyEnded):  # it ran longer than the pool's longest request
                used.settle(self._calls.pop())
