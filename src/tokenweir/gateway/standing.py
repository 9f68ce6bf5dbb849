"""How one tenant stands in a pool at a gateway: what is left for it, and what the tier asks of it.

What answers and degrading are made from. Amounts are charged tokens, never negative; what is owed
is a figure of its own.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tokenweir.gateway.bucket import Bucket
from tokenweir.gateway.ceilings import Meter, Window
from tokenweir.gateway.pot import allowance
from tokenweir.gateway.subject import Subject
from tokenweir.records.control import ControlDecision, Tier
from tokenweir.records.spec import CLASSES, Action, ServiceClass

if TYPE_CHECKING:
    from tokenweir.gateway.pool import PoolGate

BudgetName = Literal["lease", "pot", "quota", "user-quota"]


@dataclass(frozen=True, slots=True)
class Budget:
    """One limit: `limit` charged tokens in `window_s`, of which `remaining` are left here now.

    `ready_ms` is how long until something is left, `full_ms` until everything is; None: not known.
    """

    name: BudgetName
    limit: int
    window_s: int
    remaining: int
    owed: int
    ready_ms: int | None
    full_ms: int | None
    window_id: str = ""  # of a quota
    ends_ms: int = 0  # of a quota's window, pool time (Unix ms)


@dataclass(frozen=True, slots=True)
class Standing:
    """One tenant's standing in one pool, at one gateway, at one moment.

    `tier` is None before the first decision; `sequences` are (limit, free), None: not limited.
    """

    pool: str
    tenant: str
    service_class: ServiceClass
    tier: Tier | None
    action: Action
    decision_id: str
    interval_ms: int
    budgets: tuple[Budget, ...]
    sequences: tuple[int, int] | None
    raise_limit_url: str

    @property
    def owed(self) -> int:
        """Charged tokens that its lease here owes: they are paid before anything is admitted."""
        return sum(budget.owed for budget in self.budgets)

    @property
    def quotas(self) -> tuple[Budget, ...]:
        """The quotas' windows among the budgets."""
        return tuple(budget for budget in self.budgets if budget.window_id)


def standing(gate: "PoolGate", tenant: str, user: str, now_ms: int) -> Standing:
    """How `tenant` stands now; `now_ms` is the gateway's own clock."""
    subject = gate.meet(tenant)
    pool_ms = gate.clock.at(now_ms)
    decision = gate.assembly.decision
    limit = subject.sequence_limit if subject.leased else -1
    return Standing(
        pool=gate.pool,
        tenant=tenant,
        service_class=CLASSES[subject.rank],
        tier=decision.tier if decision else None,
        action=_action(decision, CLASSES[subject.rank]),
        decision_id=gate.decision_id,
        interval_ms=gate.interval_ms,
        budgets=(
            _flowing(gate, subject, now_ms),
            *(_quotas(subject, user, pool_ms) if pool_ms is not None else ()),
        ),
        sequences=None if limit < 0 else (limit, max(limit - subject.sequences, 0)),
        raise_limit_url=gate.raise_limit.get(tenant, ""),
    )


def _action(decision: ControlDecision | None, service_class: ServiceClass) -> Action:
    classes = decision.classes if decision else ()
    return next((one.action for one in classes if one.service_class == service_class), "none")


def _flowing(gate: "PoolGate", subject: Subject, now_ms: int) -> Budget:
    if subject.leased or not gate.leases.pot_rate:
        return _bucket("lease", subject.bucket, now_ms, gate.interval_ms)
    pot = gate.leases.pot
    share = allowance(pot, subject, gate.stances[subject.rank], now_ms)
    budgets = (_bucket("pot", bucket, now_ms, gate.interval_ms) for bucket in (share, pot))
    return min(budgets, key=lambda budget: budget.remaining)


def _bucket(name: BudgetName, bucket: Bucket, now_ms: int, interval_ms: int) -> Budget:
    bucket.refill(now_ms)
    full_ms = _flows_in(bucket, bucket.burst - bucket.level)
    # Whole seconds, as headers have them: at least so long as the burst takes to flow in.
    burst_s = -(-bucket.burst // bucket.rate) if bucket.rate else -(-interval_ms // 1000)
    window_s = max(burst_s, 1)
    return Budget(
        name=name,
        limit=max(bucket.rate * window_s, bucket.burst) // 1000,
        window_s=window_s,
        remaining=max(bucket.level, 0) // 1000,
        owed=-(min(bucket.level, 0) // 1000),
        ready_ms=bucket.ready_ms(),
        full_ms=full_ms,
    )


def _flows_in(bucket: Bucket, amount: int) -> int | None:
    if amount <= 0:
        return 0
    return -(-amount * 1000 // bucket.rate) if bucket.rate else None


def _quotas(subject: Subject, user: str, pool_ms: int) -> Iterator[Budget]:
    users = subject.user_meters or {}
    meters: tuple[tuple[BudgetName, Meter | None], ...] = (
        ("quota", subject.meter),
        ("user-quota", users.get(user)),
    )
    for name, meter in meters:
        windows = meter.at(pool_ms) if meter is not None else None
        for window in windows or ():
            yield _quota(name, window, pool_ms)


def _quota(name: BudgetName, window: Window, pool_ms: int) -> Budget:
    return Budget(
        name=name,
        limit=window.tokens,
        window_s=max((window.ends_ms - window.starts_ms) // 1000, 1),
        remaining=window.left,
        owed=0,
        ready_ms=0 if window.left else window.ends_ms - pool_ms,
        full_ms=window.ends_ms - pool_ms,
        window_id=window.window_id,
        ends_ms=window.ends_ms,
    )
