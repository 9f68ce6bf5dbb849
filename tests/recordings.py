"""Recorded runs: a log folded by the live partition, with the journal and letters that it wrote."""

import random
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agents.control import CORE
from streams.partition import Partition, Place, Restored, Unfoldable
from tests.pools import START, report, spec, tenant
from tokenweir.core.step import UsageRecord
from tokenweir.records.journal import DeadLetter
from tokenweir.records.spec import Quota, UserTerms
from tokenweir.records.usage import CapacityReport, RequestsBlock, UsageReport
from tokenweir.review.log import Bounds, Entry, Letter
from tokenweir.spec.zones import zone_of
from tokenweir.topics import Topics, partition_of, pool_key
from tokenweir.usage_log import Message
from tokenweir.wire import decode_as, encode

TOPICS = Topics("made-")
PARTITIONS = 4
ZONES = (zone_of("UTC"),)


def minute(tokens: int) -> Quota:
    """So many tokens a minute."""
    return Quota("minute", "UTC", tokens, 0, False, False)


# Tokens a report: calm; borrowers alone; owners who come back; more than the pool has.
WAVES = (
    {"gold": 900, "iron": 900, "tin": 300, "zinc": 100},
    {"gold": 80, "iron": 2_000, "tin": 2_400, "zinc": 0},
    {"gold": 2_400, "iron": 2_000, "tin": 1_600, "zinc": 500},
    {"gold": 9_000, "iron": 8_000, "tin": 9_000, "zinc": 2_000},
)
ANN = UserTerms("ann", 1_000_000, [minute(800)])


