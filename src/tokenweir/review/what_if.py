"""One log under two policies: the recorded one, and a changed one (DESIGN, 7).

Both worlds begin as the same pool, at the first decision of the range, and each is given its spec
anew there, the recorded one too, so that with the same policy both do the same. From there on the
recorded world folds the log as it is, specs and all. The changed world keeps the changed spec:
later specs of the log are passed over. Capacities that were reported hold in both. Its reports are
the recorded ones with what gateways would have let in under its own leases (`counterfactual`).
"""

from collections.abc import Callable, Mapping
from contextlib import aclosing
from copy import deepcopy
from dataclasses import dataclass, replace

from tokenweir.core.pool import Pool
from tokenweir.core.step import UsageRecord
from tokenweir.errors import BadInput
from tokenweir.records.spec import PoolSpec
from tokenweir.records.usage import UsageReport
from tokenweir.review.fold import PoolFold, Unfoldable
from tokenweir.review.frames import thinned
from tokenweir.review.gateways import Gateways
from tokenweir.review.log import Letter, PoolLog
from tokenweir.review.replay import Told, progress_of
from tokenweir.review.span import Span
from tokenweir.review.start import Begun, begin
from tokenweir.review.used import Used
from tokenweir.review.world import World
from tokenweir.usage_log import Message

# The changed policy for a pool whose recorded one is given: of the same version.
Policy = Callable[[PoolSpec], PoolSpec]


@dataclass(slots=True)
class WhatIf:
    """What came of the two; `first_difference` is the id of the first decision that differs.

    `passed_over` counts specs of the log that the changed world did not take. `used` is empty
    unless models were asked for.
    """

    recorded: World
    changed: World
    before: PoolSpec
    after: PoolSpec
    used: Used
    first_difference: str = ""
    passed_over: int = 0

    @property
    def is_same(self) -> bool:
        """Whether every decision is the same under both policies."""
        return not self.first_difference


async def what_if(
    log: PoolLog,
    span: Span,
    policy: Policy,
    told: Told = lambda _: None,
    *,
    models: bool = False,
) -> WhatIf:
    """Fold the range under both policies; with `models` the requests are read too.

    Raises `BadInput` when there is nothing to begin with, or the policy cannot be compared.
    """
    begun = await begin(log, span)
    known: dict[int, Letter] = dict(begun.letters)
    while True:
        try:
            return await _what_if(log, span, policy, begun, known, told, models)
        except Unfoldable as error:  # as live: load the state again, and pass this message over
            known[error.letter.offset] = error.letter
            begun = await begin(log, span)


async def _what_if(
    log: PoolLog,
    span: Span,
    policy: Policy,
    begun: Begun,
    letters: Mapping[int, Letter],
    told: Told,
    models: bool,
) -> WhatIf:
    world, both = World(PoolFold(begun.pool, log, letters)), None
    async with aclosing(log.messages(begun.mark.next_offset)) as messages:
        async for message in messages:
            if span.to_offset is not None and message.offset > span.to_offset:
                break
            boundary_ms = _due(world.pool, message)
            if boundary_ms and span.is_over(boundary_ms, message.offset):
                break
            if both is None and boundary_ms and span.has_begun(boundary_ms, message.offset):
                both = _Both(_parted(world, policy, log, letters), models)
            if both is None:
                _run_in(world, message)
            else:
                both.take(message)
            told(progress_of(begun, span, message))
    if both is None:
        raise BadInput(
            f"pool {log.pool}: no decisions in this range, so there is nothing to change"
        )
    return both.found


def _run_in(world: World, message: Message) -> None:
    """What is before the range is folded once."""
    record = world.fold.read(message)
    if record is not None:
        world.advance(message)
        world.fold.fold(record, message)


def _due(pool: Pool, message: Message) -> int:
    """The boundary that a message decides, as `core.step` does; 0: none."""
    spec = pool.spec or pool.pending_spec
    if spec is None:
        return 0
    newest = max(pool.clock_ms, message.append_ms) // spec.interval_ms * spec.interval_ms
    return newest if newest > pool.boundary_ms else 0


def _parted(world: World, policy: Policy, log: PoolLog, letters: Mapping[int, Letter]) -> WhatIf:
    """Two worlds out of one, each given its spec at the next boundary."""
    pool = world.pool
    before = pool.pending_spec or pool.spec
    assert before is not None
    after = replace(policy(before), source=before.source)
    _check(before, after)
    after = before if after == before else after
    other = World(PoolFold(deepcopy(pool), log, letters))
    other.told = {gateway: [*told] for gateway, told in world.told.items()}
    pool.pending_spec, other.pool.pending_spec = before, after
    if after.capacity != before.capacity:
        other.pool.pending_capacity = after.capacity
    return WhatIf(world, other, before, after, Used())


def _check(before: PoolSpec, after: PoolSpec) -> None:
    if after.pool != before.pool:
        raise BadInput(f"pool: value {after.pool!r}: the log is that of {before.pool!r}")
    if after.token_weights != before.token_weights:
        raise BadInput(
            "token_weights: other weights charge other amounts for the same requests, and refused "
            "requests are recorded only as charged: leave them as they are in the recorded spec"
        )


class _Both:
    """Takes both worlds through the same messages."""

    def __init__(self, found: WhatIf, models: bool) -> None:
        self.found, self.models = found, models
        self.gateways = Gateways(found.recorded, found.changed)

    def take(self, message: Message) -> None:
        ours, theirs = self.found.recorded, self.found.changed
        record = ours.fold.read(message)
        if record is None:
            return
        decisions = [(world, world.advance(message)) for world in (ours, theirs)]
        for world, decided in decisions:
            world.keep(decided.entries if decided else ())
        if any(decided for _, decided in decisions):
            self._compare()
        if isinstance(record, PoolSpec):
            self._spec(record, message)
            return
        last = self._sequence(record)
        ours.keep(ours.fold.fold(record, message))
        if isinstance(record, UsageReport) and self._sequence(record) != last:
            if self.models:
                self.found.used.add(record)
            record = self.gateways.report(record, message)
        theirs.keep(theirs.fold.fold(record, message))

    def _spec(self, spec: PoolSpec, message: Message) -> None:
        """A later spec is only in the record; whether it is rejected there too."""
        world = self.found.recorded
        before = world.pool.pending_spec
        world.keep(world.fold.fold(spec, message))
        self.found.passed_over += world.pool.pending_spec is not before

    def _compare(self) -> None:
        ours, theirs = self.found.recorded.latest, self.found.changed.latest
        if self.found.first_difference or (ours is None and theirs is None):
            return
        if ours is None or theirs is None or thinned(ours) != thinned(theirs):
            id_ = ours or theirs
            assert id_ is not None
            self.found.first_difference = id_.decision.id

    def _sequence(self, record: UsageRecord) -> int:
        """Of the gateway's last report that counted; what does not move it is a repeat."""
        gateways = self.found.recorded.pool.gateways
        known = isinstance(record, UsageReport) and record.gateway in gateways
        return gateways[record.gateway].sequence if known else 0  # type: ignore[union-attr]
