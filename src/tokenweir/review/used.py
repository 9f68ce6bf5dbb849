"""Which models tenants used, and what it cost: from the requests that reports carry."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from tokenweir.errors import BadRecord
from tokenweir.history.increments import requests_of
from tokenweir.history.prices import FREE, Attempt, Cost, Price, cost
from tokenweir.records.usage import UsageReport
from tokenweir.usage_shapes import Tokens

NO_TOKENS = (0, 0, 0, 0)


@dataclass(slots=True)
class Used:
    """Tokens by tenant and model: uncached, cached, written to a cache, out."""

    tokens: dict[tuple[str, str], tuple[int, int, int, int]] = field(default_factory=dict)
    unreadable: int = 0  # reports whose requests cannot be read

    def add(self, report: UsageReport) -> None:
        """Count a report's requests."""
        try:
            block = requests_of(report)
        except BadRecord:
            self.unreadable += 1
            return
        columns = (
            block.tokens_uncached,
            block.tokens_cached,
            block.tokens_cache_write,
            block.tokens_out,
        )
        names = block.names
        for tenant, model, *each in zip(block.tenant, block.model, *columns, strict=True):
            if any(each):
                whose = names[tenant], names[model]
                a, b, c, d = self.tokens.get(whose, NO_TOKENS)
                self.tokens[whose] = a + each[0], b + each[1], c + each[2], d + each[3]

    def cost(self, tenant: str, prices: Mapping[str, Price]) -> Cost:
        """What a tenant's requests cost; unknown where a price is missing."""
        attempts = [
            Attempt(model, Tokens(uncached=a, cached=b, cache_write=c, out=d))
            for (whose, model), (a, b, c, d) in sorted(self.tokens.items())
            if whose == tenant
        ]
        return cost(attempts, prices) if attempts else FREE


def as_much_more(amount: Decimal | None, spent: int, instead: int) -> Decimal | None:
    """A cost at the same price a charged token for another amount; None where it is not known."""
    if amount is None or (spent == 0 and instead):
        return None
    return amount * instead / spent if spent else amount
