"""Whole pools whose tenants ask for so many tokens each second, and spend what they may."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tests.pools import START, pool_with, report, tenant
from tokenweir.core.step import Decided, advance, fold
from tokenweir.records.journal import AuditEntry, DecisionEntry
from tokenweir.records.spec import RANK, Entitlement, PoolSpec, ServiceClass
from tokenweir.records.usage import CapacityReport

# Of 1 000 tokens/s; spot and preemptible reserve nothing.
BASELINES = {"dedicated": (50, 100), "guaranteed": (50, 100), "elastic": (200, 300, 400, 500)}


class Asking:
    """A pool with one gateway that obeys at once, second after second."""

    def __init__(self, rules: PoolSpec) -> None:
        self.pool = pool_with(rules)
        self.sequence = 0

    def second(self, wants: Mapping[str, int], capacity: int | None = None) -> Decided:
        """Each tenant spends of its grant and is refused the rest; the decision afterwards.

        With `capacity` (milli-tokens/s) somebody also says that this is the pool's from now on.
        """
        self.sequence += 1
        pool, at_ms = self.pool, START + self.sequence * 1000
        grant = dict(zip(pool.terms.names, pool.tally.grant.tolist(), strict=True))
        spent = {name: min(want, grant.get(name, 0) // 1000) for name, want in wants.items()}
        short = {name: want - spent[name] for name, want in wants.items()}
        applied = pool.boundary_ms
        decided = advance(pool, at_ms, leases=False)
        assert decided is not None
        fold(pool, report("g", self.sequence, spent, refused=short, applied=applied), at_ms)
        if capacity is not None:
            fold(pool, CapacityReport("chat", "backend", capacity, None, None), at_ms)
        return decided


def audits(decided: Decided) -> list[AuditEntry]:
    """What the decision tells beside itself."""
    return [entry.body for entry in decided.entries if isinstance(entry.body, AuditEntry)]


def entry_of(decided: Decided) -> DecisionEntry:
    """The decision's own entry."""
    body = decided.entries[0].body
    assert isinstance(body, DecisionEntry)
    return body


def claims(
    dice: random.Random, classes: Sequence[ServiceClass], unit: int
) -> tuple[Entitlement, ...]:
    """Two to five tenants of these classes; `unit` is a thousandth of the capacity, tokens/s."""
    return tuple(
        _claim(dice, f"t{n}", dice.choice(classes), unit) for n in range(dice.randint(2, 5))
    )


def _claim(dice: random.Random, name: str, kind: ServiceClass, unit: int) -> Entitlement:
    borrow, lend = dice.choice((None, None, None, 30, 300)), dice.choice((None, None, None, 30))
    return tenant(
        name,
        kind,
        dice.choice(BASELINES.get(kind, (0,))) * unit,
        borrow_cap=None if borrow is None else borrow * unit,
        lend_cap=None if lend is None else lend * unit,
        slo_s=dice.choice((0.1, 1, 30)),
    )


def limited_by_soft(rules: PoolSpec, kind: ServiceClass) -> PoolSpec:
    """The same rules, with a class that soft_degrade limits: it borrows half its share."""
    classes = [
        replace(each, soft_action="limit") if RANK[each.service_class] <= RANK[kind] else each
        for each in rules.classes
    ]
    return replace(rules, classes=classes)
