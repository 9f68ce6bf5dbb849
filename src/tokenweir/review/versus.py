"""Two sides of a what-if beside each other: who gains, who loses, and what it costs."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from tokenweir.history.prices import Price
from tokenweir.review.sums import Sums, TenantSums, summed
from tokenweir.review.used import Used, as_much_more
from tokenweir.review.what_if import WhatIf

NOBODY = TenantSums("", "")


@dataclass(frozen=True, slots=True)
class Beside:
    """One tenant under both policies; a cost is None where a price is missing."""

    tenant: str
    before: TenantSums
    after: TenantSums
    cost_before: Decimal | None = None
    cost_after: Decimal | None = None

    @property
    def service_class(self) -> str:
        """Under the changed policy, or the recorded one where that does not know it."""
        return self.after.service_class or self.before.service_class

    @property
    def gained(self) -> int:
        """Charged tokens that it would have spent more; below 0: less."""
        return self.after.spent - self.before.spent

    @property
    def is_same(self) -> bool:
        """Whether it would have got the same."""
        return self.before == self.after


@dataclass(frozen=True, slots=True)
class Versus:
    """The whole comparison; tenants in the order of their names."""

    before: Sums
    after: Sums
    tenants: tuple[Beside, ...]
    priced: bool

    @property
    def gainers(self) -> tuple[Beside, ...]:
        """Who would have spent more, most first."""
        return tuple(
            sorted((one for one in self.tenants if one.gained > 0), key=lambda one: -one.gained)
        )

    @property
    def losers(self) -> tuple[Beside, ...]:
        """Who would have spent less, most first."""
        return tuple(
            sorted((one for one in self.tenants if one.gained < 0), key=lambda one: one.gained)
        )


def versus(found: WhatIf, prices: Mapping[str, Price] | None) -> Versus:
    """Compare the two; costs only where prices are given, and models were read."""
    before, after = summed(found.recorded.frames), summed(found.changed.frames)
    names = sorted({*before.tenants, *after.tenants})
    tenants = tuple(
        _priced(
            Beside(name, before.tenants.get(name, NOBODY), after.tenants.get(name, NOBODY)),
            found.used,
            prices,
        )
        for name in names
    )
    return Versus(before, after, tenants, prices is not None)


def _priced(one: Beside, used: Used, prices: Mapping[str, Price] | None) -> Beside:
    if prices is None:
        return one
    recorded = used.cost(one.tenant, prices).amount
    instead = as_much_more(recorded, one.before.spent, one.after.spent)
    return Beside(one.tenant, one.before, one.after, recorded, instead)
