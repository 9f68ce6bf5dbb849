"""An admitted request until its end is known, by whichever of LiteLLM's events tells it first."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from tokenweir.adapters.litellm_proxy.settings import Unseen
from tokenweir.adapters.litellm_proxy.usage import piece, tokens_of, usage_in
from tokenweir.errors import BadInput
from tokenweir.gateway import AlreadyEnded, Call
from tokenweir.usage_shapes import Tokens

LOG = logging.getLogger(__name__)
NOTHING = Tokens(0, 0, 0, 0)
# LiteLLM logs a stream after its end; when it has not in this time, it is taken as it was seen.
GRACE_S = 5.0


class Hold:
    """One request. Whatever comes after its end is known changes nothing."""

    __slots__ = (
        "_length",
        "_said",
        "_timer",
        "_unseen",
        "call",
        "gone",
        "input_tokens",
        "pieces",
        "pool",
    )

    def __init__(self, call: Call, pool: str, input_tokens: int, unseen: Unseen) -> None:
        self.call = call
        self.pool = pool
        self.input_tokens = input_tokens
        self.pieces = 0
        self.gone = ""  # why it broke off
        self._length = 0
        self._said: object = None  # the last usage in the stream
        self._unseen = unseen
        self._timer: asyncio.TimerHandle | None = None

    @property
    def open(self) -> bool:
        """Its end is not known yet."""
        return self.call.state in ("admitted", "suspended")

    async def resumed(self) -> None:
        """Wait until it is not suspended; raises `Revoked` when it was cancelled for that."""
        if self.call.stopped is not None:
            raise self.call.stopped
        if self.call.suspended:
            with suppress(AlreadyEnded):
                await self.call.resumed()

    def saw(self, chunk: object) -> None:
        """A chunk of its stream goes to the client."""
        if not self.open:
            return
        pieces, length = piece(chunk)
        self._said = usage_in(chunk) or self._said
        if pieces:
            self.pieces += pieces
            self._length += length
            self.call.produced(pieces)

    def streamed(self, silent: bool) -> None:
        """Its stream has ended. `silent`: its usage is LiteLLM's count, and not the provider's."""
        if self._said is not None:
            self.answered(self._said, silent)
        else:
            self._await(self._guess)

    def answered(self, said: object, counted: bool = False) -> None:
        """Its usage is known. `counted`: by LiteLLM, and so an estimate."""
        if not self.open:
            return
        try:
            tokens = tokens_of(said)
        except BadInput as error:
            LOG.warning("request %s: usage cannot be used: %s", self.call.id, error)
            self._guess("bad_usage")
            return
        if tokens is None:
            self._guess()
        else:
            estimated = counted or bool(self.gone and self._said is None)
            self._close(tokens, self.gone, estimated=estimated)

    def cached(self) -> None:
        """LiteLLM's cache has answered: no model was asked."""
        self._close(NOTHING, "cache")

    def break_off(self, reason: str, last: bool = False) -> None:
        """The client went away. Unless that is the `last` of it, LiteLLM's count follows."""
        self.gone = reason
        if self._said is not None:
            self.answered(self._said)
        elif last:
            self._guess()
        else:
            self._await(self._guess)

    def unsaid(self, answer: object) -> None:
        """An answer came whole, and its provider gave no usage: it is taken by its text."""
        self.saw(answer)
        self._guess()

    def fail(self, reason: str, status: int | None, asked: bool, said: object) -> None:
        """It has failed. `asked`: a model was; `said`: what LiteLLM counts for it."""
        if not self.open:
            return
        if not asked:
            self.call.cancel(reason)
        elif not self.pieces and status is not None and 400 <= status < 500:
            # The provider did not take it up.
            self._close(NOTHING, reason, error=True)
        else:
            tokens = tokens_of(said) if self.pieces else None
            self._close(tokens or self._seen(broken=True), reason, estimated=True, error=True)

    def _guess(self, reason: str = "no_usage") -> None:
        tokens = self._seen(broken=bool(self.gone))
        self._close(tokens, self.gone or reason, estimated=True)

    def _seen(self, broken: bool) -> Tokens:
        """What it is taken to have used, by what was seen of it."""
        out = max(self.pieces, -(-self._length // 4))
        free = broken and not out and self._unseen == "nothing"
        return Tokens(0 if free else self.input_tokens, 0, 0, out)

    def _await(self, end: Callable[[], None]) -> None:
        if self.open and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(GRACE_S, end)

    def _close(
        self, tokens: Tokens, reason: str, *, estimated: bool = False, error: bool = False
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self.open:
            self.call.settle(
                uncached=tokens.uncached,
                cached=tokens.cached,
                out=tokens.out,
                cache_write=tokens.cache_write,
                error=error,
                reason=reason,
                estimated=estimated,
                cancelled=bool(self.gone),
            )
