"""The story of one decision, wherever it was read: values, and the words for one tenant."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from tokenweir.cli import figures
from tokenweir.cli.pools import Row
from tokenweir.history.answers import Change, Figures
from tokenweir.history.explain import Ends, GatewayTold, Told

MOST_NAMES = 5  # in a sentence
# Keys that say their units, as in `get tenants`.
UNITS = {
    "baseline": "baseline_milli_tokens_per_s",
    "demand": "demand_milli_tokens_per_s",
    "rate": "rate_milli_tokens_per_s",
    "floor": "floor_milli_tokens_per_s",
    "grant": "grant_milli_tokens_per_s",
    "leased": "leased_milli_tokens_per_s",
    "granted": "granted_milli_tokens_per_s",
    "capacity": "capacity_milli_tokens_per_s",
    "probe_rate": "probe_rate_milli_tokens_per_s",
    "weight": "weight_millionths",
    "debt": "debt_millionths",
    "level": "level_millionths",
    "level_now": "level_now_millionths",
    "lent": "lent_millionths",
    "alpha": "alpha_millionths",
    "used": "window_tokens",
    "budget": "budget_tokens",
    "spent": "interval_tokens",
    "queued": "queued_requests",
    "refused": "refused_requests",
}


@dataclass(frozen=True, slots=True)
class Story:
    """One decision with what it was taken on, what changed around it, and what came of it.

    `before` is the decision before it; `ends` is None where only the journal was read.
    """

    pool: str
    decision: Told
    before: Told | None
    tenants: Sequence[Figures]
    tenants_before: Sequence[Figures]
    gateways: Sequence[GatewayTold]
    changes: Sequence[Change]
    ends: Sequence[Ends] | None


def story_row(story: Story, tenant: str | None) -> Row:
    """The whole story, or one tenant's, in exact numbers."""
    only = (lambda name: True) if tenant is None else (lambda name: name == tenant)
    return {
        "pool": story.pool,
        "decision": _named(asdict(story.decision)),
        "before": story.before and _named(asdict(story.before)),
        "tenants": [_named(asdict(row)) for row in story.tenants if only(row.tenant)],
        "gateways": [_named(asdict(row)) for row in story.gateways],
        "audit": [
            asdict(change) for change in story.changes if tenant is None or names(change, tenant)
        ],
        "requests": None
        if story.ends is None
        else [asdict(row) for row in story.ends if only(row.tenant)],
    }


def names(change: Change, tenant: str) -> bool:
    """Whether a change is about a tenant, or took from it or gave to it."""
    return tenant == change.subject or tenant in change.lost or tenant in change.gained


def decision_words(story: Story) -> Iterator[str]:
    """What was decided, a line each."""
    now = story.decision
    yield f"{now.id}: {instant(now.at)}, spec version {now.spec_version}, mode {now.mode}"
    level = f"level {figures.percent(now.level)} (over the window {figures.percent(now.level_now)})"
    yield (
        f"{level}, spot and preemptible take {figures.percent(now.lent)} beside it;"
        f" used {figures.count(now.used)} of {figures.count(now.budget)} tokens in the window"
    )
    breaker = now.breaker if now.breaker == "closed" else f"{now.breaker}, {_refuses(now)}"
    yield f"tier {now.tier}{_since(story)}; breaker {breaker}; alpha {figures.ratio(now.alpha)}"
    yield f"granted {figures.rate(now.granted)} of {figures.rate(now.capacity)}"
    held = [
        f"{n} {a}" for n, a in zip(now.class_names, now.class_actions, strict=True) if a != "none"
    ]
    yield f"classes held back: {', '.join(held) or 'none'}"


def tenant_words(story: Story, tenant: str) -> Iterator[str]:
    """The story of one tenant, a sentence each."""
    found = _of(story.tenants, tenant)
    if found is None:
        yield f"{tenant} was idle, or the spec does not name it: it asked for and held nothing."
    else:
        yield from _figures_words(story, found)
    for change in story.changes:
        if names(change, tenant):
            yield f"{instant(change.at)}: {change_words(change)}."
    for row in story.ends or ():
        if row.tenant == tenant:
            yield f"{_ended(row)}."


