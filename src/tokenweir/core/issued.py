"""What gateways were issued, and what of it still binds (PROTOCOL L2, L4).

All matrices have the shape (gateways, tenants + 1): the last column is the starter pots, which are
leases like any other (L8).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tokenweir.core.pool import Gateway, Issue
from tokenweir.core.terms import Ints
from tokenweir.records.spec import PoolSpec

# Unconfirmed issues of one gateway that are kept apart, so that its row has a bound.
MOST_ISSUES = 8


class Given(NamedTuple):
    """What gateways may use by what was issued (L2), milli-tokens/s."""

    rates: Ints
    floors: Ints  # of `rates`, what outlives the lease


def renewable(gateway: Gateway, spec: PoolSpec, at_ms: int) -> bool:
    """A lease is renewed if the gateway has reported and obeys a decision that is not too old (L4).

    A gateway that is new obeys none: the moment it was first seen counts instead.
    """
    obeys = max(gateway.applied_ms, gateway.first_ms)
    return gateway.reported and not gateway.closed and at_ms - obeys < spec.lease_ms


def given(gateways: Sequence[Gateway], tenants: int, at_ms: int) -> Given:
    """The most that each gateway, of which there is one at least, may use at `at_ms` (L2).

    The largest rate issued since `applied`, until the latest expiry; then the largest floor, until
    the latest expiry of the floors.
    """
    issued = [gateway.issued or [_nothing(tenants, 0)] for gateway in gateways]
    most = np.concatenate([own[0].leased for own in issued])
    for age in range(1, max(map(len, issued))):
        # To have the newest twice changes no maximum.
        more = [(own[age] if age < len(own) else own[-1]).leased for own in issued]
        np.maximum(most, np.concatenate(more), out=most)
    both = most.reshape(len(issued), 2, tenants + 1)
    rates, floors = both[:, 0], both[:, 1]
    if all(at_ms < min(own[-1].expires_ms, own[-1].floor_expires_ms) for own in issued):
        return Given(rates, floors)  # floors are part of their rates
    leased = [[at_ms < max(issue.expires_ms for issue in own)] for own in issued]
    lasts = [[at_ms < max(issue.floor_expires_ms for issue in own)] for own in issued]
    floors = floors * lasts
    return Given(np.maximum(rates * leased, floors), floors)


def newest(gateway: Gateway, at_ms: int, *, silent: bool) -> Ints:
    """What the newest issue alone lets a gateway use, shape (tenants + 1,).

    With `silent`, floors that have outlived their lease count as nothing.
    """
    issue = gateway.issued[-1] if gateway.issued else _nothing(gateway.tenants, 0)
    rates: Ints = issue.leased[0]
    floors: Ints = issue.leased[1]
    if at_ms < issue.expires_ms:
        return rates
    if at_ms < issue.floor_expires_ms and not silent:
        return floors
    return np.zeros_like(rates)


def confirm(gateway: Gateway, applied_ms: int) -> None:
    """The gateway obeys the decision of `applied_ms` completely: older issues bind no more."""
    if applied_ms > gateway.applied_ms:
        gateway.applied_ms = applied_ms
        gateway.issued = [issue for issue in gateway.issued if issue.at_ms >= applied_ms]


def restate(gateway: Gateway, at_ms: int) -> Issue:
    """The newest leases again with their old expiry: a way back for who obeys too old a decision.

    Without it the gateway would wait for a decision whose parts are never published (L9). What is
    issued again binds in the other's place.
    """
    last = gateway.issued[-1] if gateway.issued else _nothing(gateway.tenants, at_ms)
    again = last._replace(at_ms=at_ms)
    gateway.issued[-1:] = [again]
    return again


def _nothing(tenants: int, at_ms: int) -> Issue:
    nothing = np.zeros((2, tenants + 1), dtype=np.int64)
    return Issue(at_ms, at_ms, at_ms, nothing, nothing)


def remember(gateway: Gateway, issue: Issue) -> None:
    """Add an issue to those that may bind; the two oldest become one when there are too many.

    That one stands for the larger of each two figures, so at most too much counts as given.
    """
    issued = gateway.issued
    if issued and issued[-1].expires_ms <= issue.at_ms:
        issued[:] = _lasting(issued, issue.at_ms)
    issued.append(issue)
    if len(issued) > MOST_ISSUES:
        old, new = issued[:2]
        issued[:2] = [
            Issue(
                new.at_ms,
                max(old.expires_ms, new.expires_ms),
                max(old.floor_expires_ms, new.floor_expires_ms),
                np.maximum(old.leased, new.leased),
                np.maximum(old.occupied, new.occupied),
            )
        ]


def _lasting(issued: Sequence[Issue], at_ms: int) -> list[Issue]:
    """What still binds of issues before a new one: what has ended does not begin again with it.

    What began under them may run still, and later than the newest report: so limits of sequences
    and KV bytes bind until the gateway obeys newer ones.
    """
    if any(at_ms < issue.expires_ms for issue in issued):
        return [*issued]
    if any(at_ms < issue.floor_expires_ms for issue in issued):
        return [issue._replace(leased=issue.leased[[1, 1]]) for issue in issued]  # floors alone
    return [issue._replace(leased=np.zeros_like(issue.leased)) for issue in issued]
