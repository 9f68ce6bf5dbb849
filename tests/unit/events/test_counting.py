"""Each attempt of a request is charged once, whatever its events look like (T6, R1)."""

import pytest

from tests.unit.events.made import AT, Log, used
from tokenweir.errors import BadRecord
from tokenweir.events.gather import gather
from tokenweir.events.memory import BUCKET_MS, HOUR_MS, MOST_IN_BUCKET, MOST_OPEN


@pytest.fixture
def log() -> Log:
    return Log()


class TestUnknownUsage:
    def test_1_a_cancelled_stream_is_charged_its_prompt_and_a_marked_estimate(
        self, log: Log
    ) -> None:
        """2048 characters at 4 a token are 512."""
        log.send(status="cancelled", usage=used(45, None), chars_streamed=2048)
        [row] = log.rows()
        assert (row["status"], row["tokens"], row["estimated"]) == (
            "cancelled",
            (45, 0, 0, 512),
            True,
        )

    def test_2_zero_is_no_estimate_and_null_is_one(self, log: Log) -> None:
        log.send(request_id="zero", usage=used(0, 0, total_tokens=0))
        log.send(request_id="null", usage=None)
        zero, null = log.rows()
        assert (zero["tokens"], zero["estimated"]) == ((0, 0, 0, 0), False)
        assert (null["tokens"], null["estimated"]) == ((256, 0, 0, 256), True)

    def test_4_what_was_seen_bounds_the_estimate(self, log: Log) -> None:
        log.send(request_id="none", usage=used(45, None), chars_streamed=0)
        log.send(request_id="told", usage=used(45, None), max_tokens=900)
        log.send(request_id="failed", usage=used(45, None), error=True)
        assert [row["tokens"][3] for row in log.rows()] == [0, 900, 0]

    def test_what_an_earlier_event_told_is_not_estimated_again(self, log: Log) -> None:
        """As some providers do: the input at the start of a stream, the output at its end."""
        log.send(status="part", usage=used(100, 1))
        log.send(usage={"output_tokens": 700})
        assert log.totals() == {"requests": 1, "tokens_uncached": 100, "tokens_out": 700}
        assert not any(row["estimated"] for row in log.rows())

    def test_tokens_seen_in_a_stream_stay_when_its_usage_never_comes(self, log: Log) -> None:
        log.send(status="part", usage=used(100, 700))
        log.send(status="cancelled")
        assert log.totals() == {"requests": 1, "tokens_uncached": 100, "tokens_out": 700}
        assert [row["estimated"] for row in log.rows()] == [False, True]

    def test_an_estimate_gives_way_to_the_usage_that_comes_later(self, log: Log) -> None:
        log.send(status="cancelled", usage=None, chars_streamed=4_000, chars_prompt=400)
        assert log.totals() == {"requests": 1, "tokens_uncached": 100, "tokens_out": 1_000}
        log.send(60_000, status="cancelled", usage=used(90, 300))
        assert log.totals() == {"requests": 1, "tokens_uncached": 90, "tokens_out": 300}


class TestIncrements:
    def test_3_a_provisional_usage_is_replaced_by_the_final_one(self, log: Log) -> None:
        log.send(provisional=True, usage=used(0, 26))
        log.tick()
        log.send(9_000, usage=used(0, 511))
        assert log.totals() == {"requests": 1, "tokens_out": 511}
        assert [(row["status"], row["tokens"][3]) for row in log.rows()] == [
            ("part", 26),
            ("done", 485),
        ]

    def test_a_final_usage_may_be_less(self, log: Log) -> None:
        log.send(provisional=True, usage=used(0, 511))
        log.send(usage=used(0, 26))
        assert log.totals() == {"requests": 1, "tokens_out": 26}

    def test_a_stream_says_what_it_has_used_so_far(self, log: Log) -> None:
        for out in (10, 250, 400):
            log.send(600, status="part", usage=used(100, out))
        log.send(usage=used(100, 450))
        assert [row["tokens"] for row in log.rows()] == [
            (100, 0, 0, 10),
            (0, 0, 0, 240),
            (0, 0, 0, 150),
            (0, 0, 0, 50),
        ]
        assert log.totals() == {"requests": 1, "tokens_uncached": 100, "tokens_out": 450}

    def test_parts_that_overtake_each_other_take_nothing_back(self, log: Log) -> None:
        log.send(status="part", usage=used(100, 250))
        log.send(status="part", usage=used(100, 10))
        log.send(usage=used(100, 450))
        log.send(status="part", usage=used(100, 400))
        assert log.totals() == {"requests": 1, "tokens_uncached": 100, "tokens_out": 450}
        assert log.state.counts["late"] == 2

    def test_tokens_that_turn_out_to_be_cached_change_kind(self, log: Log) -> None:
        log.send(status="part", usage=used(100, 0))
        log.send(usage=used(100, 5, prompt_tokens_details={"cached_tokens": 60}))
        assert log.totals() == {
            "requests": 1,
            "tokens_uncached": 40,
            "tokens_cached": 60,
            "tokens_out": 5,
        }

    def test_88_attempts_are_charged_each(self, log: Log) -> None:
        for attempt in (1, 2, 3):
            log.send(attempt=attempt, usage=used(100, 0), error=attempt < 3)
        assert log.totals() == {"requests": 3, "errors": 2, "tokens_uncached": 300}
        assert {row["id"] for row in log.rows()} == {"r1"}

    def test_a_request_that_was_refused_may_still_be_done(self, log: Log) -> None:
        log.send(status="refused", refused_tokens=900)
        log.send(status="refused", refused_tokens=900)
        log.send(usage=used(5, 5))
        assert log.totals() == {
            "requests": 1,
            "tokens_uncached": 5,
            "tokens_out": 5,
            "refused_tokens": 900,
        }


