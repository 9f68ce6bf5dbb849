"""Two records, field by field: where they differ first."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from tokenweir.errors import BadRecord
from tokenweir.wire import decode

ABSENT = "(absent)"  # stands for an entry that only one side has
NAMES = ("tenant", "gateway")  # the column that says whose row it is


@dataclass(frozen=True, slots=True)
class Difference:
    """The first field in which a journal entry and its recomputation differ."""

    id: str
    path: str  # from the entry's body, e.g. tenants.grant[3] (acme)
    recorded: Any
    computed: Any


def first_difference(id_: str, recorded: Any, computed: Any) -> Difference | None:
    """The first field in which two records of one kind differ, or None."""
    for path, ours, theirs in _differences(recorded, computed, ""):
        return Difference(id_, path.removeprefix(".").removeprefix("body."), ours, theirs)
    return None


def rows_difference(
    id_: str, recorded: Mapping[str, bytes], computed: Mapping[str, bytes]
) -> Difference | None:
    """The first row in which two states of a pool differ, and where in it, or None."""
    for key in sorted(recorded.keys() | computed.keys()):
        ours, theirs = recorded.get(key), computed.get(key)
        if ours == theirs:
            continue
        found = _row_difference(id_, key, ours, theirs)
        if found is not None:
            return found
    return None


def _row_difference(
    id_: str, key: str, ours: bytes | None, theirs: bytes | None
) -> Difference | None:
    """None too for the same row in an older version of its schema."""
    if ours is None or theirs is None:
        left, right = (ABSENT if row is None else "a row" for row in (ours, theirs))
        return Difference(id_, f"rows[{key}]", left, right)
    try:
        found = first_difference(id_, decode(ours), decode(theirs))
    except BadRecord:
        return Difference(id_, f"rows[{key}]", ours.hex(), theirs.hex())
    return found and replace(found, path=f"rows[{key}].{found.path}")


def _differences(ours: Any, theirs: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if ours == theirs:
        return
    if is_dataclass(ours) and type(ours) is type(theirs):
        for field in fields(ours):
            mine, other = getattr(ours, field.name), getattr(theirs, field.name)
            for where, left, right in _differences(mine, other, ""):
                whose = _whose(ours, mine, where)
                yield f"{path}.{field.name}{where}{whose}", left, right
    elif isinstance(ours, bytes) and isinstance(theirs, bytes):
        yield _in_bytes(ours, theirs, path)
    elif _is_column(ours) and _is_column(theirs):
        yield from _in_columns(ours, theirs, path)
    else:
        yield path, ours, theirs


def _in_columns(
    ours: Sequence[Any], theirs: Sequence[Any], path: str
) -> Iterator[tuple[str, Any, Any]]:
    for place, (mine, other) in enumerate(zip(ours, theirs, strict=False)):
        if mine != other:
            yield from _differences(mine, other, f"{path}[{place}]")
    if len(ours) != len(theirs):
        place = min(len(ours), len(theirs))
        left, right = (side[place] if place < len(side) else ABSENT for side in (ours, theirs))
        yield f"{path}[{place}]", left, right


def _in_bytes(ours: bytes, theirs: bytes, path: str) -> tuple[str, Any, Any]:
    """Rows hold arrays as bytes: eight of them are a number."""
    for at in range(0, min(len(ours), len(theirs)), 8):
        mine, other = ours[at : at + 8], theirs[at : at + 8]
        if mine != other:
            left, right = (int.from_bytes(part, "little", signed=True) for part in (mine, other))
            return f"{path}[{at // 8}]", left, right
    return path, f"{len(ours)} bytes", f"{len(theirs)} bytes"


def _whose(record: Any, column: Any, where: str) -> str:
    """Whose row of a record in columns it is, in words."""
    names: Any = next((getattr(record, name) for name in NAMES if hasattr(record, name)), None)
    if not (_is_column(names) and _is_column(column) and where.startswith("[")):
        return ""
    place = int(where[1:].split("]")[0])
    return f" ({names[place]})" if place < len(names) else ""


def _is_column(value: Any) -> bool:
    return isinstance(value, (list, tuple))
