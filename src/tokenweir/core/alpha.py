"""Fit α to what is seen: the pool's, and that of classes that have their own (DESIGN, decision 10).

Up while capacity idles and demand is refused, the pool's first; down when the water level rises,
the lowest class's first. One step at a time, on trial until the next look: a raise has helped when
less is refused and the level stays low, a cut when the level has fallen.
"""

from dataclasses import dataclass, replace

from tokenweir.core import ONE
from tokenweir.core.limits import FALLEN, MANY_REFUSALS, MOVED
from tokenweir.records.rows import LONG_AGO_MS
from tokenweir.records.spec import PoolSpec

STEP = 50_000
# The part of what may be granted that must idle for α to be raised, millionths.
IDLE = 100_000
# A level has fallen when it is at most this part of what it was, in hundredths.
LOWER = 99


@dataclass(frozen=True, slots=True)
class TuningState:
    """What the slow loop keeps of the pool itself."""

    looked_ms: int = 0  # its last look; 0: none yet
    place: int = -1  # in `alphas`: the one on trial; -1: none
    was: int = 0  # its value before
    changed_ms: int = LONG_AGO_MS
    asked: int = 0  # what asked for the change on trial: refusals, or the level
    raised_at: int = 0  # what asked for raising when it did not help; 0: nothing
    lowered_at: int = 0  # the same of lowering
    alphas: tuple[int, ...] = ()  # the classes', lowest first (-1: none), and the pool's


@dataclass(frozen=True, slots=True)
class PoolLooked:
    """What a look sees of the pool, millionths."""

    level: int  # smoothed, of the firm use
    refused: int  # part of the requests since the last look
    idle: int  # part of what may be granted that was not used since then


UNTUNED = TuningState()


def alphas_of(spec: PoolSpec) -> tuple[int, ...]:
    """What the spec says, in the order of `TuningState.alphas`."""
    return (*(-1 if one.alpha is None else one.alpha for one in spec.classes), spec.alpha)


def tuned(spec: PoolSpec, state: TuningState) -> PoolSpec:
    """The spec with the tuned α in the place of what it says."""
    if not state.alphas or state.alphas == alphas_of(spec):
        return spec
    classes = tuple(
        replace(one, alpha=None if alpha < 0 else alpha)
        for one, alpha in zip(spec.classes, state.alphas[:-1], strict=True)
    )
    return replace(spec, alpha=state.alphas[-1], classes=classes)


def next_alpha(state: TuningState, seen: PoolLooked, spec: PoolSpec, at_ms: int) -> TuningState:
    """α after one look: a trial ends, or where the cool-down is over one may begin."""
    state = replace(state, alphas=state.alphas or alphas_of(spec))
    if state.place >= 0:
        return _judged(state, seen, spec, at_ms)
    if at_ms - state.changed_ms < spec.tuning.cool_down_ms:
        return state
    if _is_crowded(seen, spec):
        return _lowered(state, seen, spec, at_ms)
    return _raised(state, seen, spec, at_ms)


def _judged(state: TuningState, seen: PoolLooked, spec: PoolSpec, at_ms: int) -> TuningState:
    """End a trial: keep what helped, undo what did not and remember what had asked for it."""
    raised = state.alphas[state.place] > state.was
    if raised:
        fell = seen.refused * 100 <= state.asked * FALLEN
        helped = fell and not _is_crowded(seen, spec)
    else:
        helped = seen.level * 100 <= state.asked * LOWER
    ended = replace(state, place=-1, was=0, asked=0)
    if raised:
        ended = replace(ended, raised_at=0 if helped else state.asked)
    else:
        ended = replace(ended, lowered_at=0 if helped else state.asked)
    if helped:
        return ended
    return replace(ended, changed_ms=at_ms, alphas=_with(state, state.place, state.was))


def _lowered(state: TuningState, seen: PoolLooked, spec: PoolSpec, at_ms: int) -> TuningState:
    least = spec.tuning.alpha_least
    places = [place for place, alpha in enumerate(state.alphas) if alpha > least]
    if not places or not _has_moved(seen.level, state.lowered_at):
        return state
    return _changed(state, places[0], max(state.alphas[places[0]] - STEP, least), seen.level, at_ms)


def _raised(state: TuningState, seen: PoolLooked, spec: PoolSpec, at_ms: int) -> TuningState:
    most = spec.tuning.alpha_most
    calm = seen.level < spec.tiers.soft - 2 * spec.tiers.margin
    asks = seen.refused >= MANY_REFUSALS and seen.idle >= IDLE and calm
    places = [place for place, alpha in enumerate(state.alphas) if 0 <= alpha < most]
    if not asks or not places or not _has_moved(seen.refused, state.raised_at):
        return state
    place = places[-1]
    return _changed(state, place, min(state.alphas[place] + STEP, most), seen.refused, at_ms)


def _changed(state: TuningState, place: int, alpha: int, asked: int, at_ms: int) -> TuningState:
    return replace(
        state,
        place=place,
        was=state.alphas[place],
        changed_ms=at_ms,
        asked=max(asked, 1),
        alphas=_with(state, place, alpha),
    )


def _with(state: TuningState, place: int, alpha: int) -> tuple[int, ...]:
    return (*state.alphas[:place], alpha, *state.alphas[place + 1 :])


def _is_crowded(seen: PoolLooked, spec: PoolSpec) -> bool:
    return seen.level >= spec.tiers.soft - spec.tiers.margin


def _has_moved(figure: int, failed_at: int) -> bool:
    return failed_at == 0 or abs(figure - failed_at) * MOVED >= failed_at


def part(of: int, whole: int) -> int:
    """`of` as a part of `whole`, in millionths; 0 of nothing."""
    return min(of * ONE // whole, ONE) if whole > 0 else 0
