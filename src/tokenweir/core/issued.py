"""What gateways were issued, and what of it still binds (PROTOCOL L2, L4).

All matrices have the shape (gateways, tenants + 1): the last column is the starter pots, which are
leases like any other (L8).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np

from tokenweir.core.pool import Gateway, Issue
from tokenweir.core.terms import Ints
from tokenweir.records.spec import PoolSpec

# Unconfirmed issues of one gateway that are kept apart, so that its row has a bound.
MOST_ISSUES = 8
ENDS = attrgetter("expires_ms", "floor_expires_ms", "pot")


@dataclass(frozen=True, slots=True)
class Given:
    """What gateways may use by what was issued (L2), milli-tokens/s."""

    rates: Ints  # (gateways, tenants + 1)
    floors: Ints  # (gateways, tenants): of `rates`, what outlives the lease


def renewable(gateway: Gateway, spec: PoolSpec, at_ms: int) -> bool:
    """A lease is renewed if the gateway has reported and obeys a decision that is not too old (L4).

    A gateway that is new obeys none: the moment it was first seen counts instead.
    """
    obeys = max(gateway.applied_ms, gateway.first_ms)
    return gateway.reported and not gateway.closed and at_ms - obeys < spec.lease_ms


def given(gateways: Sequence[Gateway], tenants: int, at_ms: int) -> Given:
    """The most that each gateway may use at `at_ms` (L2).

    The largest rate issued since `applied`, until the latest expiry; then the largest floor, until
    the latest expiry of the floors.
    """
    if not gateways:
        return Given(*(np.zeros((0, width), dtype=np.int64) for width in (tenants + 1, tenants)))
    issued = [gateway.issued or [_nothing(tenants, 0)] for gateway in gateways]
    # As many of each: to have the newest twice changes no maximum.
    length = max(map(len, issued))
    even = [issue for own in issued for issue in (*own, *own[-1:] * (length - len(own)))]
    shape = len(issued), length
    ends = np.array([*map(ENDS, even)], dtype=np.int64).reshape(*shape, 3).max(axis=1)
    leased, lasts = at_ms < ends[:, :1], at_ms < ends[:, 1:2]
    floors = _most([issue.floors for issue in even], *shape) * lasts
    rates = np.empty((len(issued), tenants + 1), dtype=np.int64)
    rates[:, :-1] = np.maximum(_most([issue.rates for issue in even], *shape) * leased, floors)
    rates[:, -1:] = ends[:, 2:] * leased
    return Given(rates, floors)


def _most(parts: Sequence[Ints], gateways: int, issues: int) -> Ints:
    most: Ints = np.concatenate(parts).reshape(gateways, issues, -1).max(axis=1)
    return most


def newest(gateway: Gateway, at_ms: int, *, silent: bool) -> Ints:
    """What the newest issue alone lets a gateway use, shape (tenants + 1,).

    With `silent`, floors that have outlived their lease count as nothing.
    """
    rates = np.zeros(gateway.tenants + 1, dtype=np.int64)
    if not gateway.issued:
        return rates
    issue = gateway.issued[-1]
    if at_ms < issue.expires_ms:
        rates[:-1], rates[-1] = issue.rates, issue.pot
    elif at_ms < issue.floor_expires_ms and not silent:
        rates[:-1] = issue.floors
    return rates


def confirm(gateway: Gateway, applied_ms: int) -> None:
    """The gateway obeys the decision of `applied_ms` completely: older issues bind no more."""
    gateway.applied_ms = max(gateway.applied_ms, applied_ms)
    if gateway.issued and gateway.issued[0].at_ms < gateway.applied_ms:
        gateway.issued = [issue for issue in gateway.issued if issue.at_ms >= gateway.applied_ms]


def restated(gateway: Gateway, at_ms: int, tenants: int) -> Issue:
    """The newest leases again with their old expiry: a way back for who obeys too old a decision.

    Without it the gateway would wait for a decision whose parts are never published (L9).
    """
    if gateway.issued:
        return replace(gateway.issued[-1], at_ms=at_ms)
    return _nothing(tenants, at_ms)


def _nothing(tenants: int, at_ms: int) -> Issue:
    nothing = np.zeros((2, tenants), dtype=np.int64)
    return Issue(at_ms, at_ms, at_ms, nothing[0], nothing[0], 0, nothing, (0, 0))


def remember(gateway: Gateway, issue: Issue) -> None:
    """Add an issue to those that may bind; the two oldest become one when there are too many.

    That one stands for the larger of each two figures, so at most too much counts as given.
    """
    issued = gateway.issued
    if issued and issued[-1].rates is issue.rates:  # restated: it binds in the other's place
        issued.pop()
    else:
        issued[:] = _lasting(issued, issue.at_ms)
    issued.append(issue)
    if len(issued) > MOST_ISSUES:
        old, new = issued[:2]
        issued[:2] = [
            Issue(
                new.at_ms,
                max(old.expires_ms, new.expires_ms),
                max(old.floor_expires_ms, new.floor_expires_ms),
                np.maximum(old.rates, new.rates),
                np.maximum(old.floors, new.floors),
                max(old.pot, new.pot),
                np.maximum(old.occupied, new.occupied),
                (
                    max(old.pot_occupied[0], new.pot_occupied[0]),
                    max(old.pot_occupied[1], new.pot_occupied[1]),
                ),
            )
        ]


def _lasting(issued: Sequence[Issue], at_ms: int) -> list[Issue]:
    """What still binds of issues before a new one: what has ended does not begin again with it.

    What began under them may run still, and later than the newest report: so limits of sequences
    and KV bytes bind until the gateway obeys newer ones.
    """
    if any(at_ms < issue.expires_ms for issue in issued):
        return [*issued]
    if at_ms < max((issue.floor_expires_ms for issue in issued), default=0):
        return [replace(issue, rates=issue.floors, pot=0) for issue in issued]
    ended = [np.zeros_like(issue.floors) for issue in issued]
    return [
        replace(issue, rates=nothing, floors=nothing, pot=0)
        for issue, nothing in zip(issued, ended, strict=True)
    ]
