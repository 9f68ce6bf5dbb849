"""Metrics pages of vLLM: recorded ones, forms that could not be recorded, and nonsense."""

from pathlib import Path

import pytest

from tests.unit.capacity.recorded_pages import RECORDED, UNDER_LOAD, recorded
from tokenweir.capacity.sample import Sample, read_sample
from tokenweir.errors import BadInput

WRITTEN = Path(__file__).parent / "written-0.30.txt"  # by hand, in the documented form


def test_the_pages_of_a_load_are_read() -> None:
    idle = Sample(
        at_s=1.377,
        engines=1,
        running=0,
        waiting=0,
        saturated=False,
        prompt_tokens=0,
        cached_tokens=0,
        out_tokens=0,
        kv_use=0.0,
        kv_tokens=16_384 * 128,
    )
    assert recorded("0.32.0") == [
        idle,
        Sample(7.37, 1, 4, 96, True, 2400, 768, 1645, 0.0006103888176768324, 2_097_152),
        Sample(22.739, 1, 1, 87, True, 6600, 2048, 4801, 0.00012207776353534427, 2_097_152),
        Sample(38.128, 1, 4, 60, True, 12_000, 3712, 8673, 0.0006714276994445045, 2_097_152),
        Sample(68.876, 1, 0, 0, False, 24_000, 7552, 18_000, 0.0, 2_097_152),
    ]


def test_two_engines_are_added_up_and_idle_before_their_first_request() -> None:
    # Of two API processes: without a request the gauges are declared and have no values.
    fresh = (RECORDED / "0.32.0-two-engines" / "000.032.txt").read_text()
    assert "# TYPE vllm:num_requests_running gauge\n# HELP" in fresh
    assert recorded("0.32.0-two-engines") == [
        Sample(0.032, 2, 0, 0, False, 0, 0, 0, None, 4_194_304),
        Sample(10.814, 2, 8, 92, True, 5600, 1664, 3424, 0.00045779161325765205, 4_194_304),
        Sample(44.051, 2, 8, 12, True, 21_600, 6656, 15_515, 0.0005493499359091603, 4_194_304),
        Sample(59.773, 2, 0, 0, False, 24_000, 7424, 18_000, 0.0, 4_194_304),
    ]


def test_an_engine_without_a_request_yet_counts_and_has_room() -> None:
    lines = (RECORDED / "0.32.0-two-engines" / "010.814.txt").read_text().splitlines()
    gauge = ("vllm:num_requests", "vllm:kv_cache_usage")
    kept = [line for line in lines if not (line.startswith(gauge) and 'engine="1"' in line)]
    found = read_sample("\n".join(kept), 0)
    assert len(lines) - len(kept) == 5
    assert (found.engines, found.running, found.saturated) == (2, 4, False)


def test_each_of_two_engines_states_the_blocks_of_both() -> None:
    # As before kv_cache_size_tokens was there: 32 768 blocks are two caches of 16 384.
    text = (RECORDED / "0.32.0-two-engines" / "010.814.txt").read_text()
    text = text.replace('kv_cache_size_tokens="2097152",', "")
    assert text.count('num_gpu_blocks="32768"') == 2
    assert read_sample(text, 0).kv_tokens == 4_194_304


def test_the_pages_of_an_engine_before_v1_are_read() -> None:
    # Before its first request it says nothing but what its cache is; never what was cached.
    fresh = (RECORDED / "0.9.1" / "000.850.txt").read_text()
    assert fresh.count("# TYPE") == 1
    assert recorded("0.9.1") == [
        Sample(0.85, 1, 0, 0, False, 0, 0, 0, None, 131_072 * 16),
        Sample(6.484, 1, 4, 96, True, 800, 0, 84, 0.0, 2_097_152),
        Sample(36.826, 1, 4, 96, True, 1600, 0, 996, 0.0, 2_097_152),
        Sample(366.647, 1, 0, 0, False, 10_400, 0, 7584, 0.0, 2_097_152),
    ]


def test_who_is_put_off_by_plan_does_not_wait_for_room() -> None:
    # Written by hand: our server put nobody off. Engine 1 has room, and blocks do not multiply.
    assert read_sample(WRITTEN.read_text(), 7.0) == Sample(
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
    text = UNDER_LOAD.read_text().replace('kv_cache_size_tokens="2097152",', "")
    assert read_sample(text, 0).kv_tokens == 2_097_152
    text = text.replace('num_gpu_blocks="16384"', f'num_gpu_blocks="{blocks}"')
    assert read_sample(text, 0).kv_tokens is None


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1.0"])
def test_no_number_is_taken_that_cannot_be(value: str) -> None:
    text = UNDER_LOAD.read_text().replace('model_name="tiny"} 96.0', f'model_name="tiny"}} {value}')
    with pytest.raises(BadInput, match=r"vllm:num_requests_waiting is .*: a number from 0"):
        read_sample(text, 0)


@pytest.mark.parametrize("name", ["num_requests_running", "prompt_tokens_total"])
def test_a_page_without_what_is_needed_names_it(name: str) -> None:
    lines = [line for line in UNDER_LOAD.read_text().splitlines() if f"vllm:{name}" not in line]
    with pytest.raises(BadInput, match=f"vllm:{name} is not there: is this the /metrics page"):
        read_sample("\n".join(lines), 0)


@pytest.mark.parametrize("text", ["<html>no</html>", 'vllm:num_requests_running{engine="0} x', ""])
def test_what_is_no_metrics_page_is_said_in_one_line(text: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_sample(text, 0)
    assert "\n" not in str(caught.value)
