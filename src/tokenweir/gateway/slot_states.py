"""What can become of a slot: IDLE → BUSY → IDLE, or REVOKE on its way out (Priority pool article).

REVOKE is a slot that is taken back: its holder may finish, nobody gets it after.
"""

from collections.abc import Mapping
from typing import Literal

from tokenweir.errors import TokenweirError

SlotState = Literal["idle", "busy", "revoke", "gone"]
SlotEvent = Literal["take", "beat", "give_back", "revoke", "expire"]

TRANSITIONS: Mapping[tuple[SlotState, SlotEvent], SlotState] = {
    ("idle", "take"): "busy",
    ("idle", "revoke"): "gone",
    ("idle", "expire"): "gone",
    ("busy", "beat"): "busy",
    ("busy", "give_back"): "idle",
    ("busy", "revoke"): "revoke",
    ("busy", "expire"): "gone",
    ("revoke", "beat"): "revoke",
    ("revoke", "give_back"): "gone",
    ("revoke", "expire"): "gone",
}


class SlotLost(TokenweirError):
    """A slot is not its holder's any more: it was not renewed in time, or somebody higher has it.

    Stop using what it stands for, and take another slot.
    """


def after(state: SlotState, event: SlotEvent) -> SlotState:
    """The state after an event; raises `SlotLost` where the table has none."""
    following = TRANSITIONS.get((state, event))
    if following is None:
        raise SlotLost(f"a slot that is {state} cannot {event.replace('_', ' ')}")
    return following
