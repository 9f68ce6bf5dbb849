"""Preemptible work is stopped when owners need its place, and may go on by itself."""

from dataclasses import replace

from tests.pools import START, pool_with, report, spec, step, tenant
from tokenweir.core.pool import Pool
from tokenweir.core.step import Decided
from tokenweir.records.control import Barred
from tokenweir.records.journal import AuditEntry
from tokenweir.records.spec import Entitlement
from tokenweir.records.usage import UsageReport

TENANTS = (tenant("owner", "guaranteed", 9_000), tenant("batch", "preemptible"))


def running(sequence: int, asked: dict[str, int], in_flight: int, applied: int) -> UsageReport:
    """All ask for so much; the batch has so many requests in flight, of 50 held tokens each."""
    made = report("g", sequence, asked, applied=applied)
    count = [in_flight if name == "batch" else 0 for name in sorted(asked)]
    held = [50 * each for each in count]
    return replace(
        made, totals=replace(made.totals, in_flight=count, held_tokens=held, sequences=count)
    )


class Run:
    def __init__(self, *others: Entitlement) -> None:
        self.pool: Pool = pool_with(spec(*TENANTS, *others, alpha=1.0))
        self.at_ms, self.sequence = START, 0
        self.barred: list[Barred] = []
        self.audits: list[AuditEntry] = []

    def second(self, batch: int, owner: int, in_flight: int, **others: int) -> Decided:
        self.sequence += 1
        asked = {"batch": batch, "owner": owner, **others}
        asks = running(self.sequence, asked, in_flight, self.pool.boundary_ms)
        step(self.pool, asks, self.at_ms + 500)
        self.at_ms += 1000
        result = step(self.pool, report("h", self.sequence), self.at_ms)
        assert result is not None
        self.barred += [result.barred] if result.barred else []
        bodies = [entry.body for entry in result.entries]
        self.audits += [b for b in bodies if isinstance(b, AuditEntry) and b.kind == "revoke"]
        return result


def stopped() -> Run:
    """The batch had the whole pool; then the owner comes back."""
    run = Run()
    for _ in range(5):
        run.second(9_000, 0, 20)
    run.second(9_000, 9_000, 20)
    return run


def test_when_the_owner_comes_back_running_work_is_revoked_for_a_minute() -> None:
    run = stopped()
    (record,) = run.barred
    assert (record.tenant, record.reason) == (["batch"], ["revoked"])
    assert record.until_ms == [run.at_ms + 60_000]


def test_it_is_audited_with_the_tokens_that_the_stopped_work_held() -> None:
    (entry,) = stopped().audits
    assert (entry.lost, entry.gained, entry.amount) == (["batch"], ["owner"], 20 * 50)


def test_it_is_granted_nothing_until_then_and_something_afterwards() -> None:
    run = stopped()
    until_ms = run.barred[0].until_ms[0]
    while run.at_ms < until_ms - 1000:
        grants = run.second(9_000, 0, 0).leases
        assert all("batch" not in lease.tenant for lease in grants)
    found = [run.second(9_000, 0, 0) for _ in range(2)]
    assert any("batch" in lease.tenant for lease in found[-1].leases)
    assert run.barred[-1].tenant == []


def test_work_that_is_granted_enough_goes_on() -> None:
    run = Run()
    for _ in range(5):
        run.second(4_000, 0, 20)
    run.second(4_000, 3_000, 20)
    assert run.audits == []


def test_work_of_a_tenant_with_nothing_in_flight_is_not_revoked() -> None:
    run = Run()
    for _ in range(5):
        run.second(9_000, 0, 0)
    run.second(9_000, 9_000, 0)
    assert run.audits == []


def test_a_tremor_of_a_floor_stops_nothing_where_a_borrower_took_the_rest() -> None:
    """What the ceiling leaves free, 500 here, takes the tremor in while the work runs out."""
    run = Run(tenant("research", "elastic", 0))
    for _ in range(5):
        run.second(9_000, 0, 20)
    run.second(9_000, 400, 20, research=90_000)
    assert run.audits == []
