"""Call something later, in virtual time."""

from collections.abc import Callable
from typing import Any

from simpy import Environment


def after(env: Environment, wait: float, call: Callable[[], Any]) -> None:
    """Call `call` in `wait` ms; who waits no time is called after all that happens now."""
    event = env.timeout(wait)
    assert event.callbacks is not None
    event.callbacks.append(lambda _: call())


class Alarm:
    """Calls once at the earliest of the moments that it was set to, and must be set again then."""

    __slots__ = ("_call", "_due", "_env")

    def __init__(self, env: Environment, call: Callable[[], None]) -> None:
        self._env = env
        self._call = call
        self._due: float | None = None

    def at(self, due: float) -> None:
        """Call at `due`, or now if that is past, unless an earlier call is set."""
        due = max(due, self._env.now)
        if self._due is None or due < self._due:
            self._due = due
            after(self._env, due - self._env.now, lambda: self._ring(due))

    def _ring(self, due: float) -> None:
        if due == self._due:  # else it was set before something nearer was
            self._due = None
            self._call()
