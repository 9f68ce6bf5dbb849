"""Leases: only what is not given can be given (L1-L4, R3). Rates in milli-tokens/s.

A pool of 10 000 tokens/s: 9 500 may be granted, of which 500 are for the pots.
"""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.pools import START, pool_with, report, spec, tenant
from tokenweir.core.issued import MOST_ISSUES, given
from tokenweir.core.pool import Pool
from tokenweir.core.step import Decided, advance, fold
from tokenweir.records.control import GatewayLeases
from tokenweir.records.journal import DecisionEntry
from tokenweir.records.usage import CapacityReport

E, F = tenant("e", "elastic", 4_000), tenant("f", "elastic", 1_000)
S = tenant("s", "spot")


class Run:
    """Gateways that report at each second, and what each one was sent last."""

    def __init__(self, pool: Pool, *gateways: str) -> None:
        self.pool = pool
        self.second = 0
        self.sequence = dict.fromkeys(gateways, 0)
        self.applied = dict.fromkeys(gateways, 0)
        self.leases: dict[str, GatewayLeases] = {}
        self.decided: Decided | None = None

    @property
    def at_ms(self) -> int:
        return START + self.second * 1_000

    def tick(
        self, wants: Mapping[str, Mapping[str, int]] | None = None, *, obey: bool = True
    ) -> Decided:
        """One second: the decision at its beginning, then everybody's report."""
        self.decided = advance(self.pool, self.at_ms)
        assert self.decided is not None
        self.leases = {leases.gateway: leases for leases in self.decided.leases}
        for name in self.sequence:
            if obey and name in self.leases:
                self.applied[name] = self.leases[name].at_ms
            self.report(name, (wants or {}).get(name, {}))
        self.second += 1
        return self.decided

    def report(self, name: str, refused: Mapping[str, int], *, closing: bool = False) -> None:
        self.sequence[name] += 1
        some = report(
            name,
            self.sequence[name],
            refused=refused,
            applied=self.applied[name],
            closing=closing,
        )
        fold(self.pool, some, self.at_ms + 10)

    def rate(self, gateway: str, name: str) -> int:
        leases = self.leases[gateway]
        return dict(zip(leases.tenant, leases.rate, strict=True)).get(name, 0)

    def floor(self, gateway: str, name: str) -> int:
        leases = self.leases[gateway]
        return dict(zip(leases.tenant, leases.floor, strict=True)).get(name, 0)

    def given(self) -> int:
        assert self.decided is not None
        body = self.decided.entries[0].body
        assert isinstance(body, DecisionEntry)
        return sum(body.gateways.leased)


def test_a_new_gateway_is_served_at_the_next_decision() -> None:
    run = Run(pool_with(spec(E)), "g")
    run.tick({"g": {"e": 1_000}})
    assert run.leases == {}
    run.tick({"g": {"e": 1_000}})
    assert run.rate("g", "e") == 9_000_000  # its demand, and all the rest as headroom
    assert run.leases["g"].pot_rate == 500_000
    assert run.leases["g"].expires_ms == START + 16_000
    assert run.leases["g"].floor_expires_ms == START + 601_000


def test_a_grant_is_split_in_proportion_to_each_gateways_demand() -> None:
    run = Run(pool_with(spec(E)), "g", "h")
    for _ in range(2):
        run.tick({"g": {"e": 3_000}, "h": {"e": 1_000}})
    assert (run.rate("g", "e"), run.rate("h", "e")) == (6_750_000, 2_250_000)
    assert run.leases["g"].pot_rate == run.leases["h"].pot_rate == 250_000


def test_what_a_gateway_still_has_is_not_given_to_another() -> None:
    """Report, shrink, confirm, grow: h comes late, and waits until g obeys less."""
    run = Run(pool_with(spec(E)), "g")
    for _ in range(3):
        run.tick({"g": {"e": 3_000}})
    run.sequence["h"] = run.applied["h"] = 0
    run.tick({"g": {"e": 3_000}, "h": {"e": 3_000}})
    run.tick({"g": {"e": 3_000}, "h": {"e": 3_000}}, obey=False)
    assert run.rate("g", "e") < 9_000_000
    assert run.rate("h", "e") == 0
    assert run.given() == 9_500_000
    run.applied.update({"g": run.leases["g"].at_ms, "h": run.leases["h"].at_ms})
    run.tick({"g": {"e": 3_000}, "h": {"e": 3_000}})
    assert run.rate("h", "e") == 0  # the confirmation came after this decision
    run.tick({"g": {"e": 3_000}, "h": {"e": 3_000}})
    assert run.rate("h", "e") > 1_000_000
    assert run.given() <= 9_500_000


