"""The ceilings of the quota runs keep Q1 whatever gateways do."""

from hypothesis import given
from hypothesis import strategies as st

from tests.broker.quota_plane import Said, raised, returned

QUOTA = 100_000
AHEAD_MS = 3_000
STARTER = 1_000
GATEWAYS = ("a", "b", "c", "d")

amounts = st.integers(0, 2 * QUOTA)
rounds = st.lists(st.dictionaries(st.sampled_from(GATEWAYS), st.tuples(amounts, amounts)))


@given(rounds)
def test_ceilings_only_rise_and_never_add_up_to_more_than_the_quota(
    told: list[dict[str, tuple[int, int]]],
) -> None:
    ceilings: dict[str, int] = {}
    for gateways in told:
        said = {name: Said(*figures) for name, figures in gateways.items()}
        new = raised(QUOTA, ceilings, said, AHEAD_MS, STARTER)
        assert set(new) == set(said)
        for name, ceiling in new.items():
            ahead = said[name].spent + max(said[name].wanted * AHEAD_MS // 1000, STARTER)
            assert ceilings.get(name, 0) <= ceiling <= max(ceilings.get(name, 0), ahead)
        ceilings |= new
        assert sum(ceilings.values()) <= QUOTA


def test_what_a_silent_gateway_may_still_spend_counts_as_spent() -> None:
    ceilings = {"a": 60_000, "b": 30_000}
    new = raised(QUOTA, ceilings, {"b": Said(30_000, 50_000)}, AHEAD_MS, STARTER)
    assert new == {"b": 40_000}


def test_what_a_closed_gateway_left_is_free_again() -> None:
    ceilings = returned({"a": 60_000, "b": 30_000}, "a", spent=10_000)
    assert ceilings == {"a": 10_000, "b": 30_000}
    new = raised(QUOTA, ceilings, {"b": Said(30_000, 50_000)}, AHEAD_MS, STARTER)
    assert new == {"b": 90_000}


def test_what_is_free_is_shared_by_what_each_lacks() -> None:
    said = {"a": Said(0, 10_000), "b": Said(0, 20_000), "c": Said(0, 0)}
    new = raised(31_000, {}, said, AHEAD_MS, STARTER)
    assert new == {"a": 10_219, "b": 20_439, "c": 340}  # 30 to 60 to 1
