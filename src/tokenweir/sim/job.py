"""One request of a simulation from its birth to its end. Times are ms of virtual time."""

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenweir.sim.engine import Engine
    from tokenweir.sim.gateways import Edge, SimRequest

NEVER = -1.0
Outcome = Literal["open", "done", "refused", "answered", "ended"]


class Job:
    """A request as its user sees it: retries of a refused one are the same job.

    `born` is when the user asked first, `sent` when the backend got it, `first` its first token.
    """

    __slots__ = (
        "asked",
        "attempts",
        "born",
        "charge",
        "done",
        "edge",
        "ended",
        "engine",
        "finish",
        "first",
        "left",
        "number",
        "outcome",
        "output",
        "produced",
        "prompt",
        "request",
        "sent",
        "tenant",
        "tier",
        "workload",
    )

    def __init__(
        self,
        number: int,
        tenant: str,
        workload: str,
        born: float,
        prompt: int,
        output: int,
        done: "Callable[[Job, float], None]",
    ) -> None:
        self.number = number
        self.tenant = tenant
        self.workload = workload
        self.born = born
        self.asked = (prompt, output)  # tokens, before a tier makes it less
        self.prompt = prompt
        self.output = output
        self.done = done  # told once, when it has ended; and how long to wait before the next
        self.attempts = 0
        self.sent = self.first = self.ended = NEVER
        self.outcome: Outcome = "open"
        self.tier = "normal"
        self.charge = 0.0  # charged tokens that it used
        # At the GPU: where it runs, prompt tokens to go, and the pass after which it is through.
        self.engine: Engine | None = None
        self.left = 0.0
        self.produced = 0.0
        self.finish = 0.0
        # At a gateway.
        self.edge: Edge | None = None
        self.request: SimRequest | None = None
