import re
from pathlib import Path

import pytest
import yaml

from tokenweir.errors import BadInput
from tokenweir.gateway.ladder import Asked, Cached, Canned, Plan, Spilled, plan
from tokenweir.gateway.ladder_file import read_ladder
from tokenweir.gateway.standing import Standing
from tokenweir.records.control import Tier
from tokenweir.records.spec import Action, ServiceClass

# The published scenario of a customer service: a lighter model, then answers from the knowledge
# base, then "busy" and a ticket; what dedicated tenants are refused goes to another provider.
LADDER = read_ladder(
    [
        {
            "from": "soft_degrade",
            "classes": ["elastic", "spot"],
            "do": [{"model": {"m-large": "m-small"}}, {"max_tokens": 512}],
        },
        {"from": "hard_degrade", "classes": ["spot"], "do": [{"max_tokens": 128}]},
        {
            "from": "hard_degrade",
            "classes": ["elastic"],
            "do": [{"cache": "first"}, {"ask": "knowledge_base"}],
        },
        {"when": "refused", "classes": ["elastic"], "do": [{"ask": "ticket"}, {"canned": "Busy."}]},
        {"when": "refused", "classes": ["dedicated"], "do": [{"spill": {"pool": "payg"}}]},
    ]
)


def stands(service_class: ServiceClass, tier: Tier | None, action: Action = "none") -> Standing:
    return Standing("chat", "t", service_class, tier, action, "chat@1", 1000, (), None, "")


def planned(
    service_class: ServiceClass, tier: Tier | None, max_tokens: int | None = 1000, **changes: bool
) -> Plan:
    return plan(LADDER, stands(service_class, tier), "m-large", max_tokens, **changes)


def test_nothing_is_done_while_all_is_normal_or_not_known() -> None:
    for tier in ("normal", None):
        assert planned("spot", tier) == Plan("m-large", 1000)


def test_the_model_and_the_answers_length_go_down_and_the_actions_say_so() -> None:
    assert planned("elastic", "soft_degrade") == Plan(
        "m-small", 512, actions=("model=m-small", "max_tokens=512")
    )


def test_a_ceiling_lengthens_nothing_and_limits_what_asked_for_none() -> None:
    assert planned("elastic", "soft_degrade", 100).max_tokens == 100
    assert planned("elastic", "soft_degrade", 100).actions == ("model=m-small",)
    assert planned("elastic", "soft_degrade", None).max_tokens == 512


def test_a_rung_holds_at_all_higher_tiers_and_the_lowest_ceiling_wins() -> None:
    assert planned("spot", "circuit_break").max_tokens == 128


def test_other_classes_and_other_models_are_left_alone() -> None:
    assert planned("dedicated", "circuit_break") == Plan("m-large", 1000)
    assert plan(LADDER, stands("spot", "soft_degrade"), "m-own", 1, False).model == "m-own"


def test_replies_come_in_their_order_and_take_the_backends_place() -> None:
    found = planned("elastic", "hard_degrade")
    assert found.replies == (Cached(False), Asked("knowledge_base"))
    assert found.answered


def test_cache_first_alone_still_asks_the_backend() -> None:
    for value, answered in (("first", False), ("only", True)):
        ladder = read_ladder([{"do": [{"cache": value}]}])
        assert plan(ladder, stands("spot", "normal"), "m", None).answered is answered


def test_what_was_refused_has_rungs_of_its_own() -> None:
    assert planned("elastic", "normal", refused=True).replies == (Asked("ticket"), Canned("Busy."))
    assert planned("dedicated", "normal", refused=True).spill == Spilled("payg")


def test_a_rung_may_follow_the_classs_action() -> None:
    ladder = read_ladder([{"action": "floor_only", "do": [{"max_tokens": 9}]}])
    for action, ceiling in (("none", None), ("limit", None), ("floor_only", 9), ("refuse", 9)):
        found = plan(ladder, stands("spot", "soft_degrade", action), "m", None)  # type: ignore[arg-type]
        assert found.max_tokens == ceiling


def test_the_batch_tier_is_an_action() -> None:
    ladder = read_ladder([{"do": [{"batch": "flex"}]}])
    found = plan(ladder, stands("spot", "normal"), "m", None)
    assert (found.service_tier, found.actions) == ("flex", ("service_tier=flex",))


def test_every_problem_is_told_with_its_place_and_what_is_allowed() -> None:
    with pytest.raises(BadInput) as caught:
        read_ladder(
            [
                {"from": "warm", "do": [{"max_tokens": 0}, {"smaller": 1}]},
                {"classes": ["vip"], "when": "refused", "do": [{"model": {"a": "b"}}]},
                {"on": "now", "do": "canned"},
                "rung",
            ]
        )
    assert str(caught.value).splitlines() == [
        "ladder[0].do[0].max_tokens is 0; allowed is a whole number above 0",
        "ladder[0].do[1] is {'smaller': 1}; allowed is one of model, max_tokens, batch, cache,"
        " ask, canned",
        "ladder[0].from is 'warm'; allowed are normal, soft_degrade, hard_degrade, circuit_break",
        "ladder[1].do[0] is {'model': {'a': 'b'}}; allowed is one of cache, ask, canned, spill",
        "ladder[1].classes is 'vip'; allowed are preemptible, spot, elastic, guaranteed, dedicated",
        "ladder[2].on: not known; allowed are from, action, classes, when, do",
        "ladder[2].do is 'canned'; allowed is a list",
        "ladder[3] is 'rung'; allowed is a mapping",
        "ladder[3].do is None; allowed is a list",
    ]


def test_the_ladders_on_the_page_and_in_the_example_are_good() -> None:
    root = Path(__file__).parents[3]
    page = (root / "docs" / "http.md").read_text(encoding="utf-8")
    found = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert found
    for text in (*found, (root / "examples" / "ladder.yaml").read_text(encoding="utf-8")):
        assert read_ladder(yaml.safe_load(text))
