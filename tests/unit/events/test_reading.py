"""Every form in which an event may come, and every one that is refused with its reason."""

import json
from typing import Any

import pytest

from tests.unit.corpus.samples import samples
from tests.unit.events.made import AT, content, event, used
from tokenweir.errors import BadRecord
from tokenweir.events.gather import event_ms
from tokenweir.events.read import TICK, from_json, read
from tokenweir.records.event import Event
from tokenweir.wire import encode


def tokens(**fields: Any) -> tuple[int | None, int, int, int | None]:
    """Uncached, written to a cache, cached, out."""
    found = event(**fields)
    return (
        found.tokens_uncached,
        found.tokens_cache_write,
        found.tokens_cached,
        found.tokens_out,
    )


def refused(value: bytes) -> str:
    with pytest.raises(BadRecord) as error:
        read(value)
    return str(error.value)


class TestUsage:
    def test_openai_counts_cached_tokens_inside(self) -> None:
        """10: 262 960 of which cached 257 955."""
        details = {"cached_tokens": 257_955}
        usage = used(262_960, 1_744, prompt_tokens_details=details, total_tokens=264_704)
        assert tokens(usage=usage) == (5_005, 0, 257_955, 1_744)

    def test_11_opentelemetry_and_anthropic_say_the_same(self) -> None:
        otel = {
            "gen_ai.usage.input_tokens": 130_213,
            "gen_ai.usage.cache_read.input_tokens": 128_955,
            "gen_ai.usage.cache_creation.input_tokens": 1_253,
            "gen_ai.usage.output_tokens": 9,
        }
        anthropic = {
            "input_tokens": 5,
            "cache_read_input_tokens": 128_955,
            "cache_creation_input_tokens": 1_253,
            "output_tokens": 9,
        }
        assert tokens(usage=otel) == tokens(usage=anthropic) == (1_258, 1_253, 128_955, 9)

    def test_the_responses_api(self) -> None:
        usage = {
            "input_tokens": 75,
            "input_tokens_details": {"cached_tokens": 30},
            "output_tokens": 1186,
            "output_tokens_details": {"reasoning_tokens": 1024},
            "total_tokens": 1261,
        }
        assert tokens(usage=usage) == (45, 0, 30, 1186)

    def test_our_own_names(self) -> None:
        usage = {"tokens_uncached": 7, "tokens_cached": 2, "tokens_out": 0}
        assert tokens(usage=usage) == (7, 0, 2, 0)

    def test_a_usage_may_stand_in_the_event_itself(self) -> None:
        assert tokens(prompt_tokens=10, completion_tokens=20, total_tokens=30) == (10, 0, 0, 20)

    def test_2_zero_is_known_and_null_is_not(self) -> None:
        assert tokens(usage=used(0, 0, total_tokens=0)) == (0, 0, 0, 0)
        assert tokens(usage=None) == (None, 0, 0, None)
        assert tokens() == (None, 0, 0, None)
        assert tokens(usage=used(45, None)) == (45, 0, 0, None)

    def test_embeddings_have_no_output(self) -> None:
        assert tokens(usage={"prompt_tokens": 8, "total_tokens": 8}) == (8, 0, 0, 0)
        assert tokens(usage={"prompt_tokens": 8}, operation="embeddings") == (8, 0, 0, 0)
        assert tokens(usage={"prompt_tokens": 8}, operation="chat") == (8, 0, 0, None)

    def test_13_a_total_that_is_wrong_is_noticed_and_not_used(self) -> None:
        heard = from_json(content(usage=used(9_000, 300, total_tokens=300)))
        assert (heard.event.tokens_uncached, heard.event.tokens_out) == (9_000, 300)
        assert heard.total_differs
        assert not from_json(content(usage=used(9_000, 300, total_tokens=9_300))).total_differs

    def test_more_cached_than_input_cannot_be(self) -> None:
        usage = used(10, 1, prompt_tokens_details={"cached_tokens": 11})
        assert "more than 10 input" in refused(json.dumps(content(usage=usage)).encode())

    def test_a_usage_of_an_unknown_shape_is_refused(self) -> None:
        assert "['tokens']" in refused(json.dumps(content(usage={"tokens": 5})).encode())


