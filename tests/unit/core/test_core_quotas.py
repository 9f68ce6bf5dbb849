"""Quotas in the core: windows, ceilings, bars, rollover, lending, what is kept over a new spec.

Time begins at 2027-01-15 08:00 UTC, which is 17:00 in Tokyo.
"""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.pools import START, pool_with, report, spec, step, tenant
from tokenweir.core.pool import Pool
from tokenweir.core.quota import accounts
from tokenweir.core.step import Decided, advance, fold
from tokenweir.records.control import Barred, GatewayLeases
from tokenweir.records.journal import AuditEntry, DecisionEntry
from tokenweir.records.spec import Cycle, Entitlement, PoolSpec, Quota, UserTerms
from tokenweir.records.usage import QuotaCeiling, UsageReport
from tokenweir.rows import from_rows, to_rows
from tokenweir.spec.zones import zone_of

ZONES = tuple(zone_of(name) for name in ("Asia/Tokyo", "UTC"))
SECOND, HOUR = 1_000, 3_600_000


def quota(
    cycle: Cycle,
    tokens: int,
    *,
    zone: str = "UTC",
    rollover: int = 0,
    lend: bool = False,
    across: bool = False,
) -> Quota:
    return Quota(cycle, zone, tokens, rollover, lend, across)


def rules(*tenants: Entitlement, **more: int) -> PoolSpec:
    return spec(*tenants, zones=ZONES, **more)  # type: ignore[arg-type]


class Run:
    """A pool and its gateways, which report each half second what they are told to."""

    def __init__(self, terms: PoolSpec, gateways: tuple[str, ...] = ("g1",)) -> None:
        self.pool: Pool = pool_with(terms)
        self.now = START
        self.sequence = dict.fromkeys(gateways, 0)
        self.decided: list[Decided] = []
        self.barred: Barred | None = None
        self.leases: dict[str, GatewayLeases] = {}

    def send(self, gateway: str, at_ms: int, **what: object) -> None:
        self.sequence[gateway] += 1
        applied = self.pool.boundary_ms if self.leases.get(gateway) else 0
        record = report(gateway, self.sequence[gateway], applied=applied, **what)  # type: ignore[arg-type]
        self._take(record, at_ms)

    def _take(self, record: UsageReport, at_ms: int) -> None:
        decided = step(self.pool, record, at_ms)
        if decided is not None:
            self.decided.append(decided)
            self.barred = decided.barred or self.barred
            self.leases |= {leases.gateway: leases for leases in decided.leases}

    def go(
        self,
        seconds: int,
        out: Mapping[str, Mapping[str, int]] | None = None,
        refused: Mapping[str, Mapping[str, int]] | None = None,
    ) -> None:
        """So many seconds; each gateway spends and refuses so much by tenant in each of them."""
        for _ in range(seconds):
            self.now += SECOND
            for gateway in self.sequence:
                mine, lost = (out or {}).get(gateway), (refused or {}).get(gateway)
                self.send(gateway, self.now, out=mine, refused=lost)
                self.send(gateway, self.now + 500)

    def begin(self, name: str) -> None:
        """Let a tenant ask, so that its ceilings are there before it spends."""
        self.go(3, refused={gateway: {name: 1} for gateway in self.sequence})

    def ceiling(self, name: str, gateway: str = "g1", user: str = "") -> dict[str, int]:
        """Its ceilings by window."""
        found = self.leases.get(gateway)
        if found is None:
            return {}
        rows = zip(
            found.ceiling_tenant,
            found.ceiling_user,
            found.ceiling_window_id,
            found.ceiling_tokens,
            strict=True,
        )
        return {window: tokens for of, by, window, tokens in rows if (of, by) == (name, user)}

    def grant(self, name: str) -> int:
        entry = self.decided[-1].entries[0].body
        assert isinstance(entry, DecisionEntry)
        return dict(zip(entry.tenants.tenant, entry.tenants.grant, strict=True)).get(name, 0)

    def bars(self) -> dict[str, tuple[str, int]]:
        if self.barred is None:
            return {}
        columns = (self.barred.tenant, self.barred.reason, self.barred.until_ms)
        return {name: (reason, until) for name, reason, until in zip(*columns, strict=True)}

    def tokens(self) -> list[int]:
        entry = self.decided[-1].entries[0].body
        assert isinstance(entry, DecisionEntry)
        return [*entry.quotas.tokens]

    def audits(self) -> list[AuditEntry]:
        bodies = (entry.body for each in self.decided for entry in each.entries)
        return [body for body in bodies if isinstance(body, AuditEntry) and body.kind == "quota"]


