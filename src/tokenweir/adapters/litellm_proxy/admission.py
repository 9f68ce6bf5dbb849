"""Between LiteLLM's requests and the gateway: what is asked for, by whom, from which pool."""

from collections.abc import MutableMapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tokenweir.adapters.litellm_proxy.asking import apply, canned, read
from tokenweir.adapters.litellm_proxy.hold import Hold
from tokenweir.adapters.litellm_proxy.settings import Caller, Settings, caller
from tokenweir.adapters.openai.ask import OPERATIONS, Ask
from tokenweir.errors import BadInput
from tokenweir.gateway import Call, Gateway, Refused
from tokenweir.gateway.answers import Answer, answer
from tokenweir.gateway.headers import rate_limit
from tokenweir.gateway.ladder import Plan, plan

MOST_WORKERS = 256


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: what it asks for, from which pool, by whom, under which id."""

    ask: Ask
    pool: str
    who: Caller
    id: str


class Admission:
    """One gateway, and how LiteLLM's requests come to it. Without one given, `start` makes it."""

    def __init__(self, settings: Settings, gateway: Gateway | None = None) -> None:
        self._settings = settings
        self._gateway = gateway

    @property
    def gateway(self) -> Gateway:
        """The gateway, once it is there."""
        assert self._gateway is not None
        return self._gateway

    async def start(self) -> None:
        """Start the gateway, and give it a moment to hear of a first decision."""
        gateway = self._gateway = self._gateway or _gateway(self._settings)
        await gateway.start()
        await gateway.ready(self._settings.ready_s)

    async def stop(self) -> None:
        """End what is open as estimates, and send what is left."""
        if self._gateway is not None:
            await self._gateway.stop()

    async def admit(
        self, key: object, data: MutableMapping[str, Any], call_type: str
    ) -> Hold | None:
        """Admit a request, and change its data as the ladder has it; None: it is not metered.

        Raises `Refused`, and `BadInput` for a request that cannot be.
        """
        ask = read(call_type, data)
        pool = self._settings.pool_of(ask.model) if ask is not None else None
        if ask is None or pool is None:
            return None
        who = caller(self._settings.who, key)
        asked = Asked(ask, pool, who, str(data.get("litellm_call_id") or ""))
        planned = self._plan(asked, refused=False)
        if canned(planned) is not None:
            await self._note(asked, planned)
            apply(planned, ask, data)
            return None
        try:
            return await self._enter(asked, planned, data)
        except Refused as refused:
            return await self._turn(refused, asked, data)

    def answer(self, refused: Refused, key: object) -> Answer:
        """What a refused request is answered."""
        user = caller(self._settings.who, key).user
        return answer(refused, self.gateway.standing(refused.pool, refused.tenant, user))

    def headers(self, hold: Hold) -> dict[str, str]:
        """The header fields of the answer to an admitted request."""
        call = hold.call
        found = dict(rate_limit(self.gateway.standing(hold.pool, call.tenant, call.user)))
        if call.actions:
            found["tokenweir-actions"] = ", ".join(call.actions)
        return found

    async def _turn(
        self, refused: Refused, asked: Asked, data: MutableMapping[str, Any]
    ) -> Hold | None:
        """What the ladder has for the refused: a text, or another pool; else the refusal."""
        planned = self._plan(asked, refused=True)
        spill = planned.spill
        if canned(planned) is not None:
            apply(planned, asked.ask, data)
            return None
        if spill is None:
            raise refused
        actions = (*planned.actions, f"spill={spill.pool}")
        spilled = replace(planned, model=spill.model or planned.model, actions=actions)
        try:
            return await self._enter(replace(asked, pool=spill.pool), spilled, data)
        except Refused:
            raise refused from None

    async def _enter(self, asked: Asked, planned: Plan, data: MutableMapping[str, Any]) -> Hold:
        call = self._call(asked, planned)
        await call.__aenter__()  # its end is told by other hooks, in other tasks
        call.actions = planned.actions
        apply(planned, asked.ask, data)
        return Hold(call, asked.pool, asked.ask.input_tokens, self._settings.unseen)

    async def _note(self, asked: Asked, planned: Plan) -> None:
        """Leave a row in the history for what no model was asked: it used nothing."""
        call = self._call(asked, planned, estimate=0)
        with suppress(Refused):  # then the refusal is its row
            async with call:
                call.settle(uncached=0, out=0, reason="ladder")

    def _call(self, asked: Asked, planned: Plan, estimate: int | None = None) -> Call:
        ask, who, longest = asked.ask, asked.who, planned.max_tokens
        return self.gateway.request(
            tenant=who.tenant,
            user=who.user,
            pool=asked.pool,
            estimate=estimate,
            input_tokens=ask.input_tokens,
            max_tokens=None if longest is None else longest * ask.choices,
            priority=who.priority,
            model=planned.model,
            operation=OPERATIONS[ask.kind],
            provider_tier=planned.service_tier or ask.service_tier,
            flow="batch" if planned.service_tier else "online",
            sequences=ask.choices,
            request_id=asked.id or None,
        )

    def _plan(self, asked: Asked, *, refused: bool) -> Plan:
        ask, ladder = asked.ask, self._settings.ladder
        if not ladder:
            return Plan(ask.model, ask.max_tokens)
        standing = self.gateway.standing(asked.pool, asked.who.tenant, asked.who.user)
        return plan(ladder, standing, ask.model, ask.max_tokens, refused)


def _gateway(settings: Settings) -> Gateway:
    """The gateway of this worker, with a spool folder that no other worker has open."""
    if settings.spool_path is None:
        return _in(settings, None)
    for number in range(MOST_WORKERS):
        with suppress(BadInput):
            return _in(settings, settings.spool_path / str(number))
    raise BadInput(f"spool_path is {settings.spool_path}; no folder in it can be used")


def _in(settings: Settings, folder: Path | None) -> Gateway:
    return Gateway(
        brokers=settings.brokers,
        name=settings.name,
        pools=settings.served,
        prefix=settings.prefix,
        spool_path=folder,
        on_revoke=settings.on_revoke,
    )
