"""What an attempt is taken to have used where its usage is not known: never 0, always marked."""

from dataclasses import dataclass

from tokenweir.events.memory import Attempt
from tokenweir.records.event import Event

CHARS_PER_TOKEN = 4
UNTOLD = 256  # tokens, input or output, when nothing at all tells how many


@dataclass(frozen=True, slots=True)
class Charge:
    """Tokens that an attempt has used so far; `estimated` where one of them was not told."""

    uncached: int = 0
    cache_write: int = 0
    cached: int = 0
    out: int = 0
    estimated: bool = False

    @property
    def total(self) -> int:
        """All of them."""
        return self.uncached + self.cached + self.out


def charge(event: Event, before: Attempt) -> Charge:
    """What the attempt has used by this event, with what earlier ones have told of it.

    Input that is not told: what an earlier event said, else a token for each 4 characters of the
    prompt, else 256. Output: what was streamed, at 4 characters a token and no less than was
    counted already; of a failed request nothing; else the longest answer that was allowed; else
    256. A `part` that tells no output has produced none yet.
    """
    input_told = event.tokens_uncached is not None or before.input_told
    output_told = event.tokens_out is not None
    open_end = event.status == "part" and event.chars_streamed is None
    return Charge(
        *_input(event, before),
        out=_output(event, before),
        estimated=not (input_told and (output_told or open_end)),
    )


def _input(event: Event, before: Attempt) -> tuple[int, int, int]:
    if event.tokens_uncached is not None:
        return event.tokens_uncached, event.tokens_cache_write, event.tokens_cached
    if before.input_told:
        return before.uncached, before.cache_write, before.cached
    guess = UNTOLD if event.chars_prompt is None else _tokens(event.chars_prompt)
    return max(guess - event.tokens_cached, before.uncached), 0, event.tokens_cached


def _output(event: Event, before: Attempt) -> int:
    if event.tokens_out is not None:
        return event.tokens_out
    if event.chars_streamed is not None:
        return max(_tokens(event.chars_streamed), before.out)
    if before.out or event.error or event.status == "part":
        return before.out
    return UNTOLD if event.max_tokens is None else event.max_tokens


def _tokens(characters: int) -> int:
    return -(-characters // CHARS_PER_TOKEN)
