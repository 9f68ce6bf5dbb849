"""The LiteLLM callback's own parts. LiteLLM itself runs in tests/broker."""

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.adapters.served import Pool
from tests.unit.gateway.made import POOL
from tokenweir.adapters.litellm_proxy import admission as admission_module
from tokenweir.adapters.litellm_proxy import hold as holding
from tokenweir.adapters.litellm_proxy.admission import Admission
from tokenweir.adapters.litellm_proxy.hold import Hold
from tokenweir.adapters.litellm_proxy.holds import NAME, Holds
from tokenweir.adapters.litellm_proxy.settings import Settings, Unseen, Who, caller, check
from tokenweir.adapters.litellm_proxy.usage import piece, tokens_of, usage_in
from tokenweir.errors import BadInput
from tokenweir.gateway import Refused, Revoked
from tokenweir.gateway.ladder import Asked, Canned, Cheaper, Rung, Shorter, Spilled
from tokenweir.usage_shapes import Tokens

USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 7,
    "prompt_tokens_details": {"cached_tokens": 40},
}
USED = (60, 40, 7)
SAID = "x" * 400  # 100 tokens, at 4 bytes each


class Model(SimpleNamespace):
    """An object as LiteLLM's are."""

    def model_dump(self) -> dict[str, Any]:
        return dict(self.__dict__)


def key(**fields: Any) -> SimpleNamespace:
    return SimpleNamespace(**{"team_id": None, "metadata": {}, **fields})


def chunk(text: str, **fields: Any) -> Model:
    return Model(choices=[Model(delta=Model(content=text))], **fields)


@pytest.mark.parametrize(
    ("who", "found", "expected"),
    [
        (Who(), key(team_id="red", user_id="bo"), ("red", "bo", 2)),
        (Who(), key(key_alias="ci", user_id="bo", end_user_id="al"), ("ci", "al", 2)),
        (Who(), key(), ("unknown", "", 2)),
        (Who(), key(team_id="red", metadata={"tokenweir_priority": 3}), ("red", "", 3)),
        (Who(), key(team_id="red", metadata={"tokenweir_priority": 9}), ("red", "", 2)),
        (Who(tenant=["team_metadata.cost_center"]), key(team_metadata={"cost_center": 7}), "7"),
        (Who(tenant=["team_metadata.cost_center"], nobody="rest"), key(team_metadata=None), "rest"),
    ],
)
def test_who_is_charged_is_what_the_key_says_first(
    who: Who, found: object, expected: tuple[str, str, int] | str
) -> None:
    told = caller(who, found)
    assert expected in (told.tenant, (told.tenant, told.user, told.priority))


def test_all_that_is_wrong_with_settings_is_told_at_once() -> None:
    rung = Rung((Asked("kb"),))
    wrong = Settings("", {}, who=Who(tenant="team_id"), ladder=(rung,), unseen="all", ready_s=-1)  # type: ignore[arg-type]  # that is the point
    with pytest.raises(BadInput) as caught:
        check(wrong)
    lines = str(caught.value).splitlines()
    assert [line.split()[0] for line in lines] == [
        "pools",
        "unseen",
        "ready_s",
        "who.tenant",
        "ladder:",
    ]


@pytest.mark.parametrize(
    ("said", "tokens"),
    [
        (USAGE, Tokens(60, 40, 0, 7)),
        (Model(**USAGE), Tokens(60, 40, 0, 7)),
        # LiteLLM's form of an Anthropic answer: read and written tokens lie inside.
        (
            {
                "prompt_tokens": 130_213,
                "completion_tokens": 9,
                "cache_read_input_tokens": 128_955,
                "cache_creation_input_tokens": 1_253,
            },
            Tokens(1_258, 128_955, 1_253, 9),
        ),
        # The same as /v1/messages answers it: they lie beside.
        (
            {
                "input_tokens": 5,
                "output_tokens": 9,
                "cache_read_input_tokens": 128_955,
                "cache_creation_input_tokens": 1_253,
            },
            Tokens(1_258, 128_955, 1_253, 9),
        ),
        (
            {"input_tokens": 9, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 4}},
            Tokens(5, 4, 0, 2),
        ),
        ({"prompt_tokens": 0, "completion_tokens": 0}, Tokens(0, 0, 0, 0)),
        (None, None),
        ({}, None),
    ],
)
def test_usage_means_the_same_in_each_of_litellms_shapes(
    said: object, tokens: Tokens | None
) -> None:
    assert tokens_of(said) == tokens


