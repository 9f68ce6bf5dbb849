"""The degrade ladder before a request is asked for: another model, a shorter answer, batch."""

from collections.abc import Mapping
from dataclasses import dataclass

from tokenweir.adapters.openai.ask import Ask
from tokenweir.errors import BadInput
from tokenweir.gateway import Gateway
from tokenweir.gateway.ladder import Batched, Cheaper, Ladder, Plan, Shorter, plan

DOES = (Cheaper, Shorter, Batched)


@dataclass(frozen=True, slots=True)
class Degrade:
    """Plans requests by who asks: the header fields that name the tenant and the user.

    Raises `BadInput` for a ladder with steps that answer, or that follow a refusal: Envoy's
    protocols leave no room for them.
    """

    gateway: Gateway
    pool: str
    ladder: Ladder
    tenant: str = "x-tenant"
    user: str = "x-user"

    def __post_init__(self) -> None:
        steps = [step for rung in self.ladder for step in rung.steps]
        if any(rung.refused for rung in self.ladder) or not all(isinstance(s, DOES) for s in steps):
            raise BadInput(
                "ladder has steps that answer, or that follow a refusal; "
                "beside an Envoy allowed are model, max_tokens and batch, when: asked"
            )

    def plan(self, headers: Mapping[str, str], ask: Ask) -> Plan:
        """What is done to a request with these header fields."""
        tenant, user = headers.get(self.tenant, ""), headers.get(self.user, "")
        standing = self.gateway.standing(self.pool, tenant, user)
        return plan(self.ladder, standing, ask.model, ask.max_tokens)
