"""A what-if in words, rows and exact figures."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from decimal import Decimal

from tokenweir.cli import figures
from tokenweir.cli.history.story import instant
from tokenweir.cli.pools import Row
from tokenweir.history.instants import instant_of
from tokenweir.review.sums import Sums
from tokenweir.review.versus import Beside, Versus
from tokenweir.review.what_if import WhatIf
from tokenweir.spec.difference import Change, difference

TIERS = ("normal", "soft_degrade", "hard_degrade", "circuit_break")
MOST_NAMES = 5
ASSUMED = (
    "Demand that was refused is offered again, to the changed policy, in the same report. Each "
    "refused token counts as demand of its own: where clients tried again after a refusal, both "
    "tries count, so what would have been gained is an upper bound.",
    "Clients do the same under both policies. Nobody asks for less because of a refusal, and "
    "nobody who was never refused asks for more.",
    "A gateway lets in what its leases hold; what it does not let in waits as long as its class "
    "may, and is refused then. What else holds requests back there (ceilings of quotas, "
    "sequences, KV bytes, the order of a queue) and what runs are taken as recorded.",
    "Gateways obey the changed decisions as fast as they obeyed the recorded ones.",
)


def changed_by(found: WhatIf) -> tuple[Change, ...]:
    """What the changed policy says differently."""
    return difference(found.before, found.after)


def lead_words(found: WhatIf, sums: Versus, name: str) -> str:
    """Which range, and which policies."""
    range_ = f"{_at(sums.before.from_ms)} to {_at(sums.before.to_ms)}"
    return (
        f"pool {found.before.pool}, {range_}: {sums.before.decisions} decisions under the recorded "
        f"policy (version {found.before.version}), {sums.after.decisions} under {name}"
    )


def outcome_words(found: WhatIf, sums: Versus) -> Iterator[str]:
    """Who would have gained and lost, a sentence each."""
    if found.is_same:
        yield "No difference: every decision is the same under both policies."
        return
    yield f"The first decision that differs is {found.first_difference}."
    for verb, who in (("gained", sums.gainers), ("lost", sums.losers)):
        yield f"Would have {verb}: {_names(who)}."
    spent = sums.after.spent - sums.before.spent
    refused = sums.after.refused_tokens - sums.before.refused_tokens
    yield f"All together: {more(spent)} tokens spent, {more(refused)} refused."


def assumed_words(found: WhatIf, sums: Versus) -> Iterator[str]:
    """What the figures rest on."""
    yield from ASSUMED
    later = found.passed_over
    specs = {0: "", 1: "; a later spec in the log is passed over"}.get(
        later, f"; {later} later specs in the log are passed over"
    )
    yield (
        "The changed policy takes the place of the spec in force at the first decision, under its "
        f"version number, and stays{specs}. Capacities that were reported hold under both."
    )
    if sums.priced:
        yield "A tenant's charged token costs what its recorded ones did on average."
    else:
        yield "No prices are given (--prices FILE), so charged tokens stand for cost."


def pool_rows(sums: Versus) -> Iterator[list[str]]:
    """The pool's figures: name, recorded, changed."""
    before, after = sums.before, sums.after
    seen = [tier for tier in TIERS if before.tiers.get(tier) or after.tiers.get(tier)]
    for tier in seen:
        times = (figures.age(side.tiers.get(tier, 0)) for side in (before, after))
        yield [f"time in {tier}", *times]
    yield ["level, mean", *(figures.percent(side.level) for side in (before, after))]
    yield ["level, highest", *(figures.percent(side.most_level) for side in (before, after))]
    yield ["lent, highest", *(figures.percent(side.most_lent) for side in (before, after))]
    yield ["tokens granted", *(figures.count(_granted(side)) for side in (before, after))]
    yield ["tokens spent", *(figures.count(side.spent) for side in (before, after))]
    yield ["tokens refused", *(figures.count(side.refused_tokens) for side in (before, after))]