def test_a_quota_stops_its_tenant_at_its_end_and_not_before() -> None:
    """15: 3 000 tokens an hour, requests of 150: the 21st would be too much."""
    run = Run(rules(tenant("a", "elastic", 100, quotas=[quota("hour", 3_000)])))
    spent = 0
    for _ in range(30):
        left = sum(run.ceiling("a").values())
        if spent + 150 <= left:
            spent += 150
            run.go(1, {"g1": {"a": 150}})
        else:
            run.go(1, refused={"g1": {"a": 150}})
    assert spent == 3_000
    assert run.grant("a") == 0
    assert run.bars()["a"] == ("quota", START + HOUR)


def test_every_decision_names_the_windows_in_use() -> None:
    run = Run(
        rules(tenant("a", "elastic", 100, quotas=[quota("hour", 3_000), quota("day", 9_000)]))
    )
    run.go(3, {"g1": {"a": 100}})
    entry = run.decided[-1].entries[0].body
    assert isinstance(entry, DecisionEntry)
    assert [*entry.quotas.window_id] == ["day/2027-01-15", "hour/2027-01-15T08+00:00"]
    assert [*entry.quotas.tokens] == [9_000, 3_000]
    assert [*entry.quotas.spent] == [200, 200]


def test_ceilings_run_at_most_a_lease_life_ahead_and_together_stay_within_the_quota() -> None:
    run = Run(rules(tenant("a", "elastic", 100, quotas=[quota("day", 100_000)])), ("g1", "g2"))
    before = {"g1": 0, "g2": 0}
    for _ in range(40):
        run.go(1, {"g1": {"a": 3_000}, "g2": {"a": 500}})
        given = {name: sum(run.ceiling("a", name).values()) for name in before}
        assert all(given[name] >= before[name] for name in given)
        assert sum(given.values()) <= 100_000
        before = given


def test_the_next_windows_ceiling_comes_before_its_start() -> None:
    """
    08:59:44   08:59:46 ─── 09:00:00
       │          │            └ use of the hour before refuses nothing here
       one        both ceilings
    """
    run = Run(rules(tenant("a", "elastic", 100, quotas=[quota("hour", 3_000)]), lease_ms=14_000))
    run.now = START + HOUR - 20_000
    run.go(2, {"g1": {"a": 1_500}})
    assert [*run.ceiling("a")] == ["hour/2027-01-15T08+00:00"]
    run.go(8, refused={"g1": {"a": 150}})
    assert set(run.ceiling("a")) == {"hour/2027-01-15T08+00:00", "hour/2027-01-15T09+00:00"}
    assert run.ceiling("a")["hour/2027-01-15T09+00:00"] >= 150
    run.go(7, refused={"g1": {"a": 150}})
    assert run.grant("a") > 0  # the lease is there when the window begins
    run.go(3, {"g1": {"a": 150}})
    assert [*run.ceiling("a")] == ["hour/2027-01-15T09+00:00"]
    assert "a" not in run.bars()


def test_a_silent_gateways_ceiling_counts_as_spent_until_it_reports() -> None:
    run = Run(rules(tenant("a", "elastic", 100, quotas=[quota("day", 100_000)])), ("g1", "g2"))
    run.begin("a")
    run.go(5, {"g1": {"a": 1_000}, "g2": {"a": 1_000}})
    late = run.sequence.pop("g2")
    run.go(1)
    held = sum(run.ceiling("a", "g2").values())
    run.go(200, {"g1": {"a": 2_000}})
    assert sum(run.ceiling("a", "g1").values()) == 100_000 - held
    run.sequence["g2"] = late
    run.go(5, {"g1": {"a": 1_000}})
    assert sum(run.ceiling("a", "g1").values()) == 100_000 - held  # ceilings are not taken back
    assert run.pool.quotas.columns.shape[1] == 1


def test_a_closed_gateway_gives_back_what_it_did_not_spend() -> None:
    run = Run(rules(tenant("a", "elastic", 100, quotas=[quota("day", 100_000)])), ("g1", "g2"))
    run.begin("a")
    run.go(5, {"g1": {"a": 1_000}, "g2": {"a": 1_000}})
    run.send("g2", run.now + 700, closing=True)
    del run.sequence["g2"]
    run.go(200, {"g1": {"a": 2_000}})
    assert sum(run.ceiling("a", "g1").values()) == 100_000 - 5_000


