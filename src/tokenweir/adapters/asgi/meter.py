"""An answer as it passes: its usage is read, its call settled, its header fields completed."""

from collections.abc import Callable

from tokenweir.adapters.asgi.caller import Message, Send
from tokenweir.adapters.asgi.line import Line
from tokenweir.adapters.asgi.sending import encoded
from tokenweir.adapters.openai.ask import Ask, Count
from tokenweir.adapters.openai.reading import Reading, Unseen
from tokenweir.gateway.call import Call
from tokenweir.gateway.headers import Header


class Meter:
    """One admitted request between the app and the server. Each message passes at once."""

    def __init__(
        self,
        call: Call,
        ask: Ask,
        line: Line,
        send: Send,
        headers: Callable[[], tuple[Header, ...]],
        count: Count,
        unseen: Unseen,
    ) -> None:
        self._call = call
        self._line = line
        self._send = send
        self._headers = headers
        self._unseen = unseen
        self._reading = Reading(ask.kind, ask, count)

    @property
    def started(self) -> bool:
        """The answer has begun: its status cannot be changed any more."""
        return self._reading.status > 0

    async def send(self, message: Message) -> None:
        """Pass a message of the answer on; the last one settles the call before it goes."""
        if message["type"] == "http.response.start":
            message = self._begin(message)
        elif message["type"] == "http.response.body":
            if message.get("more_body", False):
                await self._line.resumed(self._call)  # a revoked stream pauses here
            message = self._pass(message)
            if not message["body"] and message["more_body"]:
                return
        try:
            await self._send(message)
        except OSError:
            self._line.hang_up()
            raise

    def end(self, error: BaseException | None = None) -> None:
        """The app has returned or failed: settle what is not settled yet."""
        if self._open:
            broken = type(error).__name__ if isinstance(error, Exception) else ""
            reason = "disconnected" if self._line.gone else broken or "cancelled"
            self._reading.broken(reason, broken != "", self._unseen).settle(self._call)

    @property
    def _open(self) -> bool:
        return self._call.state in ("admitted", "suspended")

    def _begin(self, message: Message) -> Message:
        ours = encoded(self._headers())
        names = {name for name, _ in ours}
        kept = [pair for pair in message.get("headers", ()) if pair[0].lower() not in names]
        streams = any(
            name.lower() == b"content-type" and b"event-stream" in value.lower()
            for name, value in kept
        )
        self._reading.begin(message["status"], streams)
        if streams:
            # What is taken out of a stream shortens it.
            kept = [pair for pair in kept if pair[0].lower() != b"content-length"]
        return {**message, "headers": [*kept, *ours]}

    def _pass(self, message: Message) -> Message:
        body, more = message.get("body", b""), message.get("more_body", False)
        reading = self._reading
        body = reading.feed(body, not more)
        if self._open and (news := reading.news()):
            self._call.produced(news)
        if self._open and (reading.done or not more):
            reading.ended(self._line.gone, self._unseen).settle(self._call)
        return {**message, "body": body, "more_body": more}