class TestNumbers:
    """6: numbers as JSON writers of many languages give them."""

    @pytest.mark.parametrize("text", ['"10"', "10", "10.0", "1e1"])
    def test_ten_is_ten(self, text: str) -> None:
        value = b'{"pool":"chat","tenant":"acme","id":7,"usage":{"prompt_tokens":%s}}'
        heard = read(value % text.encode())
        assert heard is not None
        assert heard.event.tokens_uncached == 10

    @pytest.mark.parametrize(
        "text", ["-5", "1.5e308", "NaN", "Infinity", "true", '"ten"', '"-5"', "2.5", "[]", "1e300"]
    )
    def test_what_is_no_number_of_tokens_is_refused_by_its_name(self, text: str) -> None:
        value = b'{"pool":"chat","tenant":"acme","id":"e1","usage":{"prompt_tokens":%s}}'
        assert "usage.prompt_tokens is" in refused(value % text.encode())

    def test_a_number_that_no_request_can_have_is_refused(self) -> None:
        reason = refused(json.dumps(content(usage=used(10**9, 1))).encode())
        assert reason == "tokens_uncached is 1000000000: 0 to 100000000 is allowed"


class TestFields:
    @pytest.mark.parametrize(
        ("fields", "reason"),
        [
            ({"pool": None}, "pool is missing"),
            ({"pool": "a/b"}, "without a slash"),
            ({"tenant": ""}, "tenant is missing"),
            ({"request_id": None}, "request_id is missing"),
            ({"tenant": ["acme"]}, "tenant is ['acme']"),
            ({"user": "x" * 513}, "at most 512"),
            ({"status": "finished"}, "done, cancelled"),
            ({"status": ["done"]}, "done, cancelled"),
            ({"provisional": "yes"}, "true or false"),
            ({"priority": 4}, "1 to 3"),
            ({"attempt": 0}, "1 to"),
            ({"usage": [1]}, "an object or null"),
            ({"time": "2026-11-29T12:00:00"}, "with its zone"),
            ({"time": 1_800_000_000}, "with its zone"),
            ({"age_ms": -1}, "age_ms is -1"),
        ],
    )
    def test_a_wrong_field_is_named(self, fields: dict[str, Any], reason: str) -> None:
        assert reason in refused(json.dumps(content(**fields)).encode())

    @pytest.mark.parametrize(
        "value", [b"", b"\xff\xfe", b"[]", b"12", b"null", b"{", b"[" * 100_000, b"1" * 9_000]
    )
    def test_what_is_no_object_is_refused(self, value: bytes) -> None:
        assert refused(value)

    def test_null_is_refused(self) -> None:
        with pytest.raises(BadRecord, match="null"):
            read(None)

    def test_ids_may_be_numbers_and_an_id_stands_for_the_request(self) -> None:
        assert event(id=17, request_id=None).request_id == "17"

    def test_a_lone_surrogate_becomes_a_question_mark(self) -> None:
        assert event(tenant="\ud800x").tenant == "?x"

    def test_names_that_are_not_ours_are_passed_over(self) -> None:
        assert event(trace_id="t", metadata={"a": [1]}) == event()

    def test_a_tick_is_no_event(self) -> None:
        assert read(TICK) is None


class TestAvro:
    def test_an_event_may_come_as_avro(self) -> None:
        record = samples()["Event"]
        heard = read(encode(record))
        assert heard is not None
        assert heard.event == record

    def test_another_record_is_refused(self) -> None:
        assert "expected Event" in refused(encode(samples()["Barred"]))

    def test_its_fields_are_checked_too(self) -> None:
        record = samples()["Event"]
        assert isinstance(record, Event)
        assert "tokens_out is -1" in refused(encode(event_with(record, tokens_out=-1)))


def event_with(record: Event, **fields: Any) -> Event:
    from dataclasses import replace

    return replace(record, **fields)


class TestTime:
    """T5: the broker's time less an age; another clock is believed where it can be right."""

    def test_an_age_counts_back_from_the_append(self) -> None:
        assert event_ms(event(age_ms=250), AT) == AT - 250

    def test_a_time_counts_where_it_is_past(self) -> None:
        assert event_ms(event(time="2027-01-15T07:59:59.750Z"), AT) == AT - 250
        assert event_ms(event(time="2027-01-15T16:59:59.750+09:00"), AT) == AT - 250

    def test_a_clock_that_is_ahead_is_not_believed(self) -> None:
        assert event_ms(event(time="2027-01-15T09:00:00Z"), AT) == AT

    def test_an_age_goes_before_a_time(self) -> None:
        assert event_ms(event(age_ms=5, time="2027-01-15T07:00:00Z"), AT) == AT - 5

    def test_nothing_is_older_than_six_days(self) -> None:
        assert event_ms(event(age_ms=10**12), AT) == AT - 6 * 86_400_000
