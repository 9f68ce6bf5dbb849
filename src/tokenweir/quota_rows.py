"""The quotas of a pool as rows of bytes, and back.

Only accounts that hold something, and those of users met, are written: all others are as the spec
opens them. Their windows are those of the pool's newest boundary.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import numpy as np

from tokenweir.core.quota.accounts import CYCLES, Key
from tokenweir.core.quota.quotas import COLUMNS, FIGURES, Quotas, new_quotas, open_for, share_of
from tokenweir.core.terms import Bools, Ints, Terms
from tokenweir.records.rows import QuotaRow
from tokenweir.records.spec import Cycle, PoolSpec
from tokenweir.wire import decode_as, encode

BLOCK = 256


def quota_rows(pool: str, quotas: Quotas) -> Iterator[tuple[str, bytes]]:
    """The rows of a pool's quotas; none where none were ever used."""
    places = _held(quotas)
    count = len(places) or (1 if quotas.shares else 0)
    for start in range(0, count, BLOCK):
        yield row_key(pool, start // BLOCK), encode(_row(quotas, places[start : start + BLOCK]))


def row_key(pool: str, block: int) -> str:
    """Gateways' ids contain no slash, so none has the key of such a row."""
    return f"pools/{pool}/quota/{block:05}"


def restore_quotas(
    pool: str, rows: Mapping[str, bytes], spec: PoolSpec | None, terms: Terms, boundary_ms: int
) -> Quotas:
    """The quotas whose rows these are, among others; raises `BadRecord` if one is no row.

    Raises `KeyError` for an account that the spec cannot have.
    """
    quotas = new_quotas(spec, terms, boundary_ms)
    prefix = f"pools/{pool}/quota/"
    found = [decode_as(QuotaRow, rows[key]) for key in sorted(rows) if key.startswith(prefix)]
    for row in found:
        users = zip(row.tenant, row.user, strict=True)
        open_for(quotas, [(terms.index[tenant], user) for tenant, user in users])
    index = {key: place for place, key in enumerate(quotas.accounts.keys)}
    for row in found:
        _restore(quotas, index, row)
    return quotas


def _held(quotas: Quotas) -> list[int]:
    accounts = quotas.accounts
    used: Bools = np.asarray(quotas.columns.any(axis=0))
    used[accounts.named :] = True
    for share in quotas.shares.values():
        used |= share.figures.any(axis=0)
    return sorted(np.flatnonzero(used).tolist(), key=lambda place: _order(accounts.keys[place]))


def _order(key: Key) -> tuple[str, str, int]:
    return key[0], key[1], CYCLES.index(key[2])


def _row(quotas: Quotas, places: list[int]) -> QuotaRow:
    keys = [quotas.accounts.keys[place] for place in places]
    names = sorted(quotas.shares)
    shares = [quotas.shares[name].figures[:, places] for name in names]
    return QuotaRow(
        tenant=[tenant for tenant, _, _ in keys],
        user=[user for _, user, _ in keys],
        cycle=[cycle for _, _, cycle in keys],
        columns=COLUMNS,
        values=_bytes(quotas.columns[:, places]),
        gateway=names,
        told_ms=[quotas.shares[name].told_ms for name in names],
        figures=FIGURES,
        shares=b"".join(_bytes(share) for share in shares),
    )


def _restore(quotas: Quotas, index: Mapping[Key, int], row: QuotaRow) -> None:
    keys = zip(row.tenant, row.user, cast(Sequence[Cycle], row.cycle), strict=True)
    places = [index[key] for key in keys]
    shape = (len(row.gateway), row.figures, len(places))
    shares = np.frombuffer(row.shares, dtype="<i8").reshape(shape)
    values = np.frombuffer(row.values, dtype="<i8").reshape(row.columns, len(places))
    quotas.columns[: row.columns, places] = values
    for name, told_ms, figures in zip(row.gateway, row.told_ms, shares, strict=True):
        share = share_of(quotas, name)
        share.told_ms = told_ms
        share.figures[: row.figures, places] = figures


def _bytes(array: Ints) -> bytes:
    return np.ascontiguousarray(array, dtype="<i8").tobytes()
