"""What a what-if says: in a table, in JSON and as a page."""

import asyncio
import json
from decimal import Decimal
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.enforced import enforced
from tests.pools import START
from tests.recordings import messages, recorded
from tokenweir.cli.commands import tokenweir
from tokenweir.cli.what_if.words import money, more
from tokenweir.errors import BadInput
from tokenweir.review.export import export
from tokenweir.review.span import Span
from tokenweir.spec import compile_spec, read_spec

POLICY = """\
pool: chat
capacity: {tokens_per_s: 10k/s}
alpha: 0.5
tenants:
  gold: {class: guaranteed, baseline: 6000}
  "<b>&": {class: spot}
"""
OFFERS = {"gold": 500, "<b>&": 9_000}


@pytest.fixture(scope="module")
def incident(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("incident")
    rules = compile_spec(read_spec(POLICY, "chat.yaml"), 1, 0, POLICY)
    made = recorded(messages(enforced(rules, lambda _: OFFERS, seconds=15)))
    asyncio.run(export(made, Span(), folder / "incident.avro", None))
    return folder / "incident.avro"


def run(incident: Path, policy: str, *arguments: str) -> Result:
    path = incident.parent / "changed.yaml"
    path.write_text(policy)
    given = ["what-if", "--file", str(incident), "--policy", str(path), *arguments]
    found = CliRunner().invoke(tokenweir, given, standalone_mode=False)
    if found.exception is not None:
        raise found.exception
    return found


def test_the_same_policy_has_an_empty_difference(incident: Path) -> None:
    found = json.loads(run(incident, f"# the same\n{POLICY}", "-o", "json").stdout)
    assert found["identical"]
    assert found["changes"] == found["gained"] == found["lost"] == []
    assert found["recorded"] == found["changed"]
    assert "No difference" in run(incident, POLICY).stdout


def test_a_larger_alpha_is_told_with_who_gains(incident: Path, tmp_path: Path) -> None:
    changed = POLICY.replace("alpha: 0.5", "alpha: 0.8")
    found = json.loads(run(incident, changed, "-o", "json").stdout)
    assert found["changes"] == [{"path": "alpha", "before": "0.5", "after": "0.8"}]
    assert (found["gained"], found["lost"]) == (["<b>&"], [])
    text = run(incident, changed, "--report", str(tmp_path / "if.html")).stdout
    assert "Would have lost: nobody." in text
    assert "Demand that was refused is offered again" in text
    page = (tmp_path / "if.html").read_text()
    assert "Demand that was refused is offered again" in page
    assert "&lt;b&gt;&amp;" in page
    assert "<b>&" not in page


def test_prices_make_a_cost(incident: Path, tmp_path: Path) -> None:
    (tmp_path / "prices.json").write_text('{"m1": {"output_cost_per_token": 0.01}}')
    changed = POLICY.replace("alpha: 0.5", "alpha: 0.8")
    given = ("--prices", str(tmp_path / "prices.json"), "-o", "json")
    tenants = json.loads(run(incident, changed, *given).stdout)["tenants"]
    # these reports have no requests: what they cost is 0, and more of nothing known is unknown
    assert {one["cost_recorded"] for one in tenants} == {"0"}


def test_another_pool_s_policy_is_refused(incident: Path) -> None:
    with pytest.raises(BadInput, match="the log is that of 'chat'"):
        run(incident, POLICY.replace("pool: chat", "pool: code"))


def test_a_range_is_counted_from_its_first_decision(incident: Path) -> None:
    found = json.loads(
        run(incident, POLICY, "--from", f"chat@{START + 5_000}", "-o", "json").stdout
    )
    assert found["recorded"]["from_ms"] == START + 5_000
    assert found["recorded"]["decisions"] == 10


def test_differences_have_signs() -> None:
    assert [more(1_500), more(-80), more(0)] == ["+1.5k", "−80", "as many"]
    assert [money(Decimal("0.5")), money(None)] == ["0.500000", "unknown"]
