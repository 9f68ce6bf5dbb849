"""Four gateway processes share 100 000 tokens a minute by the ceilings of a real control worker,
also when one, then all, lose the broker.

Admitted is never more than the quota and what the estimates were wrong by: a ceiling is checked
when a request is admitted, and what then runs may use more than it was estimated to. The bound for
a gateway is the excess of what ran at its last admission in the window; here at most
`QUOTA_ERROR` of the quota together.
"""

import pytest

from tests.broker import quota_run
from tests.broker.quota_run import Run
from tests.broker.quota_terms import (
    CLASSES_OF,
    FLOORS,
    FULL,
    GATEWAYS,
    LARGEST,
    LEAST,
    LOADS,
    MOST,
    OVER,
    QUOTA,
    SCALED,
    WINDOW_MS,
)

pytestmark = [pytest.mark.broker, pytest.mark.chaos, pytest.mark.experiment]
QUOTA_ERROR = 0.05


@pytest.fixture(scope="module")
def run(full: bool, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return quota_run.run(FULL if full else SCALED, tmp_path_factory.mktemp("kafka"))


@pytest.mark.parametrize("tenant", LOADS)
def test_no_window_has_more_than_its_quota_and_what_the_estimates_were_wrong_by(
    run: Run, tenant: str
) -> None:
    used = run.used(tenant)
    assert len(used) > run.terms.windows
    for window, tokens in used.items():
        error = run.error(tenant, window)
        print(f"{tenant} {window}: {tokens} used of {QUOTA}, estimates' error up to {error}")
        assert tokens <= QUOTA + error
        assert error <= QUOTA_ERROR * QUOTA


def test_ceilings_never_add_up_to_more_than_the_quota(run: Run) -> None:
    assert max(run.given.values()) <= QUOTA
    assert {name for name, _ in run.given} == set(LOADS)


def test_a_tenant_with_all_of_its_traffic_at_one_gateway_gets_nearly_all_of_its_quota(
    run: Run,
) -> None:
    used = run.used("single")
    for window in run.well:
        assert used[window] >= 0.95 * QUOTA


# A load that moves leaves behind, at each gateway, what its ceiling there was ahead.
@pytest.mark.parametrize(("tenant", "least"), [("equal", 0.85), ("skewed", 0.85), ("moving", 0.2)])
def test_a_load_that_is_spread_gets_most_of_its_quota(run: Run, tenant: str, least: float) -> None:
    used = run.used(tenant)
    for window in run.well:
        print(f"{tenant} {window}: {used[window] / QUOTA:.1%}")
        assert used[window] >= least * QUOTA


@pytest.mark.parametrize("tenant", FLOORS)
def test_floors_go_on_where_the_broker_is_out_of_reach(run: Run, tenant: str) -> None:
    # What is admitted is what flows in, and what the bucket holds at the start less what it holds
    # at the end. It holds an interval of the floor at most, and owes one request at most (L1, L5).
    # Floors outlive the cut, since it begins when everybody has new leases.
    assert run.terms.cut_ms < run.terms.floor_ms
    for cut in run.cuts:
        from_ms = cut.from_ms + run.terms.lease_ms + run.terms.interval_ms
        seconds = (cut.to_ms - from_ms) / 1000
        for place, floors in cut.floors.items():
            rate = run.rate(tenant, place, from_ms, cut.to_ms)
            # A decision that was sent last may not have been obeyed any more.
            least, most = floors[tenant]
            print(f"{tenant} at {place}: {least:.1f} to {most:.1f} tokens/s, {rate:.1f} used")
            slack = (LARGEST / 4 * OVER + most * run.terms.interval_ms / 1000) / seconds
            assert least - slack <= rate <= most + slack
            assert LEAST <= least <= most <= MOST


def test_a_class_without_a_floor_has_nothing_once_its_lease_has_run_out(run: Run) -> None:
    first_ms = run.cuts[0].from_ms
    for place in range(GATEWAYS):
        assert run.rate("spo", place, first_ms - WINDOW_MS, first_ms) > 0
    for cut in run.cuts:
        from_ms = cut.from_ms + run.terms.lease_ms + run.terms.interval_ms
        for place in cut.floors:
            assert run.rate("spo", place, from_ms, cut.to_ms) == 0


def test_afterwards_everybody_is_served_again(run: Run) -> None:
    later = [row for row in run.admitted if row.at_ms > run.mended_ms]
    assert {row.place for row in later} == set(range(GATEWAYS))
    assert {row.tenant for row in later} == {*LOADS, *CLASSES_OF}


def test_every_token_that_was_used_is_told(run: Run) -> None:
    assert run.lost == 0
    for tenant in (*LOADS, *CLASSES_OF):
        admitted = sum(row.used for row in run.admitted if row.tenant == tenant)
        assert run.told[tenant] == admitted