def test_the_largest_rate_since_applied_counts_until_it_is_confirmed() -> None:
    """L2: what g may still obey stays given, and what it confirms takes its place."""
    run = Run(pool_with(spec(E, F)), "g")
    run.tick({"g": {"e": 9_000}})
    run.tick({"g": {"e": 9_000}})
    first = run.rate("g", "e")
    for _ in range(12):
        run.tick({"g": {"f": 9_000}}, obey=False)
    assert run.rate("g", "e") < first
    gateway = run.pool.gateways["g"]
    place = run.pool.terms.index["e"]
    assert int(given([gateway], 3, run.at_ms).rates[0, place]) == first
    run.applied["g"] = run.leases["g"].at_ms
    run.report("g", {"f": 9_000})
    assert int(given([gateway], 3, run.at_ms).rates[0, place]) == run.rate("g", "e")


def test_a_silent_gateways_lease_counts_until_it_ends_and_then_its_floors() -> None:
    run = Run(pool_with(spec(E, lease_ms=5_000, floor_ms=20_000)), "g", "h")
    for _ in range(4):
        run.tick({"g": {"e": 1_000}, "h": {"e": 1_000}})
    ends = run.leases["h"].expires_ms
    floor = run.floor("h", "e")
    had = run.rate("h", "e") + run.leases["h"].pot_rate
    del run.sequence["h"]  # its last report was of second 3: one more lease
    run.tick({"g": {"e": 1_000}})
    assert run.leases["h"].expires_ms == ends + 1_000
    seen = []
    while run.pool.gateways.get("h") is not None:
        run.tick({"g": {"e": 1_000}})
        body = run.decided and run.decided.entries[0].body
        assert isinstance(body, DecisionEntry)
        seen.append(dict(zip(body.gateways.gateway, body.gateways.leased, strict=True))["h"])
    assert had == 4_750_000
    assert seen[:4] == [4_750_000] * 4  # the lease of second 4 ends at second 9
    assert set(seen[4:19]) == {floor}
    assert floor == 2_000_000
    assert seen[-1] == 0


def test_floors_of_a_tenant_add_up_to_its_baseline_at_most() -> None:
    run = Run(pool_with(spec(E)), "g", "h")
    for second in range(12):
        heavy, light = ("g", "h") if second % 4 < 2 else ("h", "g")
        run.tick({heavy: {"e": 3_000}, light: {"e": 500}})
        floors = sum(run.floor(name, "e") for name in run.leases)
        assert floors <= 4_000_000
    assert floors > 3_900_000


def test_spot_has_no_floor() -> None:
    run = Run(pool_with(spec(S)), "g")
    for _ in range(3):
        run.tick({"g": {"s": 1_000}})
    assert run.rate("g", "s") > 0
    assert run.floor("g", "s") == 0


def test_bursts_are_one_interval_of_the_rates() -> None:
    run = Run(pool_with(spec(E)), "g")
    for _ in range(2):
        run.tick({"g": {"e": 1_000}})
    leases = run.leases["g"]
    assert list(leases.burst) == [9_000_000]  # milli-tokens: 9 000 tokens/s for 1 s
    assert leases.pot_burst == 500_000


def test_bursts_add_up_to_what_the_spec_says() -> None:
    run = Run(pool_with(replace(spec(E), burst=2_000_000)), "g", "h")
    for _ in range(3):
        run.tick({"g": {"e": 1_000}, "h": {"e": 1_000}})
    total = sum(sum(leases.burst) + leases.pot_burst for leases in run.leases.values())
    assert total == 1_900_000  # 95 % of the capacity is leased


def test_a_gateway_that_has_not_reported_is_sent_nothing() -> None:
    run = Run(pool_with(spec(E)), "g", "h")
    for _ in range(2):
        run.tick()
    del run.sequence["h"]
    run.tick()
    run.tick()
    assert set(run.leases) == {"g"}


def test_one_that_obeys_too_old_a_decision_is_sent_its_old_leases_again() -> None:
    """L4: not renewed, and yet with a way back."""
    run = Run(pool_with(spec(E)), "g")
    run.tick({"g": {"e": 1_000}})
    run.tick({"g": {"e": 1_000}})
    for _ in range(20):
        run.tick({"g": {"e": 1_000}}, obey=False)
    last = run.leases["g"]
    assert last.at_ms == START + 21_000
    assert last.expires_ms == START + 15_000 + 15_000  # renewed for the last time at second 15
    run.applied["g"] = last.at_ms
    run.report("g", {"e": 1_000})
    run.tick({"g": {"e": 1_000}})
    assert run.leases["g"].expires_ms == START + 22_000 + 15_000


