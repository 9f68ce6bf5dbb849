"""What the middleware was given, checked whole."""

from collections.abc import Callable
from dataclasses import dataclass

from tokenweir.adapters.asgi.caller import App, Callbacks
from tokenweir.adapters.openai.ask import Count
from tokenweir.adapters.openai.reading import Unseen
from tokenweir.errors import BadInput
from tokenweir.gateway import Gateway, OnRevoke
from tokenweir.gateway.ladder import Asked, Cached, Ladder, Spilled


@dataclass(frozen=True, slots=True)
class Setup:
    """One for all requests."""

    app: App
    gateway: Gateway
    pool_of: Callable[[str], str | None]
    ladder: Ladder
    callbacks: Callbacks
    count: Count
    unseen: Unseen
    on_revoke: OnRevoke | None


def check(setup: Setup) -> None:
    """Raise `BadInput` for each callback and pool that the ladder names and nobody gives."""
    steps = [step for rung in setup.ladder for step in rung.steps]
    names = {step.callback for step in steps if isinstance(step, Asked)}
    names |= {"cache"} if any(isinstance(step, Cached) for step in steps) else set()
    pools = {step.pool for step in steps if isinstance(step, Spilled)}
    problems = [
        *(f"callbacks: {name!r} is missing" for name in sorted(names - set(setup.callbacks))),
        *(
            f"ladder: spill.pool is {pool!r}; this gateway serves {', '.join(setup.gateway.pools)}"
            for pool in sorted(pools - set(setup.gateway.pools))
        ),
    ]
    if problems:
        raise BadInput("\n".join(problems))
