"""What requests cost: exact sums of tokens at their models' prices. No float on the way."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Literal, NamedTuple

from tokenweir.usage_shapes import Tokens

# Wide enough for every sum of tokens at a price; what would round raises.
EXACT = Context(prec=96, traps=[Inexact, InvalidOperation])

Kind = Literal["input", "cached", "cache_write", "out"]


@dataclass(frozen=True, slots=True)
class Price:
    """Money a token of each kind. None: no price is known; 0: it is free."""

    input: Decimal | None = None
    cached: Decimal | None = None
    cache_write: Decimal | None = None
    out: Decimal | None = None

    def of(self, kind: Kind) -> Decimal | None:
        """What one token of this kind costs: without a price of its own, cached and cache-writing
        tokens cost what input costs.
        """
        each: Decimal | None = getattr(self, kind)
        return self.input if each is None and kind in ("cached", "cache_write") else each


class Attempt(NamedTuple):
    """What one attempt of a request used, and of which model."""

    model: str
    tokens: Tokens


@dataclass(frozen=True, slots=True)
class Cost:
    """What a request cost. `amount` is None where a price is missing: unknown, never 0.

    `fallbacks` are the kinds that were used, have no price of their own and cost what input costs.
    """

    amount: Decimal | None
    fallbacks: frozenset[Kind] = frozenset()

    @property
    def price_missing(self) -> bool:
        """Some of its tokens have no price."""
        return self.amount is None


UNKNOWN_PRICE = Price()
UNKNOWN_COST = Cost(None)
FREE = Cost(Decimal(0))


def cost(attempts: Iterable[Attempt], prices: Mapping[str, Price]) -> Cost:
    """The sum of the attempts, each at its own model's price.

    An attempt that gave no output costs its input; one that used nothing costs nothing, whatever
    its model. If one price is missing the sum is unknown: a part would look like the whole.
    """
    total = FREE
    for attempt in attempts:
        price = prices.get(attempt.model, UNKNOWN_PRICE)
        for kind, count in _counts(attempt.tokens):
            total = _plus(total, kind, count, price)
    return total


def _counts(tokens: Tokens) -> list[tuple[Kind, int]]:
    counts: list[tuple[Kind, int]] = [
        ("input", tokens.plain),
        ("cached", tokens.cached),
        ("cache_write", tokens.cache_write),
        ("out", tokens.out),
    ]
    return [(kind, count) for kind, count in counts if count]


def _plus(total: Cost, kind: Kind, count: int, price: Price) -> Cost:
    each = price.of(kind)
    if total.amount is None or each is None:
        return UNKNOWN_COST
    fallen: frozenset[Kind] = frozenset() if getattr(price, kind) is not None else frozenset({kind})
    return Cost(EXACT.fma(Decimal(count), each, total.amount), total.fallbacks | fallen)
