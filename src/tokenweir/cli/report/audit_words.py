"""Audit entries as sentences for a page; kinds that have none are told as `explain` does."""

from collections.abc import Callable, Mapping, Sequence

from tokenweir.cli import figures
from tokenweir.cli.history.story import change_words
from tokenweir.history.answers import Change
from tokenweir.records.spec import UNKNOWN

MOST_NAMES = 5


def sentence(change: Change) -> str:
    """What happened and why, in one sentence or two."""
    words = SENTENCES.get(change.kind)
    text = change_words(change) if words is None else words(change)
    return text if text.endswith(".") else f"{text}."


def named(tenants: Sequence[str]) -> str:
    """Tenants in words: a, b and c; many are cut off."""
    shown = ["unknown tenants" if name == UNKNOWN else name for name in tenants[:MOST_NAMES]]
    if len(tenants) > MOST_NAMES:
        shown.append(f"{len(tenants) - MOST_NAMES} more")
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _tier(change: Change) -> str:
    held = f" Held back: {named(change.lost)}." if change.lost else ""
    return f"The tier went from {change.before} to {change.after}: {change.why}.{held}"


def _breaker(change: Change) -> str:
    cut = f" It cut {figures.rate(change.amount)} from {named(change.lost)}." if change.lost else ""
    return f"The breaker went from {change.before} to {change.after}: {change.why}.{cut}"


def _spec(change: Change) -> str:
    if change.before == "0":
        return f"The pool's first spec came into force, version {change.after}"
    return f"Version {change.after} of the spec took the place of version {change.before}"


def _rejected(change: Change) -> str:
    return f"Version {change.after} of the spec was rejected: {change.why}"


def _capacity(change: Change) -> str:
    return f"The capacity went from {change.before} to {change.after}: {change.why}"


def _floors(change: Change) -> str:
    return (
        f"Floors that need {_rate(change.before)} were cut to {_rate(change.after)}, those of "
        f"{named(change.lost)}: {change.why}"
    )


def _reclaim(change: Change) -> str:
    return (
        f"{figures.rate(change.amount)} of what was lent were taken back from "
        f"{named(change.lost)}, for {named(change.gained)}: {change.why}. "
        f"{_rate(change.after)} stay lent"
    )


def _revoke(change: Change) -> str:
    return (
        f"Running work of {named(change.lost)} was stopped, which held "
        f"{figures.count(change.amount)} tokens, for {named(change.gained)}: {change.why}. "
        f"It {change.after}"
    )


def _quota(change: Change) -> str:
    names = named([*change.lost, *change.gained])
    if change.lost and change.gained:
        names = f"from {named(change.lost)} to {named(change.gained)}"
    return f"{change.why}: {names}, {figures.count(change.amount)} tokens"


def _rate(milli: str) -> str:
    return figures.rate(int(milli)) if milli.lstrip("-").isdigit() else milli


SENTENCES: Mapping[str, Callable[[Change], str]] = {
    "tier": _tier,
    "breaker": _breaker,
    "spec": _spec,
    "spec_rejected": _rejected,
    "capacity": _capacity,
    "floors": _floors,
    "reclaim": _reclaim,
    "revoke": _revoke,
    "quota": _quota,
}
