"""The middleware without a server and without Kafka, on the test's clock."""

import asyncio
from typing import Any, ClassVar, Literal

import pytest

from tests.unit.adapters.served import CHAT, Client, Pool, backend, body_of, start, streaming
from tests.unit.adapters.test_openai_usage import DONE, LAST, USAGE, chunk
from tests.unit.gateway.made import POOL, class_states
from tokenweir.adapters.asgi import Caller, Tokenweir
from tokenweir.adapters.asgi.caller import App, Receive, Scope, Send
from tokenweir.errors import BadInput
from tokenweir.gateway import Call, Overdue, Revoked
from tokenweir.gateway.ladder_file import read_ladder

HELLO = {"model": "m", "messages": [{"role": "user", "content": "Hello, you!!"}]}  # 3 tokens
ANSWER = {"choices": [{"message": {"content": "Hi, what is up?!"}}]}  # 4 tokens


@pytest.fixture
def pool() -> Pool:
    pool = Pool()
    pool.lease(("ded", 1000, 1000, 0))
    return pool


def door(of: Pool, app: App, **changes: Any) -> Tokenweir:
    given = {"pool": POOL, "identify": lambda scope: ("ded", "bo"), **changes}
    return Tokenweir(app, gateway=of.gateway, **given)


async def row_of(pool: Pool, app: App, body: Any = HELLO, **changes: Any) -> dict[str, Any]:
    """The one row that one request leaves."""
    await Client(door(pool, app, **changes), body).ask()
    (row,) = pool.rows()
    return row