class TestOnce:
    @pytest.mark.parametrize("times", [1, 2, 5])
    def test_19_the_same_event_counts_once(self, log: Log, times: int) -> None:
        for _ in range(times):
            log.send(700, id="e1", usage=used(10, 20))
        assert log.totals() == {"requests": 1, "tokens_uncached": 10, "tokens_out": 20}
        assert log.state.counts["repeat"] == times - 1

    def test_an_id_counts_once_whatever_is_said_under_it(self, log: Log) -> None:
        log.send(id="e1", request_id="r1", usage=used(10, 0))
        log.send(id="e1", request_id="r2", usage=used(10, 0))
        assert log.totals() == {"requests": 1, "tokens_uncached": 10}

    def test_ids_of_two_tenants_are_two(self, log: Log) -> None:
        log.send(id="1", tenant="acme", usage=used(10, 0))
        log.send(id="1", tenant="birch", usage=used(10, 0))
        assert log.totals() == {"requests": 2, "tokens_uncached": 20}

    def test_21_an_id_that_changes_with_each_retry_counts_once(self, log: Log) -> None:
        for number in range(4):
            log.send(id=f"e{number}", usage=used(10, 20))
        assert log.totals() == {"requests": 1, "tokens_uncached": 10, "tokens_out": 20}
        assert log.state.counts["unstable_id"] == 3

    def test_21_so_does_an_estimate(self, log: Log) -> None:
        for number in range(4):
            log.send(id=f"e{number}", status="cancelled", chars_streamed=80)
        assert log.totals() == {"requests": 1, "tokens_uncached": 256, "tokens_out": 20}
        assert log.state.counts["unstable_id"] == 3

    def test_20_what_is_read_back_is_not_charged_and_kept(self, log: Log) -> None:
        log.send(id="e1", usage=used(10, 20))
        log.send(id="e2", operation="fetch_response", usage=used(10, 20))
        log.send(id="e2", operation="fetch_response", usage=used(10, 20))
        assert log.totals() == {"requests": 2, "tokens_uncached": 10, "tokens_out": 20}
        assert [row["tokens"] for row in log.rows()] == [(10, 0, 0, 20), (0, 0, 0, 0)]

    def test_13_a_wrong_total_is_counted_as_wrong(self, log: Log) -> None:
        log.send(usage=used(9_000, 300, total_tokens=300))
        assert log.totals() == {"requests": 1, "tokens_uncached": 9_000, "tokens_out": 300}
        assert log.state.counts["total_differs"] == 1

    def test_6_what_cannot_be_used_changes_nothing(self, log: Log) -> None:
        log.send(usage=used(10, 20))
        with pytest.raises(BadRecord):
            log.send(request_id="r2", usage=used(-5, 20))
        assert log.totals() == {"requests": 1, "tokens_uncached": 10, "tokens_out": 20}


class TestMemory:
    def test_an_event_is_remembered_for_an_hour(self, log: Log) -> None:
        log.send(id="e1", usage=used(10, 0))
        log.send(HOUR_MS - 2 * BUCKET_MS, id="e1", usage=used(10, 0))
        assert log.totals() == {"requests": 1, "tokens_uncached": 10}

    def test_it_is_forgotten_then(self, log: Log) -> None:
        log.send(id="e1", usage=used(10, 0))
        for _ in range(62):
            log.tick(BUCKET_MS)
        assert log.state.memory.known == set()
        assert log.state.memory.forgotten == 0

    def test_an_attempt_that_never_ends_is_forgotten_too(self, log: Log) -> None:
        log.send(status="part", usage=used(10, 0))
        log.tick(HOUR_MS - 10)
        assert len(log.state.memory.open) == 1
        log.tick(1_000)
        assert len(log.state.memory.open) == 0

    def test_it_has_a_bound_and_counts_what_it_forgets_too_soon(self, log: Log) -> None:
        memory = log.state.memory
        for number in range(62):
            start = number * MOST_IN_BUCKET
            memory.remember(range(start, start + MOST_IN_BUCKET), AT)
        assert len(memory.known) == 60 * MOST_IN_BUCKET
        assert memory.forgotten == 2 * MOST_IN_BUCKET
        assert 0 not in memory.known

    def test_open_attempts_have_a_bound(self, log: Log) -> None:
        from tokenweir.events.memory import Attempt

        memory = log.state.memory
        for number in range(MOST_OPEN + 10):
            memory.keep(number, Attempt(), AT + number)
        assert len(memory.open) == MOST_OPEN
        assert memory.forgotten == 10
        assert 9 not in memory.open


def test_a_partition_has_a_bound_of_pools(monkeypatch: pytest.MonkeyPatch, log: Log) -> None:
    monkeypatch.setattr(f"{gather.__module__}.MOST_POOLS", 1)
    log.send(pool="chat")
    with pytest.raises(BadRecord, match="one more than 1"):
        log.send(pool="code")
