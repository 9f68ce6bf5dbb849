"""The first bytes of records: enough to pass over the kinds that are not looked for."""

from functools import cache

from tokenweir import wire


@cache
def heads_of(*kinds: type) -> frozenset[bytes]:
    """The heads of every version of these kinds' records; each is `wire.HEADER` bytes."""
    names = {kind.__name__ for kind in kinds}
    return frozenset(
        wire.MARKER + wire.schema_fingerprint(schema)
        for name, _, schema in wire.schemas()
        if name in names
    )


def has_head(value: bytes | None, *kinds: type) -> bool:
    """Whether a record's value begins as one of these kinds."""
    return value is not None and value[: wire.HEADER] in heads_of(*kinds)