@dataclass(slots=True)
class Recording:
    """One pool's log in memory; `cut` is its first offset that is still kept."""

    pool: str
    log: list[Message]
    entries: list[Entry]
    dead: dict[int, Letter] = field(default_factory=dict)
    cut: int = 0
    partitions: int = PARTITIONS

    @property
    def partition(self) -> int:
        return partition_of(self.pool, self.partitions)

    async def bounds(self) -> Bounds:
        end = self.log[-1].offset + 1 if self.log else self.cut
        return Bounds(self.cut, end, self.cut == 0)

    async def messages(self, start: int) -> AsyncGenerator[Message, None]:
        for message in self.log:
            if message.offset >= start and message.key == pool_key(self.pool):
                yield message

    async def time_at(self, offset: int) -> int | None:
        return next((m.append_ms for m in self.log if m.offset >= offset), None)

    async def journal_start(self) -> int:
        return self.entries[0].position if self.entries else 0

    async def journal(self, position: int) -> AsyncGenerator[Entry, None]:
        for entry in self.entries:
            if entry.position >= position:
                yield entry

    async def journal_before(self, time_ms: int | None) -> AsyncGenerator[Sequence[Entry], None]:
        for start in range(len(self.entries) // 7 * 7, -1, -7):
            yield self.entries[start : start + 7]

    async def letters(self) -> Mapping[int, Letter]:
        return self.dead


def recorded(messages: Iterable[Message], pool: str = "chat") -> Recording:
    """What the live partition writes for these messages; the core's failures are letters."""
    log, unfoldable = list(messages), dict[int, str]()
    while True:
        try:
            return _recorded(log, pool, unfoldable)
        except Unfoldable as error:
            unfoldable[error.offset] = error.reason


def _recorded(log: list[Message], pool: str, unfoldable: dict[int, str]) -> Recording:
    place = Place(TOPICS, partition_of(pool, PARTITIONS), PARTITIONS)
    partition = Partition(CORE, place, Restored(), unfoldable)
    journal, dead = list[Entry](), dict[int, Letter]()
    for message in log:
        for out in partition.take(message):
            if out.topic == TOPICS.journal and out.key == pool_key(pool) and out.value:
                journal.append(Entry(len(journal), out.value))
            elif out.topic == TOPICS.dead_letter:
                letter = decode_as(DeadLetter, out.value)
                dead[letter.offset] = Letter(letter.offset, letter.timestamp_ms, letter.reason)
    return Recording(pool, log, journal, dead)


def messages(
    records: Iterable[tuple[int, UsageRecord | bytes]], pool: str = "chat"
) -> Iterator[Message]:
    """Messages of a pool, with offsets that leave holes for other pools'."""
    for place, (at_ms, record) in enumerate(records):
        value = record if isinstance(record, bytes) else encode(record)
        yield Message(place * 2, at_ms, pool_key(pool), value)


def run(seed: int, count: int = 220) -> Iterator[tuple[int, UsageRecord | bytes]]:
    """Three gateways through waves, lost capacities, new specs, quotas and what cannot be used."""
    dice = random.Random(seed)
    names = ("ann", "eve", "max")
    claims = [
        tenant("gold", "guaranteed", 4_000),
        tenant("iron", "elastic", 2_000, user_quotas=[minute(3_000)], users=[ANN]),
        tenant("tin", "spot", quotas=[minute(9_000)]),
        tenant("zinc", "dedicated", 1_000),
    ]
    yield START - 400, spec(*claims, zones=ZONES)
    at_ms, sequences, version = START, dict.fromkeys("abc", 0), 1
    for place in range(count):
        at_ms += dice.choice((120, 160, 310, 480, 700)) if dice.random() < 0.98 else 20_000
        chance = dice.random()
        if chance < 0.01:
            yield at_ms, CapacityReport("chat", "x", dice.choice((4, 8, 12)) * 10**6, None, None)
        elif chance < 0.02:
            replaces = version if dice.random() < 0.7 else 0
            some = [replace(claim, suspended=dice.random() < 0.1) for claim in claims]
            yield at_ms, spec(*some, zones=ZONES, version=version + 1, replaces=replaces)
            version += replaces > 0
        elif chance < 0.03:
            yield at_ms, b"\xc3\x01" + bytes(20)
        elif chance < 0.04:
            yield at_ms, report("a", 1, {"gold": -(10**15)})
        else:
            gateway = dice.choice("abc")
            sequences[gateway] += 1
            lately = max(START, (at_ms - 1_500) // 1_000 * 1_000)
            phase = WAVES[place // 30 % len(WAVES)]
            used = {name: dice.choice((0, most // 8, most)) for name, most in phase.items()}
            short = {name: dice.choice((0, most // 2)) for name, most in phase.items()}
            applied = lately if dice.random() < 0.5 else 0
            one = report(gateway, sequences[gateway], used, refused=short, applied=applied)
            yield at_ms, with_users(one, dice, names)


def with_users(one: UsageReport, dice: random.Random, names: Sequence[str]) -> UsageReport:
    """The report with a user for each row, and a block of its requests."""
    tenants = one.totals.names
    users = [dice.choice(names) for _ in tenants]
    known = [*tenants, *names]
    totals = replace(one.totals, names=known, user=[known.index(user) for user in users])
    return replace(one, totals=totals, requests=encode(block(tenants, users, one.sequence)))


def block(tenants: Sequence[str], users: Sequence[str], number: int) -> RequestsBlock:
    """One request a row."""
    names = ["", *tenants, "m1", *users]
    rows = len(tenants)
    return RequestsBlock(
        names=names,
        id=[f"req-{number}-{row}" for row in range(rows)],
        attempt=[1] * rows,
        tenant=list(range(1, rows + 1)),
        user=list(range(rows + 2, 2 * rows + 2)),
        model=[rows + 1] * rows,
        operation=[],
        provider_tier=[],
        reason=[],
        status=["done"] * rows,
        flow=["online"] * rows,
        priority=[2] * rows,
        tokens_uncached=[],
        tokens_cache_write=[],
        tokens_cached=[],
        tokens_out=[5] * rows,
        refused_tokens=[],
        estimated=[False] * rows,
        error=[False] * rows,
        kv_bytes=[],
        wait_ms=[],
        duration_ms=[],
        age_ms=[],
        decision=[],
    )
