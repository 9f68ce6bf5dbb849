"""What a tenant would have spent at a gateway under other leases: a small model, and what it takes.

A report says what a tenant spent (S), what it was refused (R) and what waits (Q), in charged
tokens. S + R + Q is what it offered; the model offers the same to other leases.

The recorded leases and the changed ones each fill a bucket of their own, as the gateway's. Each
allows of the offer what its bucket holds: A under the recorded leases, A' under the changed.

    A' < A:  S' = S · A' / A
    A' ≥ A:  S' = S + A' − A, and no more than was offered

So the record stays the measure: what the model does not know (sequences, KV bytes, estimates,
priorities) cancels out, and with the same leases S' = S, whatever the model thinks of them.

Of the rest, as much waits as waited in the record. What was spent in the record and is not let in
waits too, as long as its class may (late), and is offered again with the next report. All else is
refused. What was served earlier than in the record is not offered again (ahead).
"""

from dataclasses import dataclass, field

# A bucket owes no more than flows in meanwhile: who spends more, and on and on, is not limited by
# the lease that the model sees.
MOST_OWED_S = 10


@dataclass(frozen=True, slots=True)
class Asked:
    """What one report says of one tenant, charged tokens."""

    spent: int
    refused: int
    queued: int


@dataclass(frozen=True, slots=True)
class Limit:
    """A lease's rate, milli-tokens/s, and its burst, milli-tokens."""

    rate: int
    burst: int


@dataclass(slots=True)
class Account:
    """One tenant at one gateway.

    When it is first heard of its buckets are full, or empty if it was refused.
    """

    recorded: int | None = None  # level of the bucket, milli-tokens; below 0 is owed
    changed: int | None = None  # the same under the changed leases
    ahead: int = 0  # tokens that wait in the record, and were served already
    late: list[tuple[int, int]] = field(default_factory=list)  # since when, ms, and tokens
    at_ms: int = 0

    @property
    def is_even(self) -> bool:
        """Whether it stands as in the record."""
        return self.recorded == self.changed and not self.ahead and not self.late

    @property
    def waiting(self) -> int:
        """Tokens that wait and did not in the record."""
        return sum(tokens for _, tokens in self.late)


def answered(
    account: Account,
    asked: Asked,
    ms: int,
    recorded: Limit | None,
    changed: Limit | None,
    wait_ms: int = 0,
) -> Asked:
    """What the report would have said; `account` goes on by `ms`. A limit of None is no limit.

    `wait_ms` is how long the tenant's requests may wait.
    """
    if recorded == changed and account.is_even:  # what follows would come to the same
        level = _held(account.recorded, asked, ms, recorded)
        account.recorded = account.changed = _paid(level, asked.spent, recorded)
        account.at_ms += ms
        return asked
    before = _held(account.recorded, asked, ms, recorded)
    after = _held(account.changed, asked, ms, changed)
    expired = _expired(account, ms, wait_ms)
    wanted = asked.spent + asked.refused + asked.queued
    offered = max(wanted - account.ahead, 0) + account.waiting
    spent = _spent(
        asked.spent, offered, _allowed(wanted, before, recorded), _allowed(offered, after, changed)
    )
    queued = min(offered - spent, asked.queued)
    # Who waits late goes before who was refused in the record.
    left = max(offered - spent - queued - asked.refused, 0)
    late = _late(account, asked.spent - spent, left, wait_ms)
    account.recorded = _paid(before, asked.spent, recorded)
    account.changed = _paid(after, spent, changed)
    account.ahead = asked.queued - queued
    return Asked(spent, offered - spent - queued - late + expired, queued + late)


def _expired(account: Account, ms: int, wait_ms: int) -> int:
    """What has waited too long is refused; so much it is."""
    account.at_ms += ms
    if not account.late:
        return 0
    before = account.waiting
    account.late = [
        (since_ms, tokens)
        for since_ms, tokens in account.late
        if account.at_ms - since_ms < wait_ms
    ]
    return before - account.waiting


def _late(account: Account, new: int, left: int, wait_ms: int) -> int:
    """What waits on of `left`: what was not let in just now, and of what waited the youngest."""
    new = max(new, 0) if wait_ms > 0 else 0
    if not new and not account.late:
        return 0
    found = []
    for since_ms, tokens in [(account.at_ms, new), *reversed(account.late)]:
        kept = min(tokens, left)
        left -= kept
        found += [(since_ms, kept)] if kept else []
    account.late = found[::-1]
    return account.waiting


def _spent(spent: int, offered: int, before: int, after: int) -> int:
    if after < before:
        return min(spent * after // before, offered)
    return min(spent + after - before, offered)


def _allowed(wanted: int, level: int, limit: Limit | None) -> int:
    return wanted if limit is None else min(wanted, max(level, 0) // 1000)


def _held(level: int | None, asked: Asked, ms: int, limit: Limit | None) -> int:
    """What is there and what flows in until the report: whoever asks does so all the while."""
    if limit is None:
        return 0
    if level is None:
        level = 0 if asked.refused else limit.burst
    return level + limit.rate * ms // 1000


def _paid(level: int, spent: int, limit: Limit | None) -> int:
    if limit is None:
        return 0
    return min(max(level - spent * 1000, -limit.rate * MOST_OWED_S), limit.burst)