def test_late_usage_is_booked_to_the_window_in_which_it_happened() -> None:
    """34: used at 08:59:50, reported at 09:00:20."""
    run = Run(rules(tenant("a", "elastic", 100, quotas=[quota("hour", 3_000)])))
    run.now = START + HOUR + 19_000
    run.go(1)
    run.send("g1", run.now + 700, out={"a": 700}, row_age_ms=30_700)
    run.go(1, {"g1": {"a": 10}})
    run.go(1)
    entry = run.decided[-1].entries[0].body
    assert isinstance(entry, DecisionEntry)
    assert [*entry.quotas.spent] == [10]


def test_a_quota_follows_the_calendar_of_its_zone() -> None:
    """27: Asia/Tokyo, a day's quota used up at 21:30; the next day begins at 15:00 UTC."""
    run = Run(rules(tenant("a", "elastic", 100, quotas=[quota("day", 3_000, zone="Asia/Tokyo")])))
    run.now = START + 4 * HOUR + HOUR // 2  # 12:30 UTC, 21:30 in Tokyo
    run.go(3, {"g1": {"a": 1_500}})
    midnight = START + 7 * HOUR
    assert run.bars()["a"] == ("quota", midnight)
    run.now = midnight - 10_000
    run.go(9, refused={"g1": {"a": 100}})
    assert run.bars()["a"] == ("quota", midnight)
    run.go(1, refused={"g1": {"a": 100}})
    assert "a" not in run.bars()
    assert [*run.ceiling("a")] == ["day/2027-01-16"]


def test_a_spent_quota_is_audited_and_so_is_its_new_beginning() -> None:
    run = Run(rules(tenant("a", "elastic", 100, quotas=[quota("hour", 3_000)])))
    run.go(3, {"g1": {"a": 1_500}})
    (spent,) = run.audits()
    assert (spent.subject, [*spent.lost], spent.amount) == ("a", ["a"], 3_000)
    assert (spent.before, spent.after) == ("3000", "0")
    run.now = START + HOUR - 2_000
    run.go(3)
    begun = run.audits()[-1]
    assert (begun.subject, [*begun.gained], begun.after) == ("a", ["a"], "3000")
    assert len(run.audits()) == 2


def test_what_a_window_left_is_rolled_over_up_to_the_cap() -> None:
    run = Run(rules(tenant("a", "elastic", 100, quotas=[quota("hour", 3_000, rollover=1_000)])))
    run.go(3, {"g1": {"a": 1_200}})
    assert run.tokens() == [
        4_000
    ]  # the spec was there before the hour began, and nothing was spent
    run.now = START + HOUR - 2_000
    run.go(4, {"g1": {"a": 10}})
    assert run.tokens() == [3_390]  # of the 4 000 before, 3 610 were spent
    rolled = [audit for audit in run.audits() if "left so much" in audit.why]
    assert [*rolled[0].gained] == ["a"]


def test_windows_that_nobody_saw_roll_over_too() -> None:
    run = Run(rules(tenant("a", "elastic", 100, quotas=[quota("hour", 3_000, rollover=5_000)])))
    run.go(3, {"g1": {"a": 800}})
    run.now = START + 3 * HOUR
    run.go(3, {"g1": {"a": 10}})
    assert run.tokens()[0] > 3_000 + 3_000


def test_a_new_limit_keeps_what_was_spent() -> None:
    terms = rules(tenant("a", "elastic", 100, quotas=[quota("day", 100_000)]))
    run = Run(terms)
    run.go(3, {"g1": {"a": 1_000}})
    smaller = tenant("a", "elastic", 100, quotas=[quota("day", 3_000)])
    changed = replace(terms, version=2, replaces=1, entitlements=[smaller, tenant("b", "spot")])
    fold(run.pool, changed, run.now + 600)
    run.go(2)
    entry = run.decided[-1].entries[0].body
    assert isinstance(entry, DecisionEntry)
    assert ([*entry.quotas.tokens], [*entry.quotas.spent]) == ([3_000], [3_000])


