"""Events, and a partition that gathers them, as short as tests want them."""

import json
from dataclasses import dataclass, field
from typing import Any

from tokenweir.events.gather import Gathering, advance, gather
from tokenweir.events.read import Heard, from_json, read
from tokenweir.gateway.report import Cut
from tokenweir.records.event import Event
from tokenweir.records.usage import RequestsBlock
from tokenweir.wire import decode_as

AT = 1_800_000_000_000
SPENT = ("requests", "errors", "tokens_uncached", "tokens_cached", "tokens_out", "refused_tokens")


def content(**fields: Any) -> dict[str, Any]:
    return {"pool": "chat", "tenant": "acme", "request_id": "r1", **fields}


def event(**fields: Any) -> Event:
    return from_json(content(**fields)).event


def used(prompt: int | None, completion: int | None, **more: Any) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, **more}


@dataclass
class Log:
    """A partition's log; 1 ms passes from message to message unless told otherwise."""

    state: Gathering = field(default_factory=lambda: Gathering("events-0"))
    now_ms: int = AT
    cuts: list[Cut] = field(default_factory=list)

    def send(self, after_ms: int = 1, **fields: Any) -> None:
        """An event as a producer in another language would write it."""
        self.hear(read(json.dumps(content(**fields)).encode()), after_ms)

    def hear(self, heard: Heard | None, after_ms: int = 1) -> None:
        self.now_ms += after_ms
        self.cuts += advance(self.state, self.now_ms, tick=heard is None)
        if heard is not None:
            gather(self.state, heard, self.now_ms)

    def tick(self, after_ms: int = 500) -> list[Cut]:
        """Let time pass; the reports that this closed."""
        before = len(self.cuts)
        self.hear(None, after_ms)
        return self.cuts[before:]

    def totals(self, pool: str = "chat") -> dict[str, int]:
        """What all reports of the pool add up to, those not cut yet included."""
        self.tick()
        sums = dict.fromkeys(SPENT, 0)
        for cut in self.cuts:
            if cut.report.pool == pool:
                for name in SPENT:
                    sums[name] += sum(getattr(cut.report.totals, name))
        return {name: value for name, value in sums.items() if value}

    def rows(self) -> list[dict[str, Any]]:
        """Every row of the requests blocks, as history would have them."""
        self.tick()
        blocks = [
            decode_as(RequestsBlock, cut.report.requests)
            for cut in self.cuts
            if cut.report.requests
        ]
        return [row for block in blocks for row in rows_of(block)]


def rows_of(block: RequestsBlock) -> list[dict[str, Any]]:
    columns = ("tokens_uncached", "tokens_cache_write", "tokens_cached", "tokens_out")
    return [
        {
            "id": block.id[place],
            "status": block.status[place],
            "estimated": block.estimated[place],
            "tenant": block.names[block.tenant[place]],
            "tokens": tuple(
                (getattr(block, name) or [0] * len(block.id))[place] for name in columns
            ),
            "age_ms": (block.age_ms or [0] * len(block.id))[place],
        }
        for place in range(len(block.id))
    ]
