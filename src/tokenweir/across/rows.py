"""Windows of quotas across pools as rows of bytes, and back: for the tables.

A row holds the windows of the tenants whose names hash alike, so that a checkpoint writes little.
"""

import zlib
from collections.abc import Iterable, Mapping

from tokenweir.across.share import Across, Key, Part, Shared
from tokenweir.records.rows import SharedRow
from tokenweir.wire import decode_as, encode

BLOCKS = 64


def block_of(tenant: str) -> str:
    """The name of the row that holds a tenant's windows."""
    return f"{zlib.crc32(tenant.encode()) % BLOCKS:02}"


def to_rows(state: Across, blocks: Iterable[str]) -> dict[str, bytes]:
    """These rows, by name; the same state gives the same bytes."""
    found: dict[str, list[tuple[Key, Shared]]] = {name: [] for name in sorted(blocks)}
    for key in sorted(state.shared):
        name = block_of(key.tenant)
        if name in found:
            found[name].append((key, state.shared[key]))
    return {name: encode(_row(state.clock_ms, windows)) for name, windows in found.items()}


def from_rows(rows: Mapping[str, bytes]) -> Across:
    """The state that all rows hold; raises `BadRecord` if one is no row."""
    state = Across()
    for data in rows.values():
        row = decode_as(SharedRow, data)
        state.clock_ms = max(state.clock_ms, row.clock_ms)
        keys = map(Key, row.tenant, row.user, row.window_id)
        parts = map(Part, row.limit, row.spent, row.wanted, row.given, row.seen_ms)
        for key, starts_ms, ends_ms, pool, part in zip(
            keys, row.starts_ms, row.ends_ms, row.pool, parts, strict=True
        ):
            state.shared.setdefault(key, Shared(starts_ms, ends_ms)).parts[pool] = part
    return state


def _row(clock_ms: int, windows: list[tuple[Key, Shared]]) -> SharedRow:
    rows = [
        (key, shared, pool, shared.parts[pool])
        for key, shared in windows
        for pool in sorted(shared.parts)
    ]
    return SharedRow(
        clock_ms=clock_ms,
        tenant=[key.tenant for key, _, _, _ in rows],
        user=[key.user for key, _, _, _ in rows],
        window_id=[key.window_id for key, _, _, _ in rows],
        starts_ms=[shared.starts_ms for _, shared, _, _ in rows],
        ends_ms=[shared.ends_ms for _, shared, _, _ in rows],
        pool=[pool for _, _, pool, _ in rows],
        limit=[part.limit for _, _, _, part in rows],
        spent=[part.spent for _, _, _, part in rows],
        wanted=[part.wanted for _, _, _, part in rows],
        given=[part.given for _, _, _, part in rows],
        seen_ms=[part.seen_ms for _, _, _, part in rows],
    )
