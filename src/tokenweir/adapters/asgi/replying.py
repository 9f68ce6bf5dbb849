"""The answers that the ladder gives in the backend's place."""

import logging
import time
from dataclasses import dataclass
from secrets import token_hex

from tokenweir.adapters.asgi.caller import Callbacks, Caller
from tokenweir.adapters.openai.ask import Ask
from tokenweir.adapters.openai.replies import reply
from tokenweir.gateway.ladder import Asked, Canned, Plan, Reply

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Replied:
    """An answer that no model gave, and the action that it is."""

    action: str
    content_type: str
    body: bytes


async def replied(planned: Plan, callbacks: Callbacks, ask: Ask, caller: Caller) -> Replied | None:
    """The first of the plan's replies that has something to say; None: none has."""
    for step in planned.replies:
        text = await _text(step, callbacks, ask, caller)
        found = None if text is None else reply(ask, text, token_hex(12), int(time.time()))
        if found is not None:
            return Replied(_action(step), *found)
    return None


async def _text(step: Reply, callbacks: Callbacks, ask: Ask, caller: Caller) -> str | None:
    if isinstance(step, Canned):
        return step.text
    name = step.callback if isinstance(step, Asked) else "cache"
    try:
        return await callbacks[name](ask, caller)
    except Exception:  # somebody else's code: the ladder has more steps
        LOG.exception("callback %s failed: the ladder goes on without it", name)
        return None


def _action(step: Reply) -> str:
    match step:
        case Asked(callback):
            return f"ask={callback}"
        case Canned():
            return "canned"
        case _:
            return "cache"
