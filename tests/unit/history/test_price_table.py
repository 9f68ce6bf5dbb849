"""Price tables as files, and the published ones where they are."""

import gzip
import json
from decimal import Decimal
from pathlib import Path

import pytest

from tokenweir.errors import BadInput
from tokenweir.history.price_table import prices_of, read_prices
from tokenweir.history.prices import Attempt, Price, cost
from tokenweir.usage_shapes import Tokens

TABLES = Path(__file__).parents[4] / "shared" / "traces" / "prices"
LITELLM = TABLES / "litellm_model_prices_and_context_window_1.106.12.json.gz"
LANGFUSE = TABLES / "langfuse_default-model-prices.json"
published = pytest.mark.skipif(
    not TABLES.exists(), reason=f"the published price tables are not in {TABLES}"
)

TABLE = """{
  "sample_spec": {"input_cost_per_token": 0.0, "mode": "one of: chat, ..."},
  "m": {"input_cost_per_token": 1.25e-06, "cache_read_input_token_cost": "0.000000625",
        "output_cost_per_token": 1e-05, "mode": "chat"},
  "free": {"input_cost_per_token": 0, "output_cost_per_token": 0.0},
  "unknown": {"mode": "chat"}
}"""


def test_prices_are_read_exactly_and_what_is_left_out_is_not_known() -> None:
    assert prices_of(TABLE) == {
        "m": Price(
            input=Decimal("0.00000125"), cached=Decimal("0.000000625"), out=Decimal("0.00001")
        ),
        "free": Price(input=Decimal(0), out=Decimal(0)),
        "unknown": Price(),
    }


def test_a_table_may_be_packed(tmp_path: Path) -> None:
    plain, packed = tmp_path / "prices.json", tmp_path / "prices.json.gz"
    plain.write_text(TABLE)
    packed.write_bytes(gzip.compress(TABLE.encode()))
    assert read_prices(packed) == read_prices(plain) == prices_of(TABLE)


def test_the_noise_of_a_float_is_rounded_away_and_nothing_becomes_free_by_it() -> None:
    (price,) = prices_of('{"m": {"input_cost_per_token": 1.5000020000000002e-05}}').values()
    assert price.input == Decimal("0.000015000020000000")
    with pytest.raises(BadInput, match="allowed is 0, or from 1E-18 up"):
        prices_of('{"m": {"input_cost_per_token": 1e-19}}')


@pytest.mark.parametrize("wrong", ["-1e-6", "NaN", "Infinity", "true", '"free"', "[]", "1e25"])
def test_a_price_that_is_none_is_refused_with_its_model_and_field(wrong: str) -> None:
    with pytest.raises(BadInput, match="'m': output_cost_per_token is"):
        prices_of(f'{{"m": {{"output_cost_per_token": {wrong}}}}}')


@pytest.mark.parametrize("wrong", ["{", "[]", '{"m": 1}'])
def test_a_table_of_another_form_is_refused(wrong: str) -> None:
    with pytest.raises(BadInput, match=r"allowed|not JSON"):
        prices_of(wrong)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    cut = tmp_path / "cut.json.gz"
    cut.write_bytes(gzip.compress(TABLE.encode())[:-12])
    for path in (cut, tmp_path / "none.json"):
        with pytest.raises(BadInput, match=f"{path.name} cannot be read"):
            read_prices(path)


@published
def test_the_published_table_is_read_whole() -> None:
    prices = read_prices(LITELLM)
    assert len(prices) == 4_241  # all but the explanation
    inputs = [price.input for price in prices.values() if price.input]
    assert min(inputs) == Decimal("1.3e-10")
    assert prices["gpt-4o"].cached == Decimal("0.00000125")


@published
def test_chat_models_without_an_input_price_are_unknown_and_not_free() -> None:
    with gzip.open(LITELLM) as file:
        rows = json.load(file)
    prices = read_prices(LITELLM)
    chat = [model for model, row in rows.items() if row.get("mode") == "chat"]
    without = [model for model in chat if "input_cost_per_token" not in rows[model]]
    assert len(without) == 144
    asked = Tokens(uncached=1000, cached=0, cache_write=0, out=10)
    assert all(cost([Attempt(model, asked)], prices).price_missing for model in without)
    free = [model for model in chat if rows[model].get("input_cost_per_token") == 0]
    assert not any(prices[model].input is None for model in free)


@published
def test_two_published_tables_agree_on_most_models_that_both_have() -> None:
    rows = json.loads(LANGFUSE.read_text(), parse_float=Decimal)
    prices = read_prices(LITELLM)
    pairs = []
    for row in rows:
        tier = next(tier for tier in row["pricingTiers"] if tier["isDefault"])
        ours, theirs = prices.get(row["modelName"]), tier["prices"]
        if ours is not None and {"input", "output"} <= set(theirs):
            pairs.append((ours, theirs))
    same = sum(o.input == t["input"] and o.out == t["output"] for o, t in pairs)
    print(f"{same} of {len(pairs)} models have the same prices in both")
    assert same >= 0.9 * len(pairs)
