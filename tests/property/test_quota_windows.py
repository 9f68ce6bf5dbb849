"""Every kind of quota stops at its end and begins anew with its next window; logs replay alike."""

import time
from itertools import product

import pytest

from tests.pools import START, pool_with, spec, tenant
from tokenweir.core.pool import Pool
from tokenweir.core.quota import calendar
from tokenweir.core.step import UsageRecord, advance, fold
from tokenweir.gateway import ledger
from tokenweir.gateway.pool import PoolGate
from tokenweir.gateway.request import Request
from tokenweir.records.spec import Cycle, Entitlement, PoolSpec, Quota, UserTerms
from tokenweir.rows import to_rows
from tokenweir.spec.zones import zone_of

CYCLES: tuple[Cycle, ...] = ("minute", "hour", "day", "month")
SCOPES = ("tenant", "each user", "named user")
ZONE = zone_of("Asia/Tokyo")
TOKENS, REQUEST = 2_000, 100
Log = list[tuple[int, UsageRecord]]


class Desk:
    """One gateway of one pool, heard at once; what it reports is kept."""

    def __init__(self, rules: PoolSpec, now_ms: int) -> None:
        self.pool: Pool = pool_with(rules, now_ms)
        self.gate = PoolGate("chat", "edge")
        self.now_ms = now_ms
        self.log: Log = []

    def pass_time(self, ms: int) -> None:
        """Report each half second, and obey each decision."""
        for _ in range(ms // 500):
            self.now_ms += 500
            for cut in self.gate.cut(self.now_ms):
                self._send(cut.report)

    def jump(self, at_ms: int) -> None:
        """Nothing happens until then."""
        self.now_ms = at_ms

    def _send(self, report: UsageRecord) -> None:
        self.log.append((self.now_ms, report))
        decided = advance(self.pool, self.now_ms)
        fold(self.pool, report, self.now_ms)
        self.gate.acknowledged(self.now_ms, self.now_ms, self.now_ms)
        if decided is not None:
            for record in (*decided.leases, decided.barred, decided.roster, decided.decision):
                if record is not None:
                    self.gate.hear(record, self.now_ms)

    def ask(self) -> bool:
        """One request of `bo`, settled at once; whether it was admitted."""
        request = Request("acme", "bo", REQUEST)
        self.gate.ask(request, self.now_ms)
        if request.state != "admitted":
            if request.state == "waiting":
                self.gate.abandon(request, self.now_ms)
            return False
        ledger.settle(self.gate, request, self.now_ms, REQUEST, 0, 0)
        return True

    def exhaust(self) -> int:
        """Ask until nothing has been admitted for five seconds; the tokens that were."""
        spent = idle = 0
        while idle < 10:
            admitted = self.ask()
            spent += REQUEST * admitted
            idle = 0 if admitted else idle + 1
            self.pass_time(500)
        return spent


def rules(scope: str, cycle: Cycle) -> PoolSpec:
    quota = [Quota(cycle, "Asia/Tokyo", TOKENS, 0, False, False)]
    claims: dict[str, Entitlement] = {
        "tenant": tenant("acme", "elastic", 1_000, quotas=quota),
        "each user": tenant("acme", "elastic", 1_000, user_quotas=quota),
        "named user": tenant("acme", "elastic", 1_000, users=[UserTerms("bo", 1, quota)]),
    }
    return spec(claims[scope], zones=(ZONE,), lease_ms=5_000)


@pytest.mark.parametrize(("scope", "cycle"), [*product(SCOPES, CYCLES)])
def test_30_whatever_the_scope_a_spent_quota_begins_anew(scope: str, cycle: Cycle) -> None:
    now = calendar.window(cycle, ZONE, START)
    start_ms = START if cycle != "minute" else now.starts_ms
    desk = Desk(rules(scope, cycle), start_ms)
    desk.pass_time(3_000)
    assert 0.9 * TOKENS <= desk.exhaust() <= TOKENS
    if desk.now_ms < now.ends_ms - 1_000:
        desk.jump(now.ends_ms - 1_000)
        desk.pass_time(500)
        assert not desk.ask()
    desk.jump(max(desk.now_ms, now.ends_ms))
    desk.pass_time(2_000)
    assert desk.ask()
    assert desk.exhaust() > 0.8 * TOKENS


def test_32_use_in_one_window_refuses_nothing_in_the_next_not_even_at_its_first_moment() -> None:
    """
    08:00:00 ─ spent, and refused ─ 08:01:00 │ admitted
    """
    desk = Desk(rules("tenant", "minute"), START)
    desk.pass_time(3_000)
    while desk.now_ms < START + 60_000 - 500:
        desk.ask()
        desk.pass_time(500)
    assert not desk.ask()
    desk.jump(START + 60_000)
    assert desk.ask()  # before anything of the new window's first decision has come


def test_requests_that_run_long_find_room_for_what_they_hold() -> None:
    """Each runs for 20 s and holds its 500 tokens all the while; a fifth of the quota a minute."""
    quota = [Quota("hour", "Asia/Tokyo", 300_000, 0, False, False)]
    claim = tenant("acme", "guaranteed", 2_000, quotas=quota)
    desk = Desk(spec(claim, zones=(ZONE,), lease_ms=5_000), START)
    desk.pass_time(3_000)
    running: list[tuple[int, Request]] = []
    admitted = asked = 0
    for _ in range(120):
        for _ in range(2):
            request = Request("acme", "bo", 500)
            desk.gate.ask(request, desk.now_ms)
            asked += 1
            if request.state == "waiting":
                desk.gate.abandon(request, desk.now_ms)
            if request.state == "admitted":
                admitted += 1
                running.append((desk.now_ms + 20_000, request))
        desk.pass_time(500)
        while running and running[0][0] <= desk.now_ms:
            ledger.settle(desk.gate, running.pop(0)[1], desk.now_ms, 500, 0, 0)
    assert admitted > 0.9 * asked


@pytest.mark.parametrize("zone", ["America/New_York", "Pacific/Apia"])
def test_36_a_log_folded_later_and_elsewhere_gives_the_same_bytes(
    zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(rules("each user", "hour"), START + 3_590_000)
    for _ in range(30):
        desk.ask()
        desk.pass_time(1_000)
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    again = pool_with(rules("each user", "hour"), START + 3_590_000)
    for append_ms, record in desk.log:
        advance(again, append_ms)
        fold(again, record, append_ms)
    assert to_rows(again) == to_rows(desk.pool)
    monkeypatch.undo()
    time.tzset()