def test_a_gateway_that_never_obeys_does_not_fill_the_memory() -> None:
    run = Run(pool_with(spec(E)), "g")
    for _ in range(100):
        run.tick({"g": {"e": 1_000}}, obey=False)
    assert len(run.pool.gateways["g"].issued) <= MOST_ISSUES


def test_an_ended_lease_does_not_begin_again_with_the_next_one() -> None:
    run = Run(pool_with(spec(E, lease_ms=5_000)), "g")
    for _ in range(2):
        run.tick({"g": {"e": 9_000}})
    for _ in range(14):  # it obeys nothing more; its leases and then all but the floor end
        run.tick({"g": {"e": 9_000}}, obey=False)
    assert run.given() == 4_000_000
    fold(run.pool, CapacityReport("chat", "x", 5_000_000, None, None), run.at_ms)
    run.applied["g"] = run.leases["g"].at_ms
    run.report("g", {"e": 9_000})
    run.tick({"g": {"e": 9_000}})
    run.tick({"g": {"e": 9_000}}, obey=False)
    assert run.given() <= 4_750_000


def test_closing_gives_everything_back_at_once() -> None:
    run = Run(pool_with(spec(E)), "g", "h")
    for _ in range(3):
        run.tick({"g": {"e": 1_000}, "h": {"e": 1_000}})
    run.report("h", {}, closing=True)
    del run.sequence["h"]
    decided = run.tick({"g": {"e": 1_000}})
    assert decided.gone == (("h", 1),)
    assert run.rate("g", "e") == 9_000_000
    assert run.leases["g"].pot_rate == 500_000


def test_after_a_drop_nothing_grows_until_the_sum_fits_and_it_fits_in_a_lease_life() -> None:
    #  capacity 10 000 ──────┐ 4 000 ────────
    #  second   0  1  2  3  4│ 5  6 …
    run = Run(pool_with(spec(E, S, lease_ms=5_000)), "g", "h")
    wants = {"g": {"e": 5_000}, "h": {"s": 5_000}}
    for _ in range(4):
        run.tick(wants)
    fold(run.pool, CapacityReport("chat", "x", 4_000_000, None, None), run.at_ms - 1)
    before = run.given()
    for age in range(8):
        run.tick(wants)
        assert run.given() <= max(before, 3_800_000)
        before = run.given()
        assert age < 2 or run.given() <= 3_800_000


def test_gateways_that_report_in_turn_are_not_both_sent_the_whole() -> None:
    """After a drop, at decisions where one of two is silent, its lease is still looked at."""
    run = Run(pool_with(spec(E, lease_ms=5_000)), "g", "h")
    wants = {"g": {"e": 5_000}, "h": {"e": 5_000}}
    for _ in range(4):
        run.tick(wants)
    fold(run.pool, CapacityReport("chat", "x", 4_000_000, None, None), run.at_ms - 1)
    newest: dict[str, int] = {}
    for second in range(5):
        name = "gh"[second % 2]
        advance(run.pool, run.at_ms)
        decided = advance(run.pool, run.at_ms)
        run.report(name, wants[name])
        run.second += 1
        decided = decided or advance(run.pool, run.at_ms)
        assert decided is not None
        for leases in decided.leases:
            newest[leases.gateway] = sum(leases.rate) + leases.pot_rate
    assert sum(newest.values()) <= 3_800_000


@pytest.mark.parametrize("gateways", [1, 3])
def test_without_demand_everybody_has_the_pot_alone(gateways: int) -> None:
    names = [f"g{n}" for n in range(gateways)]
    run = Run(pool_with(spec(E, S)), *names)
    for _ in range(3):
        run.tick()
    assert sum(leases.pot_rate for leases in run.leases.values()) == 500_000
    assert all(list(leases.tenant) == [] for leases in run.leases.values())


def test_leases_carry_the_decision_that_they_belong_to() -> None:
    run = Run(pool_with(spec(E)), "g")
    run.tick()
    decided = run.tick()
    assert [leases.at_ms for leases in decided.leases] == [decided.decision.at_ms]
    assert {leases.parts for leases in decided.leases} == {decided.decision.parts}
