"""One request on its way: degraded, admitted or refused, passed on, answered."""

from contextlib import AsyncExitStack, suppress
from dataclasses import replace

from tokenweir.adapters.asgi.body import Gone, with_body
from tokenweir.adapters.asgi.caller import Caller, Scope, Send, header
from tokenweir.adapters.asgi.line import Line
from tokenweir.adapters.asgi.meter import Meter
from tokenweir.adapters.asgi.replying import replied
from tokenweir.adapters.asgi.sending import send_answer
from tokenweir.adapters.asgi.setup import Setup
from tokenweir.adapters.openai.ask import OPERATIONS, Ask, rewritten
from tokenweir.adapters.openai.replies import problem
from tokenweir.gateway import Call, Refused
from tokenweir.gateway.answers import answer
from tokenweir.gateway.headers import Header, rate_limit
from tokenweir.gateway.ladder import Plan, plan
from tokenweir.gateway.standing import Standing

LONGEST_ID = 200
MOST_ATTEMPTS = 1000


class Exchange:
    """One request and its answer, whatever happens to it."""

    def __init__(
        self,
        setup: Setup,
        scope: Scope,
        line: Line,
        send: Send,
        ask: Ask,
        body: bytes,
        caller: Caller,
    ) -> None:
        self._setup = setup
        self._scope = scope
        self._line = line
        self._send = send
        self._ask = ask
        self._body = body
        self._caller = caller

    async def run(self, pool: str | None) -> None:
        """Serve it from `pool`; raises `Gone` when the client hangs up while it waits."""
        if pool is None:
            self._line.give(self._body)
            await self._setup.app(self._scope, self._line.receive, self._send)
            return
        planned = self._plan(pool, refused=False)
        if await self._replied(planned, pool):
            await self._note(planned, pool, "ladder")
            return
        if planned.answered:
            await self._note(planned, pool, "no_answer")
            refused: Refused | None = self._closed(pool)
        else:
            pool = self._setup.pool_of(planned.model) or pool
            refused = await self._forward(planned, pool)
        if refused is not None:
            await self._turn_away(refused, pool)

    async def _turn_away(self, refused: Refused, pool: str) -> None:
        """Do what the ladder has for the refused, or say why and when to come back."""
        planned = self._plan(pool, refused=True)
        if await self._replied(planned, pool):
            return
        if planned.spill is not None:
            spill = planned.spill
            actions = (*planned.actions, f"spill={spill.pool}")
            spilled = replace(planned, model=spill.model or planned.model, actions=actions)
            if await self._forward(spilled, spill.pool) is None:
                return
        found = answer(refused, self._standing(pool))
        await send_answer(self._send, found.status, found.content, found.headers)

    async def _forward(self, planned: Plan, pool: str) -> Refused | None:
        """Have it admitted and served; gives a refusal back."""
        call = self._call(planned, pool)
        async with AsyncExitStack() as stack:
            try:
                await self._enter(stack, call)
            except Refused as refused:
                return refused
            await self._pass(call, planned, pool)
        return None

    async def _enter(self, stack: AsyncExitStack, call: Call) -> None:
        self._line.waiting = call
        try:
            await stack.enter_async_context(call)
        except Refused as refused:
            if refused.reason == "abandoned":
                raise Gone from None
            raise
        finally:
            self._line.waiting = None

    async def _pass(self, call: Call, planned: Plan, pool: str) -> None:
        setup = self._setup
        call.actions = planned.actions
        body = rewritten(self._ask, planned) or self._body
        scope = {**with_body(self._scope, body), "tokenweir": call}
        meter = Meter(
            call,
            self._ask,
            self._line,
            self._send,
            lambda: self._headers(pool, planned.actions),
            setup.count,
            setup.unseen,
        )
        self._line.give(body)
        try:
            await setup.app(scope, self._line.receive, meter.send)
        except BaseException as error:
            meter.end(error)
            if call.stopped is not None and not meter.started:
                status = 504 if call.overdue else 429
                await send_answer(self._send, status, problem(str(call.stopped), "server_error"))
            raise
        meter.end()

    def _call(self, planned: Plan, pool: str, estimate: int | None = None) -> Call:
        ask, caller = self._ask, self._caller
        id = header(self._scope, b"x-client-request-id")[:LONGEST_ID]
        longest = planned.max_tokens
        return self._setup.gateway.request(
            tenant=caller.tenant,
            user=caller.user,
            pool=pool,
            estimate=estimate,
            input_tokens=ask.input_tokens,
            max_tokens=None if longest is None else longest * ask.choices,
            priority=caller.priority,
            model=planned.model,
            operation=OPERATIONS[ask.kind],
            provider_tier=planned.service_tier or ask.service_tier,
            flow="batch" if planned.service_tier else caller.flow,
            sequences=ask.choices,
            request_id=id or None,
            attempt=_attempt(self._scope) if id else 1,
            on_revoke=self._setup.on_revoke,
        )

    async def _note(self, planned: Plan, pool: str, reason: str) -> None:
        """Leave a row in the history for what the backend was not asked: it used nothing."""
        call = self._call(planned, pool, estimate=0)
        with suppress(Refused):  # then the refusal is its row
            async with call:
                call.settle(uncached=0, out=0, reason=reason)

    def _closed(self, pool: str) -> Refused:
        """The refusal of what the ladder keeps from the backend and nothing else answered."""
        standing = self._standing(pool)
        return Refused(
            pool=pool,
            tenant=self._caller.tenant,
            reason="class_refused",
            retry_after_s=standing.interval_ms / 1000,
            decision_id=standing.decision_id,
            needed=0,
            available=0,
        )

    def _plan(self, pool: str, *, refused: bool) -> Plan:
        ask = self._ask
        ladder = self._setup.ladder
        if not ladder:
            return Plan(ask.model, ask.max_tokens)
        return plan(ladder, self._standing(pool), ask.model, ask.max_tokens, refused)

    async def _replied(self, planned: Plan, pool: str) -> bool:
        """Answer without the backend, where one of the plan's replies can."""
        found = await replied(planned, self._setup.callbacks, self._ask, self._caller)
        if found is None:
            return False
        headers = self._headers(pool, (*planned.actions, found.action))
        await send_answer(self._send, 200, found.body, headers, found.content_type)
        return True

    def _headers(self, pool: str, actions: tuple[str, ...]) -> tuple[Header, ...]:
        headers = rate_limit(self._standing(pool))
        return (*headers, ("tokenweir-actions", ", ".join(actions))) if actions else headers

    def _standing(self, pool: str) -> Standing:
        return self._setup.gateway.standing(pool, self._caller.tenant, self._caller.user)


def _attempt(scope: Scope) -> int:
    """OpenAI's clients count their retries from 0."""
    text = header(scope, b"x-stainless-retry-count")
    return min(int(text), MOST_ATTEMPTS) + 1 if text.isascii() and text.isdigit() else 1
