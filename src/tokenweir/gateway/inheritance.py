"""Priority inheritance: who holds what somebody higher waits for works with that one's priority.

It passes on along chains (a holder of A that waits for B lends its priority to B's holders), and
ends when the slot is given back or nobody higher waits.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

MOST_STEPS = 1_000  # of passing on; a deadlock of holders ends there, and by its deadlines


class Contended(Protocol):
    """Something that holders hold and others wait for."""

    def pressure(self) -> int:
        """The highest priority that waits for it; 0 when nobody has to."""

    def holders(self) -> Iterable["Holder"]:
        """Who holds some of it."""

    def reorder(self, holder: "Holder") -> None:
        """A holder that waits for it has another priority."""


class Holder:
    """Somebody who takes slots; `priority` is the own one or what it inherits, if higher."""

    __slots__ = ("followers", "holds", "own", "priority", "waits")

    def __init__(self, own: int) -> None:
        self.own = self.priority = own
        self.holds: list[Contended] = []
        self.waits: Contended | None = None
        self.followers: list[Callable[[int], None]] = []  # told when the priority changes

    def inherited(self) -> int:
        """The priority that it should have."""
        return max(self.own, *(thing.pressure() for thing in self.holds), 0)


def pass_on(changed: Contended) -> None:
    """Who waits for `changed` has changed: give its holders, and theirs, their priorities."""
    things = [changed]
    for _ in range(MOST_STEPS):
        if not things:
            return
        for holder in tuple(things.pop().holders()):
            things += _inherit(holder)


def _inherit(holder: Holder) -> Iterable[Contended]:
    priority = holder.inherited()
    if priority == holder.priority:
        return ()
    holder.priority = priority
    for follower in holder.followers:
        follower(priority)
    if holder.waits is None:
        return ()
    holder.waits.reorder(holder)
    return (holder.waits,)
