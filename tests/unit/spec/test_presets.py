"""The presets are sound, and do what their comments say."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import yaml

from tests.pools import ONE, START, pool_with, report, step
from tokenweir.cli.specs.presets import texts
from tokenweir.core.actions import action_of
from tokenweir.core.alpha import PoolLooked, TuningState, next_alpha
from tokenweir.core.pool import Pool
from tokenweir.core.sound import check_spec
from tokenweir.core.step import Decided
from tokenweir.core.tier import TierState
from tokenweir.gateway.ladder import Batched, Cheaper, Ladder, Rung, Spilled
from tokenweir.gateway.ladder_file import read_ladder
from tokenweir.records.control import GatewayLeases, Tier
from tokenweir.records.journal import DecisionEntry
from tokenweir.records.spec import Action, ClassTerms, Entitlement, PoolSpec
from tokenweir.spec.compile import compile_spec
from tokenweir.spec.read import read_spec

TEXTS = texts()
SPECS = sorted(name for name in TEXTS if "." not in name)
LADDERS = sorted(name for name in TEXTS if name.endswith(".ladder"))
TIERS: tuple[Tier, ...] = ("normal", "soft_degrade", "hard_degrade", "circuit_break")


def compiled(name: str) -> PoolSpec:
    return compile_spec(read_spec(TEXTS[name], name), 1, 0, TEXTS[name])


def ladder(name: str) -> Ladder:
    return read_ladder(yaml.safe_load(TEXTS[f"{name}.ladder"]))


def classes(rules: PoolSpec) -> Mapping[str, ClassTerms]:
    return {one.service_class: one for one in rules.classes}


def claims(rules: PoolSpec) -> Mapping[str, Entitlement]:
    return {claim.tenant: claim for claim in rules.entitlements}


def actions(rules: PoolSpec, service_class: str) -> list[Action]:
    """From normal to circuit_break."""
    return [action_of(classes(rules)[service_class], tier) for tier in TIERS]


@pytest.mark.parametrize("name", SPECS)
def test_every_preset_is_accepted_as_it_is(name: str) -> None:
    check_spec(compiled(name))
    assert re.search(r"tokenweir apply -f \S+ --dry-run", TEXTS[name])


@pytest.mark.parametrize("name", LADDERS)
def test_every_ladder_is_accepted_and_belongs_to_a_preset(name: str) -> None:
    assert len(read_ladder(yaml.safe_load(TEXTS[name]))) > 1
    assert name.removesuffix(".ladder") in SPECS


@pytest.mark.parametrize("name", SPECS)
def test_usage_of_every_tenant_is_attributed(name: str) -> None:
    for claim in compiled(name).entitlements:
        assert {"team", "plan"} & set(claim.tags), claim.tenant


# The internal platform.


def test_no_tier_touches_the_core() -> None:
    for name in SPECS:
        rules = compiled(name)
        assert actions(rules, "guaranteed") == actions(rules, "dedicated") == ["none"] * 4
        assert rules.breaker.refuses == "borrowers"  # floors pass


def test_running_requests_are_never_ended() -> None:
    """Only preemptible work is revoked, and there is none."""
    for name in SPECS:
        rules = compiled(name)
        found = {claim.service_class for claim in rules.entitlements} | {rules.unknown_class}
        assert "preemptible" not in found


def test_every_class_of_the_internal_platform_names_its_provider_tier() -> None:
    rules = compiled("internal-platform")
    tiers = {claim.tenant: claim.tags["provider_tier"] for claim in rules.entitlements}
    assert tiers["assistant"] == tiers["search"] == "priority"
    assert tiers["documents"] == tiers["development"] == "default"
    assert tiers["evals"] == tiers["ci"] == "flex"


def test_evals_have_at_most_their_share_however_idle_the_pool_is() -> None:
    rules = compiled("internal-platform")
    share = classes(rules)["spot"].share_cap
    assert share == 300_000
    granted = grants(under(rules, "normal", {"evals": 30_000, "ci": 30_000}))
    assert granted["evals"] + granted["ci"] + granted.get("*", 0) <= 20_000_000 * share // ONE


def test_pressure_halves_what_evals_borrow_and_the_sequences_that_they_run() -> None:
    rules = replace(compiled("internal-platform"), pots=0)
    wants = {"evals": 30_000}
    calm, pressed = (under(rules, tier, wants) for tier in ("normal", "soft_degrade"))
    assert grants(pressed)["evals"] == pytest.approx(grants(calm)["evals"] / 2, rel=0.01)
    assert sequences(pressed)["evals"] == pytest.approx(sequences(calm)["evals"] / 2, abs=1)


def test_pressure_throttles_development_and_keeps_its_floor() -> None:
    rules = compiled("internal-platform")
    assert actions(rules, "elastic") == ["none", "limit", "floor_only", "floor_only"]
    granted = [
        grants(under(rules, tier, {"development": 5_000}))["development"] for tier in TIERS[:3]
    ]
    assert granted == [2_000_000, 1_250_000, 500_000]


def test_development_keys_have_hard_budgets() -> None:
    development = claims(compiled("internal-platform"))["development"]
    assert [quota.cycle for quota in development.user_quotas] == ["day", "month"]
    (named,) = development.users
    assert [quota.cycle for quota in named.quotas] == ["day"]
    assert not any(quota.rollover or quota.lend for quota in development.user_quotas)


def test_the_ladder_goes_easy_on_the_core_and_spills_it_when_it_is_refused() -> None:
    core = frozenset({"dedicated", "guaranteed"})
    touching = [rung for rung in ladder("internal-platform") if not rung.classes.isdisjoint(core)]
    (spill,) = touching
    assert spill.refused
    assert [type(one) for one in spill.steps] == [Spilled]


def test_evals_buy_a_cheap_tier_always_and_batch_under_pressure() -> None:
    rungs = ladder("internal-platform")
    assert [batched(rung) for rung in rungs if batched(rung)] == [
        ("normal", {"spot"}, "flex"),
        ("soft_degrade", {"elastic"}, "flex"),
    ]
    assert any(isinstance(one, Cheaper) for rung in rungs for one in rung.steps)


def batched(rung: Rung) -> Any:
    return next(
        (
            (rung.tier, set(rung.classes), one.service_tier)
            for one in rung.steps
            if isinstance(one, Batched)
        ),
        None,
    )


# The starter.


def test_the_starter_has_a_floor_for_what_is_critical_and_limits_for_keys() -> None:
    rules = compiled("starter")
    by_name = claims(rules)
    assert by_name["critical"].service_class == "guaranteed"
    assert by_name["critical"].baseline == rules.capacity.tokens_per_s // 2
    assert [by_name[name].service_class for name in ("batch", "best-effort")] == ["elastic", "spot"]
    assert [quota.cycle for quota in by_name["development"].user_quotas] == ["day"]
    assert all("cost_center" in claim.tags for claim in rules.entitlements)


# The open platform.


def test_a_vip_has_five_to_ten_times_what_a_company_has_and_developers_a_minimum() -> None:
    by_name = claims(compiled("open-platform"))
    assert 5 <= by_name["vip"].baseline / by_name["acme"].baseline <= 10
    assert by_name["free"].baseline > 0
    minutes = [quota for quota in by_name["free"].user_quotas if quota.cycle == "minute"]
    assert [quota.tokens for quota in minutes] == [10_000]


def test_companies_are_whole_and_developers_keep_their_minimum() -> None:
    wants = {"vip": 9_000, "acme": 2_000, "globex": 2_000, "free": 9_000}
    granted = grants(under(compiled("open-platform"), "hard_degrade", wants))
    assert granted["free"] == 500_000
    assert granted["vip"] >= 5_000_000
    assert min(granted["acme"], granted["globex"]) >= 1_000_000


def test_at_85_per_cent_the_developers_alpha_is_lowered_and_the_pools_is_not() -> None:
    rules = compiled("open-platform")
    calm = next_alpha(TuningState(), PoolLooked(849_999, 0, 0), rules, START)
    full = next_alpha(TuningState(), PoolLooked(850_000, 0, 0), rules, START)
    assert (calm.alphas[2], calm.alphas[-1]) == (600_000, 800_000)
    assert (full.alphas[2], full.alphas[-1]) == (550_000, 800_000)


# A pool of a preset, in a tier, with tenants that ask for so many tokens/s.


def under(rules: PoolSpec, tier: Tier, wants: Mapping[str, int]) -> Decided:
    pool: Pool = pool_with(rules)
    for second in range(1, 6):
        pool.tier = TierState(tier)
        running = dict.fromkeys(wants, 200 // len(wants))
        message = report("g", second, refused=wants, sequences=running)
        decided = step(pool, message, START + second * 1000)
    pool.tier = TierState(tier)
    decided = step(pool, report("g", 6), START + 6_000)
    assert decided is not None
    assert decided.decision.tier == tier
    return decided


def grants(decided: Decided) -> dict[str, int]:
    entry = decided.entries[0].body
    assert isinstance(entry, DecisionEntry)
    return dict(zip(entry.tenants.tenant, entry.tenants.grant, strict=True))


def sequences(decided: Decided) -> dict[str, int]:
    (leases,) = decided.leases
    assert isinstance(leases, GatewayLeases)
    return dict(zip(leases.tenant, leases.sequences, strict=True))
