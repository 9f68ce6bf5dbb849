"""What happens in the pool, in a sentence."""

from streams.demo.frame import Frame, TenantRow
from tokenweir.records.control import ControlDecision

TIERS = {
    "normal": "normal",
    "soft_degrade": "soft degrade",
    "hard_degrade": "hard degrade",
    "circuit_break": "circuit break",
}
CORE = ("dedicated", "guaranteed")


def sentence(frame: Frame) -> str:
    """Who is held back and why, and who is kept whole."""
    if frame.entry is None:
        return "waiting for the first decision"
    rows = frame.rows()
    parts = [_back(row, frame.entry.decision) for row in rows if row.held_back]
    parts += [_core(row) for row in rows if row.service_class in CORE and row.demand]
    return "; ".join(parts) if parts else "nobody is held back"


def _back(row: TenantRow, decision: ControlDecision) -> str:
    return f"{row.tenant} is held back: {_why(row, decision)}"


def _why(row: TenantRow, decision: ControlDecision) -> str:
    if decision.breaker == "open":
        return "the breaker is open"
    action = {state.service_class: state.action for state in decision.classes}[row.service_class]
    if action == "refuse":
        return f"{row.service_class} gets nothing in {TIERS[decision.tier]}"
    if row.demand <= row.grant:
        return "its burst was faster than its lease could grow"
    if action == "limit":
        tier = TIERS[decision.tier]
        return f"{row.service_class} is limited in {tier}, now {row.grant:,} of {row.demand:,}"
    if row.service_class in ("spot", "preemptible"):
        return f"{row.service_class} takes what others leave, now {row.grant:,} of {row.demand:,}"
    share = f"it is granted {row.grant:,} of {row.demand:,}"
    return (
        share if row.demand <= row.baseline else f"{share}, above its baseline of {row.baseline:,}"
    )


def _core(row: TenantRow) -> str:
    if row.demand <= row.baseline:
        return f"{row.tenant} keeps its baseline of {row.baseline:,}"
    if row.grant > row.baseline:
        return f"{row.tenant} borrows {row.grant - row.baseline:,} above its baseline"
    return f"{row.tenant} asks for more than its baseline of {row.baseline:,}"
