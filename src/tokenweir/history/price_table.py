"""Reads a price table: JSON in the form of LiteLLM's `model_prices_and_context_window.json`.

For each model the fields in `FIELDS` are read, in money a token, as numbers or as text; each may be
left out. No other field is: prices of long prompts, of provider tiers and of audio are not applied.
"""

import gzip
import json
from collections.abc import Mapping
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

from tokenweir.errors import BadInput
from tokenweir.history.money import PLACES, money
from tokenweir.history.prices import Price

FIELDS = {
    "input": "input_cost_per_token",
    "cached": "cache_read_input_token_cost",
    "cache_write": "cache_creation_input_token_cost",
    "out": "output_cost_per_token",
}
_EXAMPLE = "sample_spec"  # LiteLLM's file explains itself under this name
_FINEST = Decimal(1).scaleb(-PLACES)
_WIDE = Context(prec=96)


def read_prices(path: Path) -> Mapping[str, Price]:
    """The table in a file, packed (`.gz`) or not; raises `BadInput` for what is wrong with it."""
    try:
        content = path.read_bytes()
        return prices_of(gzip.decompress(content) if path.suffix == ".gz" else content)
    except (OSError, EOFError) as error:
        raise BadInput(f"the price table {path} cannot be read: {error}") from error


def prices_of(text: str | bytes) -> Mapping[str, Price]:
    """The table in a JSON text, by model; raises `BadInput`."""
    try:
        table = json.loads(text, parse_float=Decimal, parse_constant=Decimal)
    except ValueError as error:
        raise BadInput(f"the price table is not JSON: {error}") from error
    if not isinstance(table, dict):
        raise BadInput("the price table is no object: {MODEL: {FIELD: PRICE}} is allowed")
    return {model: _price(model, row) for model, row in table.items() if model != _EXAMPLE}


def _price(model: str, row: Any) -> Price:
    if not isinstance(row, dict):
        raise BadInput(f"{model!r} is {row!r}: an object of prices is allowed")
    return Price(**{kind: _each(model, field, row.get(field)) for kind, field in FIELDS.items()})


def _each(model: str, field: str, value: Any) -> Decimal | None:
    """The price to `PLACES` places: what published tables have behind them is noise of floats."""
    if value is None:
        return None
    try:
        exact = Decimal(value) if type(value) in (str, int, Decimal) else None
        each = money(_WIDE.quantize(exact, _FINEST)) if exact is not None else None
    except (ArithmeticError, BadInput):
        exact = each = None
    if each is None or each < 0 or (each == 0 and exact != 0):
        raise BadInput(f"{model!r}: {field} is {value!r}: allowed is 0, or from {_FINEST} up")
    return each
