"""What requests cost, by figures that can be checked by hand."""

from decimal import Decimal

import pytest

from tokenweir.history.prices import Attempt, Price, cost
from tokenweir.usage_shapes import Tokens, anthropic_tokens, openai_tokens

MILLIONTH = Decimal("0.000001")


def per_million(
    input: str | None = None, cached: str | None = None, out: str | None = None
) -> Price:
    def each(text: str | None) -> Decimal | None:
        return None if text is None else Decimal(text) * MILLIONTH

    return Price(input=each(input), cached=each(cached), out=each(out))


PRICES = {
    "m": per_million("1.25", "0.625", "10"),
    "dear": per_million("3", "0.3", "15"),
    "uncached": per_million("1.25", None, "10"),
    "free": per_million("0", "0", "0"),
    "half": per_million(None, None, "10"),
}


def tokens(uncached: int = 0, cached: int = 0, out: int = 0, cache_write: int = 0) -> Tokens:
    return Tokens(uncached=uncached, cached=cached, cache_write=cache_write, out=out)


def test_cached_tokens_are_priced_once() -> None:
    """Field note 10: 5 005 x 1.25 + 257 955 x 0.625 + 1 744 x 10, per million."""
    usage = {
        "prompt_tokens": 262_960,
        "prompt_tokens_details": {"cached_tokens": 257_955},
        "completion_tokens": 1_744,
    }
    found = cost([Attempt("m", openai_tokens(usage))], PRICES)
    assert found.amount == Decimal("0.184918125")
    assert not found.fallbacks


def test_input_that_is_said_with_or_without_its_cache_costs_the_same() -> None:
    """Field note 11."""
    inside = {
        "prompt_tokens": 130_213,
        "prompt_tokens_details": {"cached_tokens": 128_955, "cache_write_tokens": 1_253},
    }
    beside = {
        "input_tokens": 5,
        "cache_read_input_tokens": 128_955,
        "cache_creation_input_tokens": 1_253,
    }
    one = cost([Attempt("m", openai_tokens(inside))], PRICES)
    assert one == cost([Attempt("m", anthropic_tokens(beside))], PRICES)
    # (5 + 1 253) x 1.25 + 128 955 x 0.625, per million; the written ones by the fallback
    assert one.amount == Decimal("0.082169375")
    assert one.fallbacks == {"cache_write"}


def test_a_kind_without_a_price_costs_what_input_costs_and_is_named() -> None:
    """Field note 12: 117 231 x 1.25 per million, not 1 647 x 1.25."""
    found = cost([Attempt("uncached", tokens(1_647, cached=115_584))], PRICES)
    assert found.amount == Decimal("0.14653875")
    assert found.fallbacks == {"cached"}
    assert not found.price_missing


def test_a_kind_that_was_not_used_needs_no_price() -> None:
    assert cost([Attempt("uncached", tokens(8, out=1))], PRICES).fallbacks == frozenset()
    assert cost([Attempt("half", tokens(out=100))], PRICES).amount == Decimal("0.001")


def test_each_attempt_costs_its_own_models_price() -> None:
    """Field note 16: 560 186 x 0.625 + 299 x 10, and 1 000 x 3 + 200 x 15, per million."""
    attempts = [
        Attempt("m", tokens(cached=560_186, out=299)),
        Attempt("dear", tokens(1_000, out=200)),
    ]
    assert cost(attempts, PRICES).amount == Decimal("0.35910625")


def test_an_attempt_without_output_costs_its_input_and_one_that_used_nothing_is_free() -> None:
    """Field note 16."""
    failed = [Attempt("m", tokens(1_000)), Attempt("unheard of", tokens())]
    assert cost(failed, PRICES).amount == Decimal("0.00125")


@pytest.mark.parametrize("model", ["hosted/qwen-x", "half"])
def test_a_missing_price_makes_the_cost_unknown_and_never_free(model: str) -> None:
    """Field note 17."""
    for attempts in ([Attempt(model, tokens(10, out=1))], [Attempt(model, tokens(cached=10))]):
        found = cost(attempts, PRICES)
        assert found.amount is None
        assert found.price_missing


def test_one_attempt_without_a_price_makes_the_whole_request_unknown() -> None:
    attempts = [Attempt("m", tokens(10)), Attempt("hosted/qwen-x", tokens(10))]
    assert cost(attempts, PRICES).price_missing


def test_a_price_of_0_is_free() -> None:
    """Field note 17."""
    found = cost([Attempt("free", tokens(10, cached=10, out=10))], PRICES)
    assert found.amount == 0
    assert not found.price_missing


def test_nothing_is_rounded() -> None:
    tiny = {"m": Price(input=Decimal("1.3e-10"), out=Decimal("1e-18"))}
    found = cost([Attempt("m", tokens(10**15 + 1, out=1))], tiny)
    assert found.amount == Decimal("130000.000000000130000001")
