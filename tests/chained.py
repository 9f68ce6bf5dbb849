"""The real core with a chain over what it folded: a message twice, lost or late breaks it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from agents.control import CORE
from streams.core import Core
from tokenweir.core.pool import Pool
from tokenweir.core.step import Decided
from tokenweir.records.journal import JournalEntry
from tokenweir.records.usage import UsageReport

BREAKS_THE_CORE = "breaks-the-core"  # a gateway whose reports do
CHAIN = "debt/{}/chain"  # a row of its own, in another table than the pool's first


@dataclass(slots=True)
class Chained:
    """A pool, how many records it folded, and the chain over them."""

    pool: Pool
    count: int = 0
    chain: str = ""

    @property
    def name(self) -> str:
        return self.pool.name

    @property
    def clock_ms(self) -> int:
        return self.pool.clock_ms

    @property
    def boundary_ms(self) -> int:
        return self.pool.boundary_ms


def link(chain: str, record: Any) -> str:
    """The chain with one more record."""
    if isinstance(record, UsageReport):
        text = f"{record.gateway}/{record.sequence}"
    else:
        text = type(record).__name__
    return blake2b(f"{chain}|{text}".encode(), digest_size=8).hexdigest()


def chain_of(records: Iterable[Any]) -> tuple[int, str]:
    """How many records, and the chain over them: what a pool must have folded."""
    count, chain = 0, ""
    for record in records:
        count, chain = count + 1, link(chain, record)
    return count, chain


def new_chained(name: str) -> Chained:
    return Chained(CORE.new_pool(name))


def advance(state: Chained, append_ms: int) -> Decided | None:
    return CORE.advance(state.pool, append_ms)


def fold(state: Chained, record: Any, append_ms: int) -> Sequence[JournalEntry]:
    if isinstance(record, UsageReport) and record.gateway == BREAKS_THE_CORE:
        raise ZeroDivisionError("made to fail")
    entries = CORE.fold(state.pool, record, append_ms)
    state.count, state.chain = state.count + 1, link(state.chain, record)
    return entries


def to_rows(state: Chained) -> dict[str, bytes]:
    chain = f"{state.count} {state.chain}".encode()
    return {**CORE.to_rows(state.pool), CHAIN.format(state.name): chain}


def from_rows(rows: Mapping[str, bytes]) -> Chained:
    [chain] = [key for key in rows if key.endswith("/chain")]
    count, text = rows[chain].decode().split(" ")
    pool = CORE.from_rows({key: row for key, row in rows.items() if key != chain})
    return Chained(pool, int(count), text)


CHAINED: Core[Chained] = Core(CORE.arithmetic, new_chained, advance, fold, to_rows, from_rows)