@pytest.mark.parametrize("value", [-5, "10", 1.5e308, float("nan"), True])
def test_a_figure_that_cannot_be_is_told(value: object) -> None:
    """Field note 6."""
    with pytest.raises(BadInput, match="prompt_tokens is"):
        tokens_of({"prompt_tokens": value, "completion_tokens": 1})


def test_pieces_of_a_stream_are_counted_in_each_of_its_forms() -> None:
    call = {"function": {"arguments": '{"a"'}}
    assert piece(chunk("héllo")) == (1, 6)
    assert piece(chunk("")) == (0, 0)
    assert piece({"choices": [{"delta": {"tool_calls": [call]}}, {"text": "b"}]}) == (2, 5)
    assert piece(Model(type="response.output_text.delta", delta="ab")) == (1, 2)
    assert piece(b'event: content_block_delta\ndata: {"type": "content_block_delta"}\n\n')[0] == 1
    assert piece({"choices": [{"message": {"content": "whole"}}]}) == (1, 5)
    assert usage_in(Model(response=Model(usage=USAGE))) == USAGE


def test_a_hold_is_found_by_a_name_that_no_client_can_give() -> None:
    holds = Holds()
    ours, theirs = _hold(Pool()), _hold(Pool())
    data: dict[str, Any] = {"litellm_call_id": "same", "metadata": {"team": "red", NAME: "mine"}}
    other: dict[str, Any] = {"litellm_call_id": "same", "litellm_metadata": {}, "metadata": {}}
    assert holds.find(data) is None
    holds.put(data, ours)
    holds.put(other, theirs)
    assert holds.find(data) is ours
    assert holds.find({"litellm_params": {"metadata": data["metadata"]}}) is ours
    assert holds.find({"litellm_params": {"litellm_metadata": other["litellm_metadata"]}}) is theirs
    assert data["metadata"]["team"] == "red"


def test_holds_that_have_ended_are_swept_out() -> None:
    holds = Holds()
    for _ in range(5_000):
        holds.put({}, Hold(SimpleNamespace(state="ended"), POOL, 0, "nothing"))  # type: ignore[arg-type]  # an end is all that matters
    assert len(holds._found) <= 1_000


def _hold(pool: Pool, unseen: Unseen = "nothing") -> Hold:
    pool.lease(("ela", 1_000, 1_000, 0))
    return Hold(
        pool.gateway.request(tenant="ela", pool=POOL, input_tokens=100, max_tokens=50),
        POOL,
        100,
        unseen,
    )


async def _admitted(pool: Pool, unseen: Unseen = "nothing") -> Hold:
    hold = _hold(pool, unseen)
    await hold.call.__aenter__()
    return hold


async def test_a_revoked_hold_rests_until_it_may_go_on() -> None:
    pool = Pool()
    hold = await _admitted(pool)
    hold.call.on_revoke = lambda call: "suspend"
    hold.saw(chunk("word"))
    pool.revoke("ela", 500)
    resting = asyncio.create_task(hold.resumed())
    await asyncio.sleep(0)
    assert (hold.call.suspended, resting.done(), hold.open) == (True, False, True)
    pool.later(501)
    await resting
    hold.answered(USAGE)
    assert [row["status"] for row in pool.rows()] == ["part", "done"]