class TestUsers:
    KEYS = tenant(
        "team",
        "elastic",
        1_000,
        user_quotas=[quota("day", 10_000)],
        users=[UserTerms("boss", 1_000_000, [quota("day", 50_000)])],
    )

    def send(self, run: Run, user: str, tokens: int, refused: int = 0) -> None:
        run.now += SECOND
        run.sequence["g1"] += 1
        made = report("g1", run.sequence["g1"], {"team": tokens}, refused={"team": refused})
        totals = replace(made.totals, names=["team", user], user=[1])
        run._take(replace(made, totals=totals, applied=run.pool.boundary_ms), run.now)

    def test_each_user_has_its_own_account_once_it_is_seen(self) -> None:
        run = Run(rules(self.KEYS))
        self.send(run, "ana", 100)
        self.send(run, "ben", 200)
        self.send(run, "ana", 300)
        run.go(1)
        assert {user for tenant, user, _ in run.pool.quotas.accounts.keys} == {
            "*", "ana", "ben", "boss",
        }  # fmt: skip
        starter = run.ceiling("team", user="*")["day/2027-01-15"]
        assert 0 < starter <= 10_000 // 25
        assert run.ceiling("team", user="ana")["day/2027-01-15"] >= 400 + starter
        assert run.ceiling("team", user="boss")["day/2027-01-15"] == 50_000 // 100

    def test_a_user_that_has_spent_its_quota_does_not_stop_the_tenant(self) -> None:
        run = Run(rules(self.KEYS))
        run.begin("team")
        for _ in range(12):
            self.send(run, "ana", 1_000)
        run.go(1)
        assert run.ceiling("team", user="ana")["day/2027-01-15"] == 10_000
        assert run.grant("team") > 0
        assert "team" not in run.bars()
        assert [*run.audits()[0].lost] == ["team/ana"]

    def test_users_are_forgotten_when_their_windows_are_over(self) -> None:
        hourly = tenant("team", "elastic", 1_000, user_quotas=[quota("hour", 10_000)])
        run = Run(rules(hourly))
        self.send(run, "ana", 100)
        for hours, users in ((1, {"*", "ana"}), (2, {"*"})):
            run.now = START + hours * HOUR
            run.go(2)
            assert {user for _, user, _ in run.pool.quotas.accounts.keys} == users

    def test_who_comes_when_all_accounts_are_taken_has_what_everybody_has(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(accounts, "MOST_MET", 2)
        run = Run(rules(self.KEYS))
        for user in ("ana", "ben", "cleo"):
            self.send(run, user, 0, refused=1_000)
        run.go(1)
        shown = {user for tenant, user, _ in run.pool.quotas.accounts.keys}
        assert shown == {"*", "ana", "ben", "boss"}
        assert run.ceiling("team", user="cleo") == {}
        assert run.ceiling("team", user="*")["day/2027-01-15"] > 0

    def test_what_everybody_may_spend_counts_as_given_to_a_user_that_comes(self) -> None:
        """A gateway may have admitted it on what everybody has, and not said so yet."""
        run = Run(rules(self.KEYS), ("g1", "g2"))
        run.go(2, {"g1": {"team": 1}})
        self.send(run, "ana", 0, refused=20_000)
        run.go(2)
        everybody = run.ceiling("team", "g2", user="*")["day/2027-01-15"]
        assert everybody > 0
        assert run.ceiling("team", "g2", user="ana") == {}  # it has there what everybody has
        assert run.ceiling("team", user="ana")["day/2027-01-15"] == 10_000 - everybody


class TestBars:
    def test_what_a_silent_gateways_pot_could_give_is_kept_for_it(self) -> None:
        """g2 does not hear that the tenant has ceilings now: its pot gives until its lease ends."""
        run = Run(rules(tenant("a", "elastic", 100, quotas=[quota("day", 40_000)])), ("g1", "g2"))
        run.go(2)
        del run.sequence["g2"]
        run.go(60, {"g1": {"a": 1_000}})
        # Its share of the pots is 250 tokens/s, of which a tenant like this one may take half. And
        # what g1 spent before it had a ceiling is no part of the ceiling.
        assert run.ceiling("a")["day/2027-01-15"] == 40_000 - 125 * (15 + 2) - 2_000

    def test_a_quota_that_pots_could_overspend_is_guarded_by_ceilings_all_the_time(self) -> None:
        run = Run(rules(tenant("a", "elastic", 0, quotas=[quota("day", 500)])))
        run.go(3)
        assert "a" not in run.bars()
        assert run.ceiling("a") == {"day/2027-01-15": 5}

    def test_of_very_many_small_quotas_the_idle_are_barred_from_pots_until_they_ask(self) -> None:
        many = [tenant(f"t{n:03}", "elastic", 0, quotas=[quota("day", 500)]) for n in range(300)]
        run = Run(rules(*many))
        run.go(3)
        assert len(run.bars()) == 300 - 256
        assert run.bars()["t299"] == ("quota", 0)
        run.go(3, refused={"g1": {"t299": 100}})
        assert "t299" not in run.bars()
        assert run.ceiling("t299")["day/2027-01-15"] >= 100

    def test_a_large_quota_of_an_idle_tenant_costs_nothing(self) -> None:
        run = Run(rules(tenant("a", "elastic", 0, quotas=[quota("day", 10**9)])))
        run.go(3)
        assert run.bars() == {}
        assert run.ceiling("a") == {}


class TestLending:
    def test_what_an_hour_will_leave_is_lent_to_who_has_spent_its_own(self) -> None:
        run = Run(
            rules(
                tenant("idle", "elastic", 100, quotas=[quota("hour", 100_000, lend=True)]),
                tenant("busy", "elastic", 100, quotas=[quota("hour", 3_000)]),
            )
        )
        run.now = START + HOUR // 2
        run.go(4, {"g1": {"busy": 1_000}})
        run.go(4, refused={"g1": {"busy": 1_000}})
        entry = run.decided[-1].entries[0].body
        assert isinstance(entry, DecisionEntry)
        tokens = dict(zip(entry.quotas.tenant, entry.quotas.tokens, strict=True))
        assert tokens["busy"] > 3_000
        assert run.grant("busy") > 0
        lent = next(audit for audit in run.audits() if audit.lost == ("idle",))
        assert [*lent.gained] == ["busy"]
        assert int(lent.after) - int(lent.before) == lent.amount

    def test_without_lend_nothing_moves(self) -> None:
        run = Run(
            rules(
                tenant("idle", "elastic", 100, quotas=[quota("hour", 100_000)]),
                tenant("busy", "elastic", 100, quotas=[quota("hour", 3_000)]),
            )
        )
        run.now = START + HOUR // 2
        run.go(4, {"g1": {"busy": 1_000}})
        run.go(4, refused={"g1": {"busy": 1_000}})
        assert run.grant("busy") == 0


class TestAcross:
    def test_a_pool_may_spend_what_it_is_given_and_no_more(self) -> None:
        run = Run(rules(tenant("a", "elastic", 100, quotas=[quota("day", 100_000, across=True)])))
        run.go(2, refused={"g1": {"a": 100}})
        assert run.grant("a") == 0
        assert run.bars()["a"] == ("quota", 0)
        fold(run.pool, QuotaCeiling("chat", "a", "", "day/2027-01-15", 0, 0, 5_000), run.now + 600)
        run.go(2, refused={"g1": {"a": 100}})
        assert run.grant("a") > 0
        assert 0 < run.ceiling("a")["day/2027-01-15"] <= 5_000
        run.go(10, {"g1": {"a": 1_000}})
        assert run.ceiling("a")["day/2027-01-15"] == 5_000


def test_a_run_split_anywhere_equals_one_run() -> None:
    def play(split: bool) -> Run:
        run = Run(
            rules(
                tenant("a", "elastic", 100, quotas=[quota("hour", 9_000, rollover=500, lend=True)]),
                tenant("b", "elastic", 100, quotas=[quota("hour", 2_000)]),
                TestUsers.KEYS,
            ),
            ("g1", "g2"),
        )
        for turn in range(5):
            run.now += HOUR // 4 if turn else 0
            for _ in range(4):
                if split:
                    run.pool = from_rows(to_rows(run.pool))
                run.go(1, {"g1": {"a": 300, "b": 900}, "g2": {"b": 400, "team": 7}})
        return run

    whole, parts = play(False), play(True)
    assert to_rows(parts.pool) == to_rows(whole.pool)
    assert parts.decided == whole.decided


def test_the_windows_of_a_restored_pool_are_those_of_its_newest_boundary() -> None:
    run = Run(rules(tenant("a", "elastic", 100, quotas=[quota("hour", 9_000)])))
    run.go(3, {"g1": {"a": 300}})
    restored = from_rows(to_rows(run.pool))
    assert restored.quotas.groups[0].now == run.pool.quotas.groups[0].now
    advance(restored, START + HOUR)
    assert restored.quotas.groups[0].now.id == "hour/2027-01-15T09+00:00"
