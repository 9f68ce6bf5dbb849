"""What a decision lets each class do: tier's actions, threshold, breaker, pots and waits."""

from dataclasses import dataclass
from typing import Literal

from tokenweir.gateway.reasons import Reason
from tokenweir.records.control import ClassState, ControlDecision
from tokenweir.records.spec import CLASSES, RANK, OnSilence

CORE = RANK["guaranteed"]  # from this rank on, a tenant waits and is not refused at once (L8)
FLOORS = RANK["elastic"]  # from this rank on, a class has floors
CORE_WAIT = 3  # intervals: report, shrink, confirm, grow

Flow = Literal["lease", "floor", "none"]


@dataclass(frozen=True, slots=True)
class Stance:
    """What holds for one class. `flow` is which of a lease's rates may be spent."""

    closed: Reason | None
    flow: Flow
    narrowed: Reason | None  # why the flow is less than the lease
    probe: bool
    pot: bool
    starter: int  # millionths of the pot
    longest_wait_ms: int
    on_silence: OnSilence


# Before the first decision: nothing is known to be allowed.
UNDECIDED = Stance("no_decision", "none", None, False, False, 0, 0, "refuse")


def stances(decision: ControlDecision) -> tuple[Stance, ...]:
    """The stance of each class, lowest first."""
    given = {state.service_class: state for state in decision.classes}
    return tuple(_stance(decision, rank, given.get(name)) for rank, name in enumerate(CLASSES))


def _stance(decision: ControlDecision, rank: int, state: ClassState | None) -> Stance:
    if state is None:
        return UNDECIDED
    flow, narrowed = _flow(decision, state)
    wait = state.longest_wait_ms
    return Stance(
        closed=_closed(decision, rank, state),
        flow=flow,
        narrowed=narrowed,
        probe=decision.breaker == "half_open",
        pot=rank >= FLOORS or decision.tier in ("normal", "soft_degrade"),
        starter=state.starter,
        longest_wait_ms=max(wait, CORE_WAIT * decision.interval_ms) if rank >= CORE else wait,
        on_silence=state.on_silence,
    )


def _closed(decision: ControlDecision, rank: int, state: ClassState) -> Reason | None:
    if rank < RANK[decision.priority_threshold]:
        return "priority"
    if state.action == "refuse":
        return "class_refused"
    if decision.breaker == "open" and decision.breaker_refuses == "all":
        return "breaker"
    return None


def _flow(decision: ControlDecision, state: ClassState) -> tuple[Flow, Reason | None]:
    if decision.breaker != "closed":
        return ("none" if decision.breaker_refuses == "all" else "floor"), "breaker"
    if state.action == "floor_only":
        return "floor", "floor_only"
    return "lease", None