async def test_a_hold_that_was_cancelled_breaks_its_stream_off() -> None:
    pool = Pool()
    entering = asyncio.create_task(_admitted(pool))  # as LiteLLM's hook, it ends before the call
    hold = await entering
    hold.call.on_revoke = lambda call: "cancel"
    pool.revoke("ela", 500)
    with pytest.raises(Revoked):
        await hold.resumed()
    (row,) = pool.rows()
    assert (row["status"], row["reason"]) == ("cancelled", "revoked")


async def test_litellms_gateway_asks_what_its_settings_say() -> None:
    admission = Admission(Settings("nowhere:1", {"*": POOL}, on_revoke=lambda call: "cancel"))
    gateway = admission_module._gateway(admission._settings)
    call = gateway.request(tenant="ela", pool=POOL, estimate=1)
    assert call.on_revoke is not None
    assert call.on_revoke(call) == "cancel"


End = Callable[[Hold], None]


def ends(*steps: End) -> End:
    def run(hold: Hold) -> None:
        for step in steps:
            step(hold)

    return run


SAW: End = lambda hold: hold.saw(chunk(SAID))  # noqa: E731 - a step among steps
LAST: End = lambda hold: hold.saw(chunk("", usage=USAGE))  # noqa: E731
OVER: End = lambda hold: hold.streamed(False)  # noqa: E731
COUNTED: End = lambda hold: hold.streamed(True)  # noqa: E731
GONE: End = lambda hold: hold.break_off("disconnected")  # noqa: E731
ZEROS = {"prompt_tokens": 0, "completion_tokens": 0}
WHOLE = {"choices": [{"message": {"content": SAID}}]}


def says(said: object) -> End:
    return lambda hold: hold.answered(said)


def fails(status: int | None, asked: bool = True, said: object = None) -> End:
    return lambda hold: hold.fail("Oops", status, asked, said)


@pytest.mark.parametrize(
    ("end", "used", "marks"),
    [
        # Whole: what the provider says.
        (says(USAGE), USED, "done"),
        (ends(SAW, LAST, OVER), USED, "done"),
        (ends(LAST, COUNTED), USED, "done estimated"),
        (Hold.cached, (0, 0, 0), "done"),
        # Field note 2: zero is not unknown.
        (says(ZEROS), (0, 0, 0), "done"),
        (says(None), (100, 0, 0), "done estimated"),
        (lambda hold: hold.unsaid(WHOLE), (100, 0, 100), "done estimated"),
        # Field notes 6 and 13: what cannot be is not charged; a total is not read.
        (says({**USAGE, "prompt_tokens": -1}), (100, 0, 0), "done estimated"),
        (says({**USAGE, "total_tokens": 9}), USED, "done"),
        # Field notes 1 and 4: broken off.
        (ends(SAW, GONE, says(USAGE)), USED, "cancelled estimated"),
        (ends(SAW, GONE), (100, 0, 100), "cancelled estimated"),
        (GONE, (0, 0, 0), "cancelled estimated"),
        (ends(LAST, GONE), USED, "cancelled"),
        (ends(SAW, OVER), (100, 0, 100), "done estimated"),
        # Failed.
        (fails(None, asked=False), (0, 0, 0), "cancelled"),
        (fails(400), (0, 0, 0), "done error"),
        (fails(500), (0, 0, 0), "done estimated error"),
        (ends(SAW, fails(500)), (100, 0, 100), "done estimated error"),
        (ends(SAW, fails(500, said=USAGE)), USED, "done estimated error"),
        # Twice: the first end counts (field note 19).
        (ends(says(USAGE), GONE, fails(500), says(None)), USED, "done"),
    ],
)
async def test_each_end_leaves_one_row(
    monkeypatch: pytest.MonkeyPatch, end: End, used: tuple[int, int, int], marks: str
) -> None:
    monkeypatch.setattr(holding, "GRACE_S", 0.01)
    pool = Pool()
    hold = await _admitted(pool)
    end(hold)
    (row,) = await _rows(pool)
    assert (row["uncached"], row["cached"], row["out"]) == used
    told = [row["status"], *(name for name in ("estimated", "error") if row[name])]
    assert " ".join(told) == marks
    assert pool.gate().holds == {}


