"""Users' names replaced by numbers, in the same order, so that a log may leave the house.

Tenants, gateways and models keep their names, so a replay gives the same decisions. The ids of
requests become digests: the rows of one request still share theirs.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import fields, is_dataclass, replace
from hashlib import blake2b
from typing import Any

from tokenweir.errors import BadRecord
from tokenweir.records.journal import AuditEntry
from tokenweir.records.spec import PoolSpec
from tokenweir.records.usage import RequestsBlock, Totals
from tokenweir.wire import MARKER, decode, encode

Renaming = Callable[[str], str]
# What else may stand for users than a name: nobody, and all of them.
NOBODY = frozenset({"", "*"})
BLOCK_OTHERS = ("tenant", "model", "operation", "provider_tier", "reason")


def numbers(users: Collection[str]) -> dict[str, str]:
    """`u0001` and so on, in the order of the names: what sorts before another still does.

    So does what sorts before the `*` that stands for everybody: `!u0001`.
    """
    ordered = sorted(set(users) - NOBODY)
    width = max(4, len(str(len(ordered))))
    return {
        name: f"{'!' if name < '*' else ''}u{number:0{width}}"
        for number, name in enumerate(ordered, 1)
    }


def digest_of(secret: bytes) -> Renaming:
    """What replaces the ids of requests; nobody can try names against it without the secret."""
    return lambda id_: blake2b(id_.encode(), key=secret, digest_size=12).hexdigest()


def rename(value: bytes | None, user: Renaming, request: Renaming) -> bytes | None:
    """A record of the wire with other users and requests; None for what cannot be read.

    A message that cannot be read does not count, and one without a value neither.
    """
    try:
        return encode(renamed(decode(value), user, request))
    except BadRecord:
        return None


def renamed(record: Any, user: Renaming, request: Renaming) -> Any:
    """A record with other users and requests, whatever kind it is and whatever it contains."""
    match record:
        case Totals():
            return _in_columns(record, ("tenant",), user)
        case RequestsBlock():
            block = _in_columns(record, BLOCK_OTHERS, user)
            return replace(block, id=[request(id_) for id_ in block.id])
        case AuditEntry():
            return _audit(record, user)
        case PoolSpec():  # its text has the names too
            return replace(_fields(record, user, request), source="")
        case _:
            return _fields(record, user, request)


def _fields(record: Any, user: Renaming, request: Renaming) -> Any:
    changes = {}
    for field in fields(record):
        value = getattr(record, field.name)
        if field.name == "user":
            changes[field.name] = user(value) if isinstance(value, str) else [*map(user, value)]
        else:
            changes[field.name] = _inside(value, user, request)
    return replace(record, **changes)


def _inside(value: Any, user: Renaming, request: Renaming) -> Any:
    if is_dataclass(value):
        return renamed(value, user, request)
    if isinstance(value, bytes):
        return _encoded(value, user, request)
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], bytes):
        return [_encoded(item, user, request) for item in value]
    if isinstance(value, (list, tuple)) and value and is_dataclass(value[0]):
        return tuple(renamed(item, user, request) for item in value)
    return value


def _encoded(value: bytes, user: Renaming, request: Renaming) -> bytes:
    """A record inside a record, such as the requests of a report or a row of a snapshot."""
    if not value.startswith(MARKER):
        return value
    changed = rename(value, user, request)
    return value if changed is None else changed


def _in_columns(record: Any, others: Sequence[str], user: Renaming) -> Any:
    """Records with a string dictionary: a name may be a user's and another's at once."""
    names = list(record.names)
    kept = {place for column in others for place in getattr(record, column)}
    asked = kept | set(record.user)
    if asked and not 0 <= min(asked) <= max(asked) < len(names):
        return replace(record, names=[""] * len(names))  # the core refuses it either way
    moved: dict[int, int] = {}
    for place in sorted(set(record.user)):
        new = user(names[place])
        if place in kept:
            moved[place] = len(names)
            names.append(new)
        else:
            names[place] = new
    for unused in set(range(len(record.names))) - asked:
        names[unused] = ""
    return replace(record, names=names, user=[moved.get(old, old) for old in record.user])


def _audit(audit: AuditEntry, user: Renaming) -> AuditEntry:
    """An entry names a user as `tenant/user`."""

    def one(text: str) -> str:
        tenant, slash, name = text.partition("/")
        return f"{tenant}/{user(name)}" if slash else text

    return replace(
        audit,
        subject=one(audit.subject),
        lost=[one(text) for text in audit.lost],
        gained=[one(text) for text in audit.gained],
    )
