"""Whether a report's increments add up to its totals (T6)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import add
from typing import TypeVar

from tokenweir.history.tables import SAID
from tokenweir.records.usage import RequestsBlock, Totals

ENDED = frozenset({"done", "cancelled", "expired"})
Key = TypeVar("Key")
Sums = tuple[int, ...]  # in the order of SAID
NOTHING: Sums = (0,) * len(SAID)


@dataclass(frozen=True, slots=True)
class Balance:
    """Sums over a report, as its totals say and as its increments count, and who differs."""

    said: Sums
    counted: Sums
    differ: tuple[str, ...]  # tenants, in the order of their names

    def __bool__(self) -> bool:
        return not self.differ


def balance(totals: Totals, block: RequestsBlock) -> Balance:
    """Compare per tenant and user; the totals are checked, the block's columns at full length."""
    said, counted = said_of(totals), counted_of(block)
    differ = {who[0] for who in said.keys() | counted.keys() if said.get(who) != counted.get(who)}
    return Balance(summed(said.values()), summed(counted.values()), tuple(sorted(differ)))


def said_of(totals: Totals) -> dict[tuple[str, str], Sums]:
    """What the totals say, a (tenant, user)."""
    count = len(totals.tenant)
    columns = [getattr(totals, name) or (0,) * count for name in SAID]
    return _gather(totals.names, zip(totals.tenant, totals.user, *columns, strict=True))


def counted_of(block: RequestsBlock) -> dict[tuple[str, str], Sums]:
    """What the increments add up to, a (tenant, user)."""
    ended = [status in ENDED for status in block.status]
    failed = [bool(end and error) for end, error in zip(ended, block.error, strict=True)]
    refused = [status == "refused" for status in block.status]
    rows = zip(
        block.tenant,
        block.user,
        ended,
        failed,
        block.tokens_uncached,
        block.tokens_cached,
        block.tokens_out,
        refused,
        block.refused_tokens,
        strict=True,
    )
    return _gather(block.names, rows)


def summed(rows: Iterable[Sums]) -> Sums:
    """The columns' sums."""
    return tuple(map(sum, zip(*rows, strict=True))) or NOTHING


def described(sums: Sums) -> str:
    """Sums as a person reads them: `requests 3, tokens_out 300`."""
    shown = (f"{name} {value}" for name, value in zip(SAID, sums, strict=True) if value)
    return ", ".join(shown) or "nothing"


def _gather(names: Sequence[str], rows: Iterable[tuple[int, ...]]) -> dict[tuple[str, str], Sums]:
    sums: dict[tuple[int, int], Sums] = {}
    for tenant, user, *values in rows:
        _add(sums, (tenant, user), tuple(values))
    # A dictionary may hold one name twice; rows of nothing but gauges say nothing here.
    named: dict[tuple[str, str], Sums] = {}
    for (tenant, user), total in sums.items():
        if any(total):
            _add(named, (names[tenant], names[user]), total)
    return named


def _add(sums: dict[Key, Sums], key: Key, values: Sums) -> None:
    known = sums.get(key)
    sums[key] = tuple(map(add, known, values)) if known else values
