"""The recorded gateways, as they would have reported under a changed policy."""

from dataclasses import dataclass, field, replace

from tokenweir.records.spec import PoolSpec
from tokenweir.records.usage import UsageReport
from tokenweir.review.counterfactual import Account, Asked, answered
from tokenweir.review.rewrite import Row, asked_by, rewritten, rows_of, with_rows
from tokenweir.review.world import Told, World
from tokenweir.usage_log import Message


@dataclass(slots=True)
class Gateway:
    """One gateway: what the model knows of each tenant there."""

    at_ms: int  # of its last report
    accounts: dict[str, Account] = field(default_factory=dict)

    def silent(self, report: UsageReport) -> list[str]:
        """Tenants that wait, and that the report does not speak of."""
        spoken = {report.totals.names[place] for place in report.totals.tenant}
        return [name for name, one in self.accounts.items() if one.late and name not in spoken]


class Gateways:
    """Rewrites reports from the recorded world for the changed one, in the log's order."""

    def __init__(self, recorded: World, changed: World) -> None:
        self.recorded, self.changed = recorded, changed
        self.known: dict[str, Gateway] = {}

    def report(self, report: UsageReport, message: Message) -> UsageReport:
        """The report that would have come; the recorded one itself where nothing differs."""
        now_ms = message.append_ms
        gateway = self.known.setdefault(report.gateway, Gateway(now_ms))
        ms, gateway.at_ms = max(now_ms - gateway.at_ms, 0), now_ms
        before, after = self.recorded.obeyed(report), self.changed.obeyed(report)
        if before is None or after is None:  # it obeys nothing that is known: as recorded
            return report
        if _spec(self.recorded).interval_ms != _spec(self.changed).interval_ms:
            report = replace(report, applied=after.at_ms)  # the decisions are at other times
        silent = gateway.silent(report)
        report = with_rows(report, silent) if silent else report
        weights = _spec(self.changed).token_weights
        rows = rows_of(report, weights)
        changes = self._answers(gateway, rows, ms, before, after)
        return rewritten(report, rows, changes, weights) if changes else report

    def _answers(
        self, gateway: Gateway, rows: list[Row], ms: int, before: Told, after: Told
    ) -> dict[str, Asked]:
        """What the report would have said of each tenant of which it would have said another."""
        changes = {}
        for tenant, asked in asked_by(rows).items():
            answer = answered(
                gateway.accounts.setdefault(tenant, Account()),
                asked,
                ms,
                self.recorded.limit(before, tenant, gateway.at_ms),
                self.changed.limit(after, tenant, gateway.at_ms),
                self.changed.wait_ms(tenant),
            )
            if answer != asked:
                changes[tenant] = answer
        return changes


def _spec(world: World) -> PoolSpec:
    assert world.pool.spec is not None
    return world.pool.spec
