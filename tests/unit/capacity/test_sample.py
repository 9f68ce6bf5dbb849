"""Metrics pages of three ages of vLLM, and pages that make no sense."""

from pathlib import Path

import pytest

from tokenweir.capacity.sample import Sample, read_sample
from tokenweir.errors import BadInput

PAGES = Path(__file__).parent / "pages"


def page(version: str) -> str:
    return (PAGES / f"vllm-{version}.txt").read_text()


def test_the_page_of_an_old_engine_is_read() -> None:
    assert read_sample(page("0.6"), 7.0) == Sample(
        at_s=7.0,
        engines=1,
        running=31,
        waiting=4,
        saturated=True,
        prompt_tokens=90_210,
        cached_tokens=0,  # it does not say
        out_tokens=27_453,
        kv_use=0.6141,
        kv_tokens=24_188 * 16,
    )


def test_the_page_of_v1_is_read() -> None:
    assert read_sample(page("0.11"), 7.0) == Sample(
        at_s=7.0,
        engines=1,
        running=256,
        waiting=19,
        saturated=True,
        prompt_tokens=1_200_000,
        cached_tokens=300_000,
        out_tokens=480_000,
        kv_use=0.8203,
        kv_tokens=9271 * 16,
    )


def test_two_engines_of_a_new_server_are_added_up() -> None:
    # Engine 1 has put two off by its own plan and has room: the server is not saturated.
    assert read_sample(page("0.30"), 7.0) == Sample(
        at_s=7.0,
        engines=2,
        running=78,
        waiting=3,
        saturated=False,
        prompt_tokens=90_000,
        cached_tokens=15_000,
        out_tokens=11_000,
        kv_use=0.7,
        kv_tokens=2 * 463_459,
    )


@pytest.mark.parametrize("blocks", ["None", "", "0", "-3", "1.5"])
def test_a_number_of_blocks_that_is_none_is_not_known(blocks: str) -> None:
    text = page("0.11").replace('num_gpu_blocks="9271"', f'num_gpu_blocks="{blocks}"')
    assert read_sample(text, 0).kv_tokens is None


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1.0"])
def test_no_number_is_taken_that_cannot_be(value: str) -> None:
    text = page("0.11").replace('model_name="Qwen/Qwen3-8B"} 19.0', f'model_name="x"}} {value}')
    with pytest.raises(BadInput, match=r"vllm:num_requests_waiting is .*: a number from 0"):
        read_sample(text, 0)


@pytest.mark.parametrize("name", ["num_requests_running", "prompt_tokens_total"])
def test_a_page_without_what_is_needed_names_it(name: str) -> None:
    lines = [line for line in page("0.11").splitlines() if not line.startswith(f"vllm:{name}{{")]
    with pytest.raises(BadInput, match=f"vllm:{name} is not there: is this the /metrics page"):
        read_sample("\n".join(lines), 0)


@pytest.mark.parametrize("text", ["<html>no</html>", 'vllm:num_requests_running{engine="0} x', ""])
def test_what_is_no_metrics_page_is_said_in_one_line(text: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_sample(text, 0)
    assert "\n" not in str(caught.value)
