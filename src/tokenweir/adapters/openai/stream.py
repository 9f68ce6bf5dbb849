"""A stream of server-sent events as it passes: what it has produced, and its usage.

Events go on as soon as they are whole; nothing but the last unfinished one is kept.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from tokenweir.adapters.openai.ask import Kind
from tokenweir.adapters.openai.usage import UNKNOWN, Usage, text_of, usage_of
from tokenweir.errors import BadInput

LONGEST_EVENT = 1_000_000  # bytes; what is longer goes on unread
_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LINE = re.compile(rb"\r\n|\n|\r")


class StreamReader:
    """Reads one stream. `strips`: the chunk with the usage is ours, and is taken out again.

    `chunks` counts pieces of text: each holds a token at least, so it is never more than what the
    stream has produced. `said` is their length in bytes.
    """

    __slots__ = ("_kind", "_rest", "_strips", "chunks", "done", "problem", "said", "usage")

    def __init__(self, kind: Kind, strips: bool) -> None:
        self._kind = kind
        self._strips = strips
        self._rest = b""
        self.chunks = 0
        self.said = 0
        self.usage: Usage = UNKNOWN
        self.problem = ""  # why a usage that was there could not be used
        self.done = False

    def feed(self, data: bytes) -> bytes:
        """Take what came; returns what goes on."""
        data = self._rest + data
        passed, start = [], 0
        for end in _END.finditer(data):
            if self._read(data[start : end.start()]):
                passed.append(data[start : end.end()])
            start = end.end()
        self._rest = data[start:]
        if len(self._rest) > LONGEST_EVENT:
            passed.append(self._rest)
            self._rest = b""
        return b"".join(passed)

    def end(self) -> bytes:
        """Nothing more comes; returns what is left to go on."""
        rest, self._rest = self._rest, b""
        return rest if rest and self._read(rest) else b""

    def estimate(self) -> int:
        """Tokens that the stream is taken to have produced, when it does not say."""
        return max(self.chunks, -(-self.said // 4))

    def _read(self, event: bytes) -> bool:
        """Take one event; False: it does not go on."""
        lines = [line[5:].strip() for line in _LINE.split(event) if line.startswith(b"data:")]
        data = b"\n".join(lines)
        if data == b"[DONE]":
            self.done = True
        if not data.startswith(b"{"):
            return True
        try:
            found = json.loads(data)
        except ValueError:
            return True
        return self._response(found) if self._kind == "responses" else self._chunk(found)

    def _chunk(self, chunk: Mapping[str, Any]) -> bool:
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            self._count(text_of({"choices": choice}))
        if chunk.get("usage") is None:
            return True
        self._use(chunk)
        return bool(choices) or not self._strips

    def _response(self, event: Mapping[str, Any]) -> bool:
        kind, delta = str(event.get("type")), event.get("delta")
        if kind.endswith(".delta") and isinstance(delta, str):
            self._count(delta)
        response = event.get("response")
        if isinstance(response, dict) and response.get("usage") is not None:
            self._use(response)
            self.done = True
        return True

    def _count(self, text: str) -> None:
        if text:
            self.chunks += 1
            self.said += len(text.encode("utf-8", "replace"))

    def _use(self, holder: Mapping[str, Any]) -> None:
        try:
            self.usage = usage_of(self._kind, holder)
        except BadInput as error:
            self.problem = str(error)
