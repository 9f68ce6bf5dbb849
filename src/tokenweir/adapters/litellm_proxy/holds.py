"""Finds the hold of a request again in each of LiteLLM's events.

LiteLLM carries a request's metadata to every one of them, so a name that nobody can guess goes
there. Its own call id may come from the client, and two requests may have the same.
"""

from collections.abc import Mapping, MutableMapping
from secrets import token_hex
from typing import Any

from tokenweir.adapters.litellm_proxy.hold import Hold

NAME = "tokenweir_hold"
_BUCKETS = ("litellm_metadata", "metadata")
_SPARE = 1_000  # ended holds that are kept before they are swept out


class Holds:
    """The open holds of one worker, and some that have ended."""

    def __init__(self) -> None:
        self._found: dict[str, Hold] = {}
        self._most = _SPARE

    def put(self, data: MutableMapping[str, Any], hold: Hold) -> None:
        """Keep a hold, and name it in its request's data."""
        if len(self._found) >= self._most:
            self._sweep()
        name = token_hex(16)
        self._found[name] = hold
        bucket = next((b for b in _BUCKETS if isinstance(data.get(b), dict)), "metadata")
        data[bucket] = {**(data.get(bucket) or {}), NAME: name}

    def find(self, data: Mapping[str, Any]) -> Hold | None:
        """The hold of a request, by its data or by what LiteLLM logs of it."""
        for holder in (data, data.get("litellm_params") or {}):
            for bucket in _BUCKETS:
                hold = self._named(holder.get(bucket))
                if hold is not None:
                    return hold
        return None

    def _named(self, bucket: object) -> Hold | None:
        name = bucket.get(NAME) if isinstance(bucket, Mapping) else None
        return self._found.get(name) if isinstance(name, str) else None

    def _sweep(self) -> None:
        self._found = {name: hold for name, hold in self._found.items() if hold.open}
        self._most = 2 * len(self._found) + _SPARE