def _figures_words(story: Story, now: Figures) -> Iterator[str]:
    asked, got = figures.rate(now.demand), figures.rate(now.grant)
    yield f"{now.tenant} ({now.service_class}) asked for {asked} and was granted {got}."
    baseline, floor = figures.rate(now.baseline), figures.rate(now.floor)
    yield f"Its baseline is {baseline}; {floor} was kept for it."
    if now.grant > now.floor:
        lent = figures.rate(now.grant - now.floor)
        yield f"{lent} of its grant is borrowed: what others leave, shared by weight."
    elif now.demand > now.grant:
        yield "Nothing was left to borrow, or its class may not."
    debt = f", raised by a debt of {figures.ratio(now.debt)}" if now.debt else ""
    yield f"Its weight was {figures.ratio(now.weight)}{debt}."
    yield f"Its gateways may hold {figures.rate(now.leased)} in leases."
    action = dict(zip(story.decision.class_names, story.decision.class_actions, strict=True))
    if action.get(now.service_class, "none") != "none":
        yield f"The tier holds its class back: {action[now.service_class]}."
    refused = f"{figures.count(now.refused)} requests ({figures.count(now.refused_tokens)} tokens)"
    yield (
        f"Since the decision before, it had spent {figures.count(now.spent)} tokens, {refused} were"
        f" refused, and {figures.count(now.queued)} waited."
    )
    before = _of(story.tenants_before, now.tenant)
    if before is not None and before.grant != now.grant:
        yield f"The decision before had granted it {figures.rate(before.grant)}."


def change_words(change: Change) -> str:
    """One audit entry as a sentence."""
    taken = f" from {_some(change.lost)}" if change.lost else ""
    given = f" to {_some(change.gained)}" if change.gained else ""
    amount = f" {_in_unit(str(change.amount), change.unit)}" if change.amount else ""
    states = [_in_unit(state, change.unit) for state in (change.before, change.after)]
    moved = f", {' → '.join(states)}" if any(states) else ""
    said = f"{amount}{taken}{given}{moved}".removeprefix(",")
    return f"{change.kind} of {change.subject}:{said}: {change.why}"


def _in_unit(text: str, unit: str) -> str:
    """A rate or a part as people read it; whatever else as it stands, a number with its unit."""
    if not text.lstrip("-").isdigit():
        return text
    if unit.startswith("millionths"):
        return f"{figures.percent(int(text))}{unit.removeprefix('millionths')}"
    return figures.rate(int(text)) if unit == "milli-tokens/s" else f"{text} {unit}".strip()


def _some(tenants: Sequence[str]) -> str:
    more = len(tenants) - MOST_NAMES
    shown = ", ".join(tenants[:MOST_NAMES])
    return f"{shown} and {more} more" if more > 0 else shown


def instant(at: datetime) -> str:
    """A moment in UTC, to the millisecond."""
    return f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d} UTC"


def _ended(row: Ends) -> str:
    count = figures.count(row.requests)
    if row.status == "refused":
        tokens = figures.count(row.refused_tokens)
        return f"Under this decision {count} requests ({tokens} tokens) were refused: {row.reason}"
    why = f" ({row.reason})" if row.reason else ""
    return f"Of the requests that this decision let in, {count} ended: {row.status}{why}"


def _of(rows: Sequence[Figures], tenant: str) -> Figures | None:
    return next((row for row in rows if row.tenant == tenant), None)


def _since(story: Story) -> str:
    before = story.before
    return f" (before: {before.tier})" if before and before.tier != story.decision.tier else ""


def _refuses(now: Told) -> str:
    refuses = "refuses everybody" if now.breaker_refuses == "all" else "floors pass"
    probes = f", {figures.rate(now.probe_rate)} may probe" if now.probe_rate else ""
    return refuses + probes


def _named(row: Row) -> Row:
    return {UNITS.get(name, name): value for name, value in row.items()}


def tenant_cells(row: Figures, before: Mapping[str, int], unknown: str) -> list[str]:
    """A tenant's row in a decision's table; `unknown` where the decision before had no grant."""
    grant = before.get(row.tenant)
    return [
        row.tenant,
        row.service_class,
        figures.rate(row.baseline),
        figures.rate(row.demand),
        figures.rate(row.floor),
        figures.ratio(row.weight),
        figures.ratio(row.debt),
        figures.rate(row.grant),
        unknown if grant is None else figures.rate(grant),
        figures.rate(row.leased),
        figures.count(row.queued),
        figures.count(row.refused),
    ]
