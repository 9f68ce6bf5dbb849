import pytest

from tokenweir.errors import BadInput
from tokenweir.usage_shapes import Tokens, anthropic_tokens, openai_tokens, otel_tokens


def test_both_meanings_of_input_become_the_same_row() -> None:
    """Field note 11: OpenTelemetry counts cached tokens inside the input, Anthropic beside it."""
    otel = otel_tokens(
        {
            "gen_ai.usage.input_tokens": 130_213,
            "gen_ai.usage.cache_read.input_tokens": 128_955,
            "gen_ai.usage.cache_creation.input_tokens": 1_253,
        }
    )
    anthropic = anthropic_tokens(
        {
            "input_tokens": 5,
            "cache_read_input_tokens": 128_955,
            "cache_creation_input_tokens": 1_253,
        }
    )
    assert otel == anthropic == Tokens(uncached=1_258, cached=128_955, cache_write=1_253, out=0)
    assert (otel.plain, otel.cached, otel.cache_write, otel.input) == (5, 128_955, 1_253, 130_213)


def test_cached_tokens_are_not_counted_twice() -> None:
    tokens = openai_tokens(
        {
            "prompt_tokens": 262_960,
            "completion_tokens": 1_744,
            "total_tokens": 300,
            "prompt_tokens_details": {"cached_tokens": 257_955},
        }
    )
    assert tokens == Tokens(uncached=5_005, cached=257_955, cache_write=0, out=1_744)
    assert tokens.total == 264_704


@pytest.mark.parametrize("wrong", ["10", -5, 1.5e308, float("nan"), True])
def test_a_number_that_is_none_is_refused_by_name(wrong: object) -> None:
    with pytest.raises(BadInput, match="output_tokens"):
        anthropic_tokens({"output_tokens": wrong})


def test_more_cached_than_input_is_refused() -> None:
    with pytest.raises(BadInput, match="9 cached"):
        otel_tokens({"gen_ai.usage.input_tokens": 3, "gen_ai.usage.cache_read.input_tokens": 9})