def tenant_row(one: Beside) -> list[str]:
    """One tenant: each figure recorded, then changed, where it differs."""
    before, after = one.before, one.after
    return [
        one.tenant,
        one.service_class,
        _pair(before.spent, after.spent, figures.count),
        more(one.gained) if one.gained else "",
        _pair(before.granted, after.granted, figures.count),
        _pair(before.borrowed, after.borrowed, figures.count),
        _pair(before.refused, after.refused, figures.count),
        _pair(before.refused_tokens, after.refused_tokens, figures.count),
        _pair(before.most_debt, after.most_debt, figures.ratio),
    ]


def cost_row(one: Beside, priced: bool) -> list[str]:
    """One tenant's cost, recorded, changed, and the difference."""
    if not priced:
        spent = one.before.spent, one.after.spent
        return [one.tenant, *map(str, spent), more(one.gained) if one.gained else ""]
    before, after = one.cost_before, one.cost_after
    differ = None if before is None or after is None else after - before
    return [one.tenant, *map(money, (before, after)), money(differ) if differ else ""]


def row_of(found: WhatIf, sums: Versus, name: str) -> Row:
    """The exact figures."""
    return {
        "pool": found.before.pool,
        "policy": name,
        "identical": found.is_same,
        "first_difference": found.first_difference or None,
        "changes": [asdict(change) for change in changed_by(found)],
        "assumptions": [*assumed_words(found, sums)],
        "later_specs_passed_over": found.passed_over,
        "recorded": _side(sums.before),
        "changed": _side(sums.after),
        "tenants": [_tenant(one, sums.priced) for one in sums.tenants],
        "gained": [one.tenant for one in sums.gainers],
        "lost": [one.tenant for one in sums.losers],
    }


def more(amount: int) -> str:
    """A difference with its sign: +12.3k, −80, or the same."""
    if amount == 0:
        return "as many"
    return f"{'+' if amount > 0 else '−'}{figures.count(abs(amount))}"


def money(amount: Decimal | None) -> str:
    """An amount to six places; a price that is missing is no 0."""
    return "unknown" if amount is None else f"{amount:.6f}"


def _pair(before: int, after: int, shown: Callable[[int], str]) -> str:
    return shown(before) if before == after else f"{shown(before)} → {shown(after)}"


def _names(who: Sequence[Beside]) -> str:
    shown = [f"{one.tenant} {more(one.gained)} tokens" for one in who[:MOST_NAMES]]
    rest = len(who) - MOST_NAMES
    return ", ".join(shown) + (f" and {rest} more" if rest > 0 else "") or "nobody"


def _granted(side: Sums) -> int:
    return sum(one.granted for one in side.tenants.values())


def _side(side: Sums) -> Row:
    return {
        "decisions": side.decisions,
        "from_ms": side.from_ms,
        "to_ms": side.to_ms,
        "tiers_ms": dict(side.tiers),
        "level_mean_millionths": side.level,
        "level_highest_millionths": side.most_level,
        "lent_highest_millionths": side.most_lent,
        "granted_tokens": _granted(side),
        "spent_tokens": side.spent,
        "refused_tokens": side.refused_tokens,
    }


def _tenant(one: Beside, priced: bool) -> Row:
    names = {
        "service_class": "class",
        "spent": "spent_tokens",
        "refused": "refused_requests",
        "refused_tokens": "refused_tokens",
        "granted": "granted_tokens",
        "borrowed": "borrowed_tokens",
        "debt": "debt_millionths",
        "most_debt": "debt_highest_millionths",
    }
    sides = [
        {names[name]: value for name, value in asdict(side).items() if name in names}
        for side in (one.before, one.after)
    ]
    row: Row = {"tenant": one.tenant, "recorded": sides[0], "changed": sides[1]}
    if priced:
        row |= {"cost_recorded": one.cost_before, "cost_changed": one.cost_after}
    return row


def _at(ms: int) -> str:
    return instant(instant_of(ms))