async def test_a_prompt_is_charged_for_what_broke_off_unseen_where_that_is_the_rule(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(holding, "GRACE_S", 0.01)
    for end in (GONE, fails(500)):
        pool = Pool()
        hold = await _admitted(pool, "prompt")
        end(hold)
        (row,) = await _rows(pool)
        assert (row["uncached"], row["out"], row["estimated"]) == (100, 0, True)


async def _rows(pool: Pool) -> Sequence[dict[str, Any]]:
    for _ in range(500):
        if pool.rows():
            break
        await asyncio.sleep(0.01)
    return pool.rows()


def admission(pool: Pool, **fields: Any) -> Admission:
    return Admission(Settings("nowhere:1", {"*": POOL}, **fields), pool.gateway)


def data(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": SAID}], **fields}


async def test_a_request_holds_its_prompt_and_its_longest_answer() -> None:
    pool = Pool()
    pool.lease(("ela", 1_000, 1_000, 0))
    asked = data(max_tokens=50, litellm_call_id="c1", n=2)
    hold = await admission(pool).admit(key(team_id="ela"), asked, "acompletion")
    assert hold is not None
    assert (hold.call.held, hold.call.id, hold.call.sequences) == (200_000, "c1", 2)
    assert asked == data(max_tokens=50, litellm_call_id="c1", n=2)


async def test_what_has_no_pool_or_no_tokens_passes_unmetered() -> None:
    pool = Pool()
    only = Admission(Settings("nowhere:1", {"large": POOL}), pool.gateway)
    assert await only.admit(key(), data(), "acompletion") is None
    assert await only.admit(key(), data(model="large"), "image_generation") is None


async def test_a_refusal_and_a_request_that_cannot_be_leave_nothing_held() -> None:
    pool = Pool()
    pool.lease(("ela", 0, 0, 0))
    with pytest.raises(Refused):
        await admission(pool).admit(key(team_id="ela"), data(), "acompletion")
    with pytest.raises(BadInput, match="n is 0"):
        await admission(pool).admit(key(team_id="ela"), data(n=0), "acompletion")
    assert pool.gate().holds == {}


async def test_the_ladder_makes_a_request_cheaper_before_it_is_asked_for() -> None:
    pool = Pool()
    pool.lease(("ela", 1_000, 1_000, 0))
    ladder = (Rung((Cheaper({"m": "s"}), Shorter(10))),)
    asked = data(max_tokens=500)
    hold = await admission(pool, ladder=ladder).admit(key(team_id="ela"), asked, "acompletion")
    assert hold is not None
    assert (asked["model"], asked["max_tokens"]) == ("s", 10)
    assert (hold.call.model, hold.call.held) == ("s", 110_000)
    assert hold.call.actions == ("model=s", "max_tokens=10")


async def test_a_canned_answer_asks_no_model_and_leaves_a_row_of_zeros() -> None:
    pool = Pool()
    pool.lease(("ela", 1_000, 1_000, 0))
    ladder = (Rung((Canned("Come back tonight."),)),)
    asked = data()
    assert (
        await admission(pool, ladder=ladder).admit(key(team_id="ela"), asked, "acompletion") is None
    )
    assert asked["mock_response"] == "Come back tonight."
    (row,) = pool.rows()
    assert (row["uncached"], row["out"], row["reason"]) == (0, 0, "ladder")


async def test_the_refused_spill_to_another_pool_or_are_refused_by_their_own() -> None:
    pool = Pool(pools=(POOL, "payg"))
    pool.lease(("ela", 0, 0, 0))
    ladder = (Rung((Spilled("payg", "big"),), refused=True),)
    with pytest.raises(Refused) as caught:
        await admission(pool, ladder=ladder).admit(key(team_id="ela"), data(), "acompletion")
    assert caught.value.pool == POOL
    assert Settings("", {"*": POOL}, ladder=ladder).served == (POOL, "payg")
