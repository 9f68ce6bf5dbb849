"""One slot, and one wish for a slot."""

from collections import Counter
from typing import Any

from tokenweir.gateway.inheritance import Holder
from tokenweir.gateway.slot_states import SlotEvent, SlotState, after


class Slot:
    """One slot: `resource` is what was opened for it."""

    __slots__ = ("holder", "notice", "resource", "since_ms", "state", "used_ms", "version")

    def __init__(self, version: str, resource: Any, now_ms: int) -> None:
        self.version = version
        self.resource = resource
        self.state: SlotState = "idle"
        self.used_ms = now_ms
        self.since_ms = now_ms  # when it was taken
        self.holder: Holder | None = None
        self.notice = False  # somebody higher waits for it

    @property
    def own(self) -> int:
        """Its holder's own priority; 0: nobody has it."""
        return self.holder.own if self.holder is not None else 0

    def move(self, event: SlotEvent) -> None:
        """Something has happened to it; raises `SlotLost` where that cannot be."""
        self.state = after(self.state, event)


class Want:
    """Somebody who waits for a slot until `deadline_ms`; `slot` when it has one."""

    __slots__ = ("asked_ms", "deadline_ms", "holder", "number", "slot", "waits")

    def __init__(self, holder: Holder, deadline_ms: int) -> None:
        self.holder = holder
        self.deadline_ms = deadline_ms
        self.asked_ms = 0
        self.number = 0
        self.slot: Slot | None = None
        self.waits = False

    @property
    def rank(self) -> tuple[int, int]:
        """The lower goes first: by priority, then by asking."""
        return -self.holder.priority, self.number


def less(counts: Counter[int], key: int) -> None:
    """One less of this; none is not remembered."""
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