def used(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["uncached"], row["cached"], row["out"], row["estimated"]


class TestAdmitted:
    async def test_an_answer_is_settled_by_its_own_usage_and_carries_what_is_left(
        self, pool: Pool
    ) -> None:
        seen: list[Any] = []
        app = backend({**ANSWER, "usage": USAGE}, seen=seen)
        client = Client(door(pool, app), {**HELLO, "max_tokens": 50})
        answer = await client.ask()
        assert answer.status == 200
        assert answer.json["choices"] == ANSWER["choices"]
        # 3 of the prompt and 50 of the longest answer are held while it runs.
        assert answer.headers["ratelimit"] == '"lease";r=947;t=1'
        assert answer.headers["x-ratelimit-limit-tokens"] == "1000"
        (row,) = pool.rows()
        assert used(row) == (40, 60, 7, False)
        assert (row["tenant"], row["user"], row["model"]) == ("ded", "bo", "m")
        assert (row["operation"], row["status"], row["error"]) == ("chat", "done", False)
        assert pool.gateway.stats(POOL).tenants["ded"].remaining == 1000 - 107
        (body, scope), *_ = seen
        assert body == {**HELLO, "max_tokens": 50}
        assert isinstance(scope["tokenweir"], Call)
        assert b"accept-encoding" not in dict(scope["headers"])

    async def test_zero_is_zero_and_missing_is_an_estimate(self, pool: Pool) -> None:
        """Field note 2: {0, 0, 0} charges 0; null leaves a marked estimate, never 0."""
        zero = {"prompt_tokens": 0, "completion_tokens": 0}
        assert used(await row_of(pool, backend({**ANSWER, "usage": zero}))) == (0, 0, 0, False)
        pool.gate().rows.clear()
        row = await row_of(pool, backend({**ANSWER, "usage": None}))
        assert used(row) == (3, 0, 4, True)
        assert row["reason"] == "no_usage"

    async def test_half_a_usage_is_completed_and_marked(self, pool: Pool) -> None:
        half = {"prompt_tokens": 45, "completion_tokens": None}
        assert used(await row_of(pool, backend({**ANSWER, "usage": half}))) == (45, 0, 4, True)

    @pytest.mark.parametrize("value", ["10", -5, 1.5e308, True])
    async def test_a_malformed_usage_is_an_estimate_with_a_reason(
        self, pool: Pool, value: Any
    ) -> None:
        usage = {"prompt_tokens": value, "completion_tokens": 1}
        row = await row_of(pool, backend({**ANSWER, "usage": usage}))
        assert used(row) == (3, 0, 4, True)
        assert row["reason"] == "bad_usage"

    async def test_an_answer_that_is_not_json_is_an_estimate(self, pool: Pool) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await start(send, 200, "text/plain")
            await send({"type": "http.response.body", "body": b"\xff", "more_body": False})

        row = await row_of(pool, app, {**HELLO, "max_tokens": 50})
        assert used(row) == (3, 0, 50, True)

    @pytest.mark.parametrize(
        ("status", "charged"), [(400, (0, 0, 0, False)), (503, (3, 0, 0, True))]
    )
    async def test_an_error_of_the_backend_is_marked_as_one(
        self, pool: Pool, status: int, charged: tuple[Any, ...]
    ) -> None:
        row = await row_of(pool, backend({"error": {}}, status))
        assert used(row) == charged
        assert (row["error"], row["reason"]) == (True, f"http_{status}")

    async def test_an_app_that_fails_leaves_an_estimate_and_an_error(self, pool: Pool) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            raise ValueError("broken")

        with pytest.raises(ValueError, match="broken"):
            await Client(door(pool, app), HELLO).ask()
        (row,) = pool.rows()
        assert used(row) == (3, 0, 0, True)
        assert (row["error"], row["reason"]) == (True, "ValueError")

    async def test_choices_are_sequences_and_multiply_the_longest_answer(self, pool: Pool) -> None:
        held: list[int] = []

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            held.append(pool.gateway.standing(POOL, "ded").budgets[0].remaining)
            await backend({**ANSWER, "usage": USAGE})(scope, receive, send)

        await row_of(pool, app, {**HELLO, "max_tokens": 50, "n": 3})
        assert held == [1000 - 3 - 150]

    async def test_a_clients_id_and_its_retries_are_kept(self, pool: Pool) -> None:
        headers = {"x_client_request_id": "r1", "x_stainless_retry_count": "2"}
        app = backend({**ANSWER, "usage": USAGE})
        await Client(door(pool, app), HELLO, **headers).ask()
        (row,) = pool.rows()
        assert (row["id"], row["attempt"]) == ("r1", 3)

    async def test_embeddings_are_metered_without_output(self, pool: Pool) -> None:
        app = backend({"data": [], "usage": {"prompt_tokens": 9, "total_tokens": 9}})
        await Client(door(pool, app), {"model": "e", "input": "abcd"}, "/v1/embeddings").ask()
        (row,) = pool.rows()
        assert used(row) == (9, 0, 0, False)

    async def test_a_request_that_runs_too_long_is_stopped_and_answered(self, pool: Pool) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await asyncio.Event().wait()

        client = Client(door(pool, app), HELLO)
        running = asyncio.create_task(client.ask())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        pool.clock.now_ms += 600_001
        pool.gateway._lanes[POOL].expire()
        with pytest.raises(Overdue):
            await running
        assert client.answer.status == 504
        (row,) = pool.rows()
        assert (row["status"], row["estimated"]) == ("expired", True)


class TestStreams:
    ASK: ClassVar = {**HELLO, "stream": True}

    async def test_a_stream_passes_as_it_comes_and_its_last_chunk_settles_it(
        self, pool: Pool
    ) -> None:
        app = streaming(chunk("He"), chunk("y"), LAST, DONE)
        client = Client(door(pool, app), self.ASK)
        answer = await client.ask()
        assert [part for part in answer.parts if part] == [chunk("He"), chunk("y"), DONE]
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["x-ratelimit-limit-tokens"] == "1000"
        (row,) = pool.rows()
        assert used(row) == (40, 60, 7, False)

    async def test_what_is_produced_is_reported_while_the_stream_runs(self, pool: Pool) -> None:
        reported: list[int] = []

        async def between(number: int, receive: Receive) -> bool:
            (cut,) = pool.gate().cut(pool.clock.now_ms)
            reported.append(sum(cut.report.totals.tokens_out))
            return True

        app = streaming(chunk("He"), chunk("y"), LAST, between=between)
        await Client(door(pool, app), self.ASK).ask()
        assert reported == [0, 1, 1]
        (row,) = pool.rows()
        assert used(row) == (40, 60, 7 - 2, False)  # the rest: rows are increments

    async def test_a_client_that_leaves_is_charged_what_was_produced(self, pool: Pool) -> None:
        """Field notes 1 and 4 (a): the prompt and the 10 tokens seen, marked; the hold is back."""

        async def between(number: int, receive: Receive) -> bool:
            if number < 10:
                return True
            client.leave()
            assert (await receive())["type"] == "http.disconnect"
            return False

        app = streaming(*[chunk("word")] * 20, LAST, between=between)
        client = Client(door(pool, app), {**self.ASK, "max_tokens": 400})
        await client.ask()
        (row,) = pool.rows()
        assert used(row) == (3, 0, 10, True)
        assert (row["status"], row["reason"], row["error"]) == ("cancelled", "disconnected", False)
        tenant = pool.gateway.stats(POOL).tenants["ded"]
        assert (tenant.remaining, tenant.in_flight) == (1000 - 13, 0)

    @pytest.mark.parametrize(("unseen", "prompt"), [("prompt", 3), ("nothing", 0)])
    async def test_a_stream_that_gave_nothing_is_charged_by_the_rule(
        self, pool: Pool, unseen: str, prompt: int
    ) -> None:
        """Field note 4 (b)."""

        async def between(number: int, receive: Receive) -> bool:
            client.leave()
            await receive()
            return False

        app = streaming(chunk("word"), between=between)
        client = Client(door(pool, app, unseen=unseen), {**self.ASK, "max_tokens": 400})
        await client.ask()
        (row,) = pool.rows()
        assert used(row) == (prompt, 0, 0, True)
        assert pool.gateway.stats(POOL).tenants["ded"].remaining == 1000 - prompt

    async def test_a_stream_without_usage_is_an_estimate_of_what_it_said(self, pool: Pool) -> None:
        row = await row_of(pool, streaming(chunk("x" * 40), DONE), self.ASK)
        assert used(row) == (3, 0, 10, True)

    async def test_a_stream_whose_app_is_cancelled_is_charged_what_was_produced(
        self, pool: Pool
    ) -> None:
        waits = asyncio.Event()

        async def between(number: int, receive: Receive) -> bool:
            if number == 2:
                waits.set()
                await asyncio.Event().wait()
            return True

        app = streaming(*[chunk("word")] * 3, between=between)
        running = asyncio.create_task(Client(door(pool, app), self.ASK).ask())
        await waits.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        (row,) = pool.rows()
        assert used(row) == (3, 0, 2, True)
        assert (row["status"], row["reason"]) == ("cancelled", "cancelled")


class TestRevoked:
    ASK: ClassVar = {**HELLO, "stream": True}

    async def test_a_stream_pauses_at_its_next_chunk_and_goes_on_by_itself(
        self, pool: Pool
    ) -> None:
        asked: list[str] = []

        def suspend(call: Call) -> Literal["suspend"]:
            asked.append(call.user)
            return "suspend"

        async def between(number: int, receive: Receive) -> bool:
            if number == 1:
                pool.revoke("ded", 500)
            return True

        app = streaming(chunk("He"), chunk("y"), LAST, between=between)
        client = Client(door(pool, app, on_revoke=suspend), self.ASK)
        running = asyncio.create_task(client.ask())
        for _ in range(10):
            await asyncio.sleep(0)
        assert (client.answer.parts, asked) == ([chunk("He")], ["bo"])
        assert pool.gateway.stats(POOL).tenants["ded"].suspended == 1
        pool.later(501)
        await running
        assert client.answer.parts[:2] == [chunk("He"), chunk("y")]
        assert [row["status"] for row in pool.rows()] == ["part", "done"]
        assert sum(row["out"] for row in pool.rows()) == 7

    async def test_a_client_that_leaves_a_paused_stream_ends_it(self, pool: Pool) -> None:
        async def between(number: int, receive: Receive) -> bool:
            if number == 1:
                pool.revoke("ded", 500)
            if number == 2:
                assert (await receive())["type"] == "http.disconnect"
            return number < 2

        app = streaming(*[chunk("word")] * 3, between=between)
        client = Client(door(pool, app, on_revoke=lambda call: "suspend"), self.ASK)
        running = asyncio.create_task(client.ask())
        for _ in range(10):
            await asyncio.sleep(0)
        client.leave()
        await running
        assert pool.rows()[-1]["reason"] == "disconnected"
        assert pool.gateway.stats(POOL).tenants["ded"].suspended == 0

    async def test_a_cancelled_request_is_answered_where_nothing_has_been_said(
        self, pool: Pool
    ) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            pool.revoke("ded", 500)
            await asyncio.Event().wait()

        client = Client(door(pool, app, on_revoke=lambda call: "cancel"), HELLO)
        with pytest.raises(Revoked):
            await asyncio.create_task(client.ask())
        assert client.answer.status == 429
        assert "revoked" in client.answer.json["error"]["message"]
        (row,) = pool.rows()
        assert (row["status"], row["reason"]) == ("cancelled", "revoked")


class TestRefused:
    async def test_who_has_spent_its_lease_gets_a_429_and_the_backend_is_not_asked(
        self, pool: Pool
    ) -> None:
        seen: list[Any] = []
        app = backend({**ANSWER, "usage": USAGE}, seen=seen)
        pool.lease(("ela", 1000, 1000, 0))
        ela = door(pool, app, identify=lambda scope: Caller("ela"))
        first = await Client(ela, {**HELLO, "max_tokens": 2500}).ask()
        assert first.status == 200
        held = pool.gateway.request(tenant="ela", pool=POOL, estimate=2500)
        await held.__aenter__()
        answer = await Client(ela, HELLO).ask()
        assert (answer.status, len(seen)) == (429, 1)
        assert answer.json["error"]["reason"] == "tokens"
        assert answer.headers["retry-after"] == "2"
        assert answer.headers["content-length"] == str(len(answer.body))
        assert answer.json["error"]["owed"] == 1607

    async def test_without_a_decision_it_is_503(self) -> None:
        answer = await Client(door(Pool(), backend(), identify=lambda s: ("x", "")), HELLO).ask()
        assert answer.status == 503
        assert answer.json["error"]["reason"] == "no_decision"

    async def test_a_client_that_leaves_while_it_waits_frees_its_place(self, pool: Pool) -> None:
        held = pool.gateway.request(tenant="ded", pool=POOL, estimate=5000)
        await held.__aenter__()
        seen: list[Any] = []
        client = Client(door(pool, backend(seen=seen)), HELLO)
        running = asyncio.create_task(client.ask())
        for _ in range(5):
            await asyncio.sleep(0)
        assert pool.gateway.stats(POOL).waiting == 1
        client.leave()
        answer = await running
        assert (answer.status, seen, pool.gateway.stats(POOL).waiting) == (0, [], 0)
        (row,) = pool.rows()
        assert (row["status"], row["reason"]) == ("refused", "abandoned")

    @pytest.mark.parametrize(
        ("body", "changes", "status"),
        [
            (b"{", {}, 400),
            ({**HELLO, "max_tokens": -1}, {}, 400),
            (HELLO, {"largest_body": 10}, 413),
            (HELLO, {"identify": lambda scope: None}, 401),
        ],
    )
    async def test_what_cannot_be_asked_is_answered_in_openais_form(
        self, pool: Pool, body: Any, changes: dict[str, Any], status: int
    ) -> None:
        answer = await Client(door(pool, backend(), **changes), body).ask()
        assert answer.status == status
        assert set(answer.json["error"]) == {"message", "type", "param", "code"}
        assert pool.rows() == []

    async def test_other_paths_and_other_models_pass_untouched(self, pool: Pool) -> None:
        app = door(pool, backend({"ok": 1}), pool=lambda model: None)
        for path in ("/v1/models", CHAT):
            answer = await Client(app, HELLO, path).ask()
            assert answer.json == {"ok": 1}
            assert answer.headers["x-ratelimit-limit-tokens"] == "1"
        assert pool.rows() == []

    async def test_who_calls_may_be_looked_up(self, pool: Pool) -> None:
        async def identify(scope: Scope) -> Caller:
            await asyncio.sleep(0)
            return Caller("ded", "jo", priority=3, flow="batch")

        row = await row_of(pool, backend({**ANSWER, "usage": USAGE}), identify=identify)
        assert (row["user"], row["priority"], row["flow"]) == ("jo", 3, "batch")


class TestLadder:
    LADDER = read_ladder(
        [
            {
                "from": "soft_degrade",
                "do": [{"model": {"m": "s"}}, {"max_tokens": 64}, {"batch": "flex"}],
            },
            {"from": "hard_degrade", "do": [{"cache": "first"}, {"ask": "knowledge"}]},
            {"from": "circuit_break", "do": [{"canned": "Busy."}]},
            {"when": "refused", "do": [{"ask": "ticket"}]},
        ]
    )

    def degraded(self, tier: str, **changes: Any) -> Pool:
        pool = Pool()
        pool.lease(("ded", 1000, 1000, 0), changes={"tier": tier, **changes})
        return pool

    def door(self, pool: Pool, app: App, **texts: str) -> Tokenweir:
        async def nothing(ask: Any, caller: Any) -> str | None:
            return None

        def says(text: str) -> Any:
            async def callback(ask: Any, caller: Any) -> str | None:
                return f"{text} for {caller.tenant}"

            return callback

        callbacks: dict[str, Any] = dict.fromkeys(("cache", "knowledge", "ticket"), nothing)
        callbacks |= {name: says(text) for name, text in texts.items()}
        return door(pool, app, ladder=self.LADDER, callbacks=callbacks)

    async def test_the_backend_gets_less_and_the_app_sees_what_was_done(self) -> None:
        pool, seen = self.degraded("soft_degrade"), list[Any]()
        app = self.door(pool, backend({**ANSWER, "usage": USAGE}, seen=seen))
        answer = await Client(app, {**HELLO, "max_tokens": 500}).ask()
        ((body, scope),) = seen
        assert body == {**HELLO, "model": "s", "max_tokens": 64, "service_tier": "flex"}
        assert scope["tokenweir"].actions == ("model=s", "max_tokens=64", "service_tier=flex")
        assert answer.headers["tokenweir-actions"] == "model=s, max_tokens=64, service_tier=flex"
        (row,) = pool.rows()
        assert (row["model"], row["flow"], row["provider_tier"]) == ("s", "batch", "flex")

    async def test_a_callbacks_answer_takes_the_backends_place_and_costs_nothing(self) -> None:
        pool, seen = self.degraded("hard_degrade"), list[Any]()
        app = self.door(pool, backend(seen=seen), knowledge="42")
        answer = await Client(app, HELLO).ask()
        assert answer.json["choices"][0]["message"]["content"] == "42 for ded"
        assert answer.json["model"] == "m"
        assert answer.headers["tokenweir-actions"].endswith("ask=knowledge")
        (row,) = pool.rows()
        assert used(row) == (0, 0, 0, False)
        assert (row["reason"], seen) == ("ladder", [])

    async def test_a_canned_answer_may_be_a_stream(self) -> None:
        pool = self.degraded("circuit_break")
        answer = await Client(self.door(pool, backend()), {**HELLO, "stream": True}).ask()
        assert answer.headers["content-type"] == "text/event-stream"
        assert b'"content": "Busy."' in answer.body
        assert answer.body.endswith(b"data: [DONE]\n\n")

    async def test_where_nothing_answers_it_is_refused(self) -> None:
        pool, seen = self.degraded("hard_degrade"), list[Any]()
        answer = await Client(self.door(pool, backend(seen=seen)), HELLO).ask()
        assert (answer.status, answer.json["error"]["reason"]) == (429, "class_refused")
        assert seen == []

    async def test_what_is_refused_may_end_in_a_ticket(self) -> None:
        classes = class_states(dedicated={"action": "refuse"})
        pool = self.degraded("normal", classes=classes)
        answer = await Client(self.door(pool, backend(), ticket="No. 7"), HELLO).ask()
        assert answer.status == 200
        assert answer.json["choices"][0]["message"]["content"] == "No. 7 for ded"
        (row,) = pool.rows()
        assert (row["status"], row["reason"]) == ("refused", "class_refused")

    async def test_a_callback_that_fails_is_passed_over(self, pool: Pool) -> None:
        async def broken(ask: Any, caller: Any) -> str | None:
            raise OSError("no route")

        ladder = read_ladder([{"do": [{"ask": "kb"}, {"canned": "Busy."}]}])
        app = door(pool, backend(), ladder=ladder, callbacks={"kb": broken})
        answer = await Client(app, HELLO).ask()
        assert answer.json["choices"][0]["message"]["content"] == "Busy."

    async def test_a_refused_request_spills_to_another_pool_and_is_metered_there(self) -> None:
        pool, seen = Pool(pools=(POOL, "payg")), list[Any]()
        spill = {"pool": "payg", "model": "p"}
        ladder = read_ladder([{"when": "refused", "do": [{"spill": spill}]}])
        app = door(pool, backend({**ANSWER, "usage": USAGE}, seen=seen), ladder=ladder)
        answer = await Client(app, HELLO).ask()
        # The other pool has no decision either: its refusal is not the one that is told.
        assert (answer.status, answer.json["error"]["pool"]) == (503, POOL)
        assert [row[9 - 1] for row in pool.gate("payg").rows] == ["refused"]

    def test_what_the_ladder_names_must_be_there(self, pool: Pool) -> None:
        ladder = read_ladder(
            [
                {"do": [{"ask": "kb"}, {"cache": "only"}]},
                {"when": "refused", "do": [{"spill": {"pool": "x"}}]},
            ]
        )
        with pytest.raises(BadInput) as caught:
            door(pool, backend(), ladder=ladder)
        assert str(caught.value).splitlines() == [
            "callbacks: 'cache' is missing",
            "callbacks: 'kb' is missing",
            "ladder: spill.pool is 'x'; this gateway serves chat",
        ]


async def test_the_request_reaches_the_app_whole_and_once(pool: Pool) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert await body_of(receive) == HELLO
        waiting = asyncio.ensure_future(receive())
        await asyncio.sleep(0)
        assert not waiting.done()
        waiting.cancel()
        await backend({**ANSWER, "usage": USAGE})(scope, receive, send)

    assert used(await row_of(pool, app)) == (40, 60, 7, False)
