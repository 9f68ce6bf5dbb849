"""Promise 1: what gateways may spend together is never more than the capacity.

Random runs of the core and four gateways that obey PROTOCOL: records lost, late (up to 20 s),
repeated and reordered; gateways cut off one way or both, closed, killed and new; capacity that
drops and rises; tenants suspended, removed and back; the pool restored from its rows. The checks
are in `World`: after a drop leases fit again in one lease life, and what silent gateways have as
floors (also those that come back with no more than that) in the floors' own; sequences, in the
lives of floors and the longest request; and in `Floors`: the core has its floors, reclaims leave
borrowers 1 - β. The last three tests show that the checks would find a rule that is missing.
"""

from collections.abc import Callable, Sequence
from types import SimpleNamespace

import numpy as np
import pytest

from tests.property.gateways import Clock, LateClock
from tests.property.world import Exceeded, World
from tokenweir.core import issued
from tokenweir.core.pool import Gateway

RUNS = 5


@pytest.mark.parametrize("seed", range(RUNS))
def test_gateways_never_may_spend_more_than_the_capacity(seed: int, steps: int) -> None:
    world = World(seed)
    world.run(steps // RUNS)
    assert world.decisions > steps // RUNS // 60  # it went on deciding
    assert world.most > 3_000_000  # and gave most of what there was
    assert world.most_running > 150
    print(f"{steps // RUNS} steps, {world.decisions} decisions, {world.floors.reclaims} reclaims")
    print("violations: 0")


def test_without_the_largest_issue_since_applied_the_capacity_is_exceeded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """L2: a gateway may still obey an older issue than the newest."""

    def newest_only(gateways: Sequence[Gateway], tenants: int, at_ms: int) -> issued.Given:
        last = [SimpleNamespace(issued=gateway.issued[-1:]) for gateway in gateways]
        return given(last, tenants, at_ms)  # type: ignore[arg-type]  # it reads `issued` alone

    given = issued.given
    _replace_given(monkeypatch, newest_only)
    assert _exceeds(Clock)


def test_without_the_floors_of_silent_gateways_the_capacity_is_exceeded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """L2: after its lease a gateway goes on with its floors."""

    def leases_only(gateways: Sequence[Gateway], tenants: int, at_ms: int) -> issued.Given:
        held = given(gateways, tenants, at_ms)
        ends = [max((i.expires_ms for i in each.issued), default=0) for each in gateways]
        lasts = np.array(ends, dtype=np.int64)[:, None] > at_ms
        return issued.Given(np.where(lasts, held.rates, 0), held.floors)

    given = issued.given
    _replace_given(monkeypatch, leases_only)
    assert _exceeds(Clock)


def test_with_a_clock_that_is_late_the_capacity_is_exceeded() -> None:
    """L6: a gateway that thinks it is earlier than it is uses a lease that was given away."""
    assert _exceeds(LateClock)


def _replace_given(monkeypatch: pytest.MonkeyPatch, variant: Callable[..., issued.Given]) -> None:
    monkeypatch.setattr("tokenweir.core.leases.given", variant)
    monkeypatch.setattr("tokenweir.core.publish.given", variant)


def _exceeds(clock: Callable[[], Clock]) -> bool:
    """Whether a run of the model breaks the capacity itself; its bookkeeping is not looked at."""
    for seed in (4, 2, 6, 0, 1):
        try:
            World(seed, clock, accounts=False).run(4_000)
        except Exceeded:
            return True
    return False
