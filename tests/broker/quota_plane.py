"""What a control plane computes of a quota that gateways share (PROTOCOL Q1): pure.

A ceiling is the most that one gateway may have spent of one window. Ceilings only rise, at most
`ahead_ms` of demand ahead of what was reported, and add up to no more than the quota. What a
gateway was given stays given: where it falls silent, what it may still spend counts as spent. Only
one that has closed, and so has told all, gives back what it left.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Said:
    """What a gateway that reports has said of one tenant and window, in charged tokens.

    `wanted` is what it would spend in a second, refused requests included.
    """

    spent: int
    wanted: int


def raised(
    quota: int, given: Mapping[str, int], said: Mapping[str, Said], ahead_ms: int, starter: int
) -> dict[str, int]:
    """The ceilings of the gateways that report: who has run closest to its own gets most.

    `given` are the ceilings of all gateways so far, those included that are silent now. Everybody
    has at least `starter` ahead, so that a load that comes anew meets something.
    """
    free = quota - sum(given.values())
    lacks = {
        gateway: max(_target(its, ahead_ms, starter) - given.get(gateway, 0), 0)
        for gateway, its in said.items()
    }
    shares = _divided(max(free, 0), lacks)
    return {gateway: given.get(gateway, 0) + shares[gateway] for gateway in said}


def returned(given: Mapping[str, int], gateway: str, spent: int) -> dict[str, int]:
    """The ceilings when a gateway has closed: what it did not spend is free again."""
    rest = {name: ceiling for name, ceiling in given.items() if name != gateway}
    return {**rest, gateway: min(spent, given.get(gateway, 0))}


def _target(said: Said, ahead_ms: int, starter: int) -> int:
    return said.spent + max(said.wanted * ahead_ms // 1000, starter)


def _divided(free: int, lacks: Mapping[str, int]) -> dict[str, int]:
    """What each lacks, or shares of what is free in proportion to it, rounded down."""
    total = sum(lacks.values())
    if total <= free:
        return dict(lacks)
    return {gateway: free * lack // total for gateway, lack in lacks.items()}
