import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.adapters.openai.stream import LONGEST_EVENT, StreamReader
from tokenweir.adapters.openai.usage import UNKNOWN, Usage, text_of, usage_of
from tokenweir.errors import BadInput

USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 7,
    "prompt_tokens_details": {"cached_tokens": 60},
}


def event(value: Any) -> bytes:
    return b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n"


def chunk(text: str = "", **fields: Any) -> bytes:
    return event({"choices": [{"index": 0, "delta": {"content": text}}], **fields})


LAST = event({"choices": [], "usage": USAGE})
DONE = event(b"[DONE]")


class TestUsage:
    def test_cached_tokens_lie_inside_the_prompt(self) -> None:
        assert usage_of("chat", {"usage": USAGE}) == Usage(40, 60, 7)

    def test_the_responses_interface_has_names_of_its_own(self) -> None:
        assert usage_of("responses", {"usage": {"input_tokens": 5, "output_tokens": 2}}) == Usage(
            5, 0, 2
        )

    def test_zero_is_zero_and_null_is_not_known(self) -> None:
        """Field note 2: the two must differ."""
        zero = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        assert usage_of("chat", {"usage": zero}) == Usage(0, 0, 0)
        answers: tuple[dict[str, Any], ...] = ({"usage": None}, {}, {"usage": {}})
        for answer in answers:
            assert usage_of("chat", answer) == UNKNOWN

    def test_half_a_usage_is_half_known(self) -> None:
        half = {"prompt_tokens": 45, "completion_tokens": None}
        assert usage_of("chat", {"usage": half}) == Usage(45, 0, None)

    def test_embeddings_have_no_output(self) -> None:
        assert usage_of("embeddings", {"usage": {"prompt_tokens": 9}}) == Usage(9, 0, 0)

    def test_a_total_that_the_backend_gives_is_not_believed(self) -> None:
        usage = {"prompt_tokens": 9000, "completion_tokens": 300, "total_tokens": 300}
        assert usage_of("chat", {"usage": usage}) == Usage(9000, 0, 300)

    @pytest.mark.parametrize("value", ["10", -5, 1.5e308, float("nan"), True, 1 << 60])
    def test_a_malformed_number_is_refused(self, value: Any) -> None:
        usage = {"prompt_tokens": 1, "completion_tokens": value}
        with pytest.raises(BadInput):
            usage_of("chat", {"usage": usage})

    def test_what_an_answer_says_is_all_of_its_texts(self) -> None:
        message = {
            "role": "assistant",
            "content": "ab",
            "reasoning_content": "cd",
            "tool_calls": [{"id": "x", "function": {"name": "f", "arguments": "ef"}}],
        }
        assert text_of({"choices": [{"message": message}, {"text": "gh"}]}) == "abcdefgh"
        output = [{"type": "message", "content": [{"type": "output_text", "text": "ij"}]}]
        assert text_of({"output": output}) == "ij"


class TestStreams:
    def read(self, *parts: bytes, strips: bool = True, kind: Any = "chat") -> Any:
        reader = StreamReader(kind, strips)
        passed = b"".join((*(reader.feed(part) for part in parts), reader.end()))
        return reader, passed

    def test_the_chunk_that_we_asked_for_is_taken_out_again(self) -> None:
        reader, passed = self.read(chunk("a"), chunk("b"), LAST, DONE)
        assert passed == chunk("a") + chunk("b") + DONE
        assert (reader.usage, reader.chunks, reader.done) == (Usage(40, 60, 7), 2, True)

    def test_the_chunk_that_the_client_asked_for_goes_on(self) -> None:
        _, passed = self.read(chunk("a"), LAST, DONE, strips=False)
        assert passed == chunk("a") + LAST + DONE

    def test_a_usage_beside_a_text_takes_no_text_away(self) -> None:
        running = chunk("a", usage={"prompt_tokens": 3, "completion_tokens": 1})
        _, passed = self.read(running, LAST)
        assert passed == running

    def test_comments_and_foreign_events_go_on(self) -> None:
        noise = b": ping\n\n" + event(b"{broken") + b"event: x\nid: 1\n\n" + event({"choices": 5})
        reader, passed = self.read(noise)
        assert passed == noise
        assert reader.chunks == 0

    @given(st.data())
    def test_where_the_bytes_are_cut_changes_nothing(self, data: st.DataObject) -> None:
        whole = (
            chunk("ä") + LAST.replace(b"\n", b"\r\n") + chunk("") + b": x\n\n" + chunk("b") + DONE
        )
        cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)))))
        parts = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
        reader, passed = self.read(*parts)
        assert passed == chunk("ä") + chunk("") + b": x\n\n" + chunk("b") + DONE
        assert (reader.chunks, reader.usage.out, reader.done) == (2, 7, True)

    def test_an_event_without_an_end_goes_on_at_the_end(self) -> None:
        _, passed = self.read(chunk("a")[:-2])
        assert passed == chunk("a")[:-2]

    def test_an_event_that_is_too_long_goes_on_unread(self) -> None:
        reader = StreamReader("chat", True)
        huge = b"data: " + b"x" * LONGEST_EVENT
        assert reader.feed(huge) == huge
        assert reader.feed(b"\n\n" + chunk("a")).endswith(chunk("a"))

    def test_the_live_count_is_never_more_than_was_produced_and_the_estimate_is_fuller(
        self,
    ) -> None:
        """Three pieces hold three tokens at least; 40 bytes are taken to be ten."""
        reader, _ = self.read(chunk("x" * 20), chunk("x" * 19), chunk("x"), chunk(""))
        assert (reader.chunks, reader.estimate()) == (3, 10)

    def test_a_usage_that_cannot_be_is_told(self) -> None:
        reader, _ = self.read(event({"choices": [], "usage": {"completion_tokens": -1}}))
        assert reader.usage == UNKNOWN
        assert "-1" in reader.problem

    def test_the_responses_interface_has_events(self) -> None:
        delta = {"type": "response.output_text.delta", "delta": "Hi"}
        usage = {"input_tokens": 4, "output_tokens": 1}
        end = {"type": "response.completed", "response": {"usage": usage}}
        made = {"type": "response.created", "response": {"usage": None}}
        whole = b"".join(
            f"event: {one['type']}\n".encode() + event(one) for one in (made, delta, end)
        )
        reader, passed = self.read(whole, kind="responses", strips=False)
        assert passed == whole
        assert (reader.chunks, reader.usage, reader.done) == (1, Usage(4, 0, 1), True)
