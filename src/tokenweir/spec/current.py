"""Which of the specs in a pool's log is in force (T4)."""

from collections.abc import Iterable

from tokenweir.records.spec import PoolSpec


def current(specs: Iterable[PoolSpec], known: int | None = None) -> PoolSpec | None:
    """The last spec of one pool's log that is accepted; None when there is none.

    `specs` stand in the order of the log, perhaps without its beginning. `known` is a version
    that a decision names: what was accepted before it needs no proof. A spec is accepted when
    it replaces the current version by a higher one; others were rejected.
    """
    found: PoolSpec | None = None
    for spec in specs:
        if _accepted(spec, found, known):
            found = spec
    return found


def _accepted(spec: PoolSpec, found: PoolSpec | None, known: int | None) -> bool:
    if found is not None:
        return spec.replaces == found.version < spec.version
    if known is None:
        return True
    # The log's beginning is gone: only the known version, or what replaces it, is certain.
    return spec.version == known or spec.replaces == known
