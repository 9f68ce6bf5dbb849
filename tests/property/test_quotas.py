"""Quotas over random runs: nothing that one forbids is admitted, and ceilings keep Q1."""

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.property.quota_world import QuotaWorld


@settings(max_examples=5, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(st.integers(0, 10**9), st.sampled_from((0.0, 0.1, 0.4)))
def test_all_gateways_together_never_spend_more_than_a_quota(seed: int, trouble: float) -> None:
    world = QuotaWorld(seed, trouble)
    for _ in range(10):
        world.run(15)
        world.check()
    assert sum(world.admitted.values()) > 20_000
