"""The partition of the spend topic: ceilings out, rows that a crash leaves whole."""

from collections.abc import Mapping

import pytest

from agents.control import CORE
from streams.checkpoint import Marker, checksum, write
from streams.partition import Outgoing, Partition, Place, Restored
from streams.quota_log import SpendLog
from streams.quota_partition import SHARED, QuotaPartition
from tests.pools import START, report, spec, tenant
from tests.property.test_across import spend
from tokenweir.across.share import Across
from tokenweir.records.spec import Quota
from tokenweir.records.usage import PoolSpend, QuotaCeiling
from tokenweir.spec.zones import zone_of
from tokenweir.topics import Topics, partition_of
from tokenweir.usage_log import Message
from tokenweir.wire import decode, encode

PLACE = Place(Topics("t-"), partition_of("acme", 4), 4)


class Store:
    """Rows in memory, as the tables have them."""

    def __init__(self) -> None:
        self.rows: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self.rows.get(key)

    def put(self, key: str, row: bytes) -> None:
        self.rows[key] = row

    def delete(self, key: str) -> None:
        del self.rows[key]

    async def settle(self) -> None:
        pass


class NoLog:
    """A log with so many messages, of which nobody reads one."""

    def __init__(self, end: int) -> None:
        self.end = end

    async def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        return 0, self.end


def message(offset: int, record: PoolSpend | bytes, gap_ms: int = 0) -> Message:
    value = record if isinstance(record, bytes) else encode(record)
    return Message(offset, START + gap_ms, b"acme", value)


def partition(sums: Mapping[str, str] | None = None) -> QuotaPartition:
    return QuotaPartition(PLACE, Across(), 0, sums or {}, {})


def test_a_ceiling_goes_into_the_pools_own_partition_of_the_usage_topic() -> None:
    [out] = partition().take(message(0, spend("chat", 0, 5_000)))
    assert (out.topic, out.key) == ("t-tokenweir.usage.v1", b"chat")
    assert out.partition == partition_of("chat", 4)
    ceiling = decode(out.value)
    assert isinstance(ceiling, QuotaCeiling)
    assert (ceiling.pool, ceiling.tenant, ceiling.tokens) == ("chat", "acme", 5_000)


def test_what_cannot_be_used_is_a_dead_letter() -> None:
    state = partition()
    for offset, bad in enumerate((b"noise", encode(spend("chat", 0, 10**16)))):
        [out] = state.take(message(offset, bad))
        assert out.topic == "t-tokenweir.dead-letter.v1"
    assert state.next_offset == 2


async def saved(state: QuotaPartition, store: Store) -> Marker:
    rows = state.changed_rows()
    marker = state.marker(rows)
    await write(store, rows, state.rows_before(), marker)
    state.checkpointed(marker)
    return marker


@pytest.mark.parametrize("damaged", [False, True])
async def test_what_a_checkpoint_wrote_is_found_again(damaged: bool) -> None:
    store, state = Store(), partition()
    for offset, pool in enumerate(("chat", "code", "chat")):
        state.take(message(offset, spend(pool, 0, 5_000), 6_000 * offset))
        if state.is_checkpoint_due():
            marker = await saved(state, store)
    if damaged:
        key = next(iter(marker.pools[SHARED]))
        store.rows[key] = store.rows[key][:-1] + b"x"
    again, _ = await SpendLog(PLACE.topics, 4).load(PLACE.partition, store, NoLog(3), {})  # type: ignore[arg-type]
    assert again.next_offset == (0 if damaged else 3)
    assert again.state == (Across() if damaged else state.state)


async def test_a_crash_in_the_middle_of_a_checkpoint_leaves_the_one_before() -> None:
    store, state = Store(), partition()
    state.take(message(0, spend("chat", 0, 5_000)))
    await saved(state, store)
    before = {**store.rows}
    state.take(message(1, spend("chat", 0, 9_000), 6_000))
    for key, row in state.changed_rows().items():
        store.put(key, row)  # and then the worker dies: no marker
    assert all(store.rows[key] == row for key, row in before.items())
    again, _ = await SpendLog(PLACE.topics, 4).load(PLACE.partition, store, NoLog(2), {})  # type: ignore[arg-type]
    assert again.next_offset == 1
    assert {checksum(row) for row in before.values()} >= {*again.sums.values()}


def test_a_pool_tells_the_tenants_partition_what_it_could_use() -> None:
    """The other end: what the control worker publishes with its decisions."""
    quota = Quota("day", "UTC", 100_000, 0, False, across=True)
    rules = spec(tenant("acme", "elastic", 1_000, quotas=[quota]), zones=(zone_of("UTC"),))
    home = partition_of("chat", 4)
    state = Partition(CORE, Place(Topics("t-"), home, 4), Restored(), {})
    out: list[Outgoing] = []
    records = [rules, *(report("g", n, refused={"acme": 500}) for n in range(1, 5))]
    for offset, record in enumerate(records):
        value, at_ms = encode(record), START + 700 * offset
        out += state.take(Message(offset, at_ms, b"chat", value))
    told = [each for each in out if each.topic == "t-tokenweir.spend.v1"]
    assert {(each.key, each.partition) for each in told} == {(b"acme", partition_of("acme", 4))}
    said = decode(told[-1].value)
    assert isinstance(said, PoolSpend)
    assert (said.pool, said.tenant, said.window_id) == ("chat", "acme", "day/2027-01-15")
    assert (said.limit, said.spent, said.ceiling) == (100_000, 0, 0)
    assert said.wanted >= 500
