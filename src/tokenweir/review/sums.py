"""A range of decisions in sums: time in each tier, and what each tenant got."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tokenweir.review.frames import Frame, lasting

# Milli-tokens/s times ms: so many are a token.
TOKEN = 1_000_000


@dataclass(frozen=True, slots=True)
class TenantSums:
    """One tenant over the range: charged tokens, and requests where it says so.

    `debt` is what it was owed at the range's end, `most_debt` the highest; millionths.
    """

    tenant: str
    service_class: str
    spent: int = 0
    refused: int = 0  # requests
    refused_tokens: int = 0
    granted: int = 0
    borrowed: int = 0  # of what was granted: lent by others, to meet demand
    debt: int = 0
    most_debt: int = 0


@dataclass(frozen=True, slots=True)
class Sums:
    """The pool over the range; ratios in millionths, capacities in milli-tokens/s."""

    decisions: int
    from_ms: int
    to_ms: int  # of the first and the last decision
    tiers: Mapping[str, int]  # ms in each
    level: int  # the mean over time
    most_level: int
    most_lent: int
    tenants: Mapping[str, TenantSums]

    @property
    def spent(self) -> int:
        """Of all tenants."""
        return sum(tenant.spent for tenant in self.tenants.values())

    @property
    def refused_tokens(self) -> int:
        """Of all tenants."""
        return sum(tenant.refused_tokens for tenant in self.tenants.values())


@dataclass(slots=True)
class _Running:
    service_class: str
    spent: int = 0
    refused: int = 0
    refused_tokens: int = 0
    granted: int = 0  # milli-tokens/s times ms
    borrowed: int = 0
    debt: int = 0
    most_debt: int = 0
    seen: int = 0  # number of the last decision that had it


def summed(frames: Sequence[Frame]) -> Sums:
    """The sums of decisions in their order; of none, zeros."""
    tiers: dict[str, int] = {}
    running: dict[str, _Running] = {}
    levels, span_ms = 0, 0
    for number, (frame, ms) in enumerate(zip(frames, lasting(frames), strict=True)):
        tiers[frame.tier] = tiers.get(frame.tier, 0) + ms
        levels, span_ms = levels + frame.level * ms, span_ms + ms
        _add(running, frame, ms, number)
    return Sums(
        decisions=len(frames),
        from_ms=frames[0].at_ms if frames else 0,
        to_ms=frames[-1].at_ms if frames else 0,
        tiers=tiers,
        level=levels // max(span_ms, 1),
        most_level=max((frame.level for frame in frames), default=0),
        most_lent=max((frame.lent for frame in frames), default=0),
        tenants={
            name: _sums(name, one, one.seen == len(frames) - 1)
            for name, one in sorted(running.items())
        },
    )


def tier_changes(frames: Iterable[Frame]) -> list[Frame]:
    """The decisions that have another tier than the one before."""
    return [after for before, after in pairwise(frames) if before.tier != after.tier]


def _add(running: dict[str, _Running], frame: Frame, ms: int, number: int) -> None:
    columns = (
        frame.of(name).tolist()
        for name in ("spent", "refused", "refused_tokens", "grant", "borrowed", "debt")
    )
    for name, class_, spent, refused, tokens, grant, borrowed, debt in zip(
        frame.names, frame.classes, *columns, strict=True
    ):
        one = running.setdefault(name, _Running(class_))
        one.service_class, one.seen = class_, number
        one.spent += spent
        one.refused += refused
        one.refused_tokens += tokens
        one.granted += grant * ms
        one.borrowed += borrowed * ms
        one.debt, one.most_debt = debt, max(one.most_debt, debt)


def _sums(name: str, one: _Running, is_there: bool) -> TenantSums:
    return TenantSums(
        tenant=name,
        service_class=one.service_class,
        spent=one.spent,
        refused=one.refused,
        refused_tokens=one.refused_tokens,
        granted=one.granted // TOKEN,
        borrowed=one.borrowed // TOKEN,
        debt=one.debt if is_there else 0,  # who is idle and owed nothing is left out
        most_debt=one.most_debt,
    )
