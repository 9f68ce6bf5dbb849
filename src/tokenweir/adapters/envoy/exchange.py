"""One HTTP exchange as Envoy's external processor sees it: request, answer, end."""

from collections.abc import Mapping
from secrets import token_hex
from typing import Any

from tokenweir.adapters.envoy.degrade import Degrade
from tokenweir.adapters.envoy.meter import Meter
from tokenweir.adapters.envoy.wire_pb2 import (
    Body,
    BodyMutation,
    Change,
    CommonResponse,
    HeaderMap,
    HeaderMutation,
    Headers,
    HeaderValue,
    HeaderValueOption,
    ProcessingRequest,
    ProcessingResponse,
    TrailersChange,
)
from tokenweir.adapters.openai.ask import OPERATIONS, Ask, Count, Kind, kind_of, read_ask, rewritten
from tokenweir.errors import BadInput
from tokenweir.gateway import Call
from tokenweir.gateway.ladder import Plan

OURS = "x-tokenweir-"
CALL = "x-tokenweir-call"
LONGEST_ID = 128
_OVERWRITE = HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD


class Exchange:
    """Answers each message of one stream, and ends the calls that were admitted for it.

    `id` begins with the request's own `x-request-id`, and no client can know it in advance.
    """

    def __init__(self, count: Count, degrade: Degrade | None = None) -> None:
        self.id = token_hex(8)
        self._count = count
        self._degrade = degrade
        self._headers: Mapping[str, str] = {}
        self._plan: Plan | None = None
        self._kind: Kind | None = None
        self._ask: Ask | None = None
        self._meter: Meter | None = None
        self._calls: list[Call] = []

    @property
    def asked(self) -> Mapping[str, Any]:
        """What the body asks for, as arguments of `Gateway.request`; empty: nothing is known."""
        ask, plan = self._ask, self._plan
        if ask is None or plan is None:
            return {}
        longest = plan.max_tokens
        found = {
            "model": plan.model,
            "operation": OPERATIONS[ask.kind],
            "input_tokens": ask.input_tokens,
            "max_tokens": None if longest is None else longest * ask.choices,
            "sequences": ask.choices,
            "provider_tier": plan.service_tier or ask.service_tier,
        }
        return {**found, "flow": "batch"} if plan.service_tier else found

    def hold(self, calls: list[Call]) -> None:
        """These were admitted for this exchange, and are settled with its usage."""
        self._calls += calls

    def close(self) -> None:
        """The exchange has ended: what is not settled yet broke off."""
        if self._calls:
            (self._meter or self._answered()).close()

    def reply(self, request: ProcessingRequest) -> ProcessingResponse:
        """What to answer to a message."""
        match request.WhichOneof("request"):
            case "request_headers":
                change = self._request(request.request_headers)
                return ProcessingResponse(request_headers=change)
            case "request_body":
                return ProcessingResponse(request_body=self._request_body(request.request_body))
            case "response_headers":
                change = self._response(request.response_headers)
                return ProcessingResponse(response_headers=change)
            case "response_body":
                return ProcessingResponse(response_body=self._response_body(request.response_body))
            case "request_trailers":
                return ProcessingResponse(request_trailers=TrailersChange())
            case _:
                return ProcessingResponse(response_trailers=TrailersChange())

    def _request(self, headers: Headers) -> Change:
        self._headers = found = _read(headers.headers)
        self.id = f"{found.get('x-request-id', '')[:LONGEST_ID]}/{self.id}"
        self._kind = kind_of(found.get(":method", ""), found.get(":path", "").partition("?")[0])
        mutation = HeaderMutation(set_headers=[_set(CALL, self.id)])
        forged = (name for name in found if name.startswith(OURS) and name != CALL)
        mutation.remove_headers.extend(forged)
        if self._kind is not None:
            # An answer must come as it can be read.
            mutation.remove_headers.append("accept-encoding")
        return Change(response=CommonResponse(header_mutation=mutation))

    def _request_body(self, body: Body) -> Change:
        if self._kind is None:
            return Change()
        try:
            self._ask = ask = read_ask(self._kind, body.body, self._count)
        except BadInput:
            # The backend answers what it thinks of it; it is charged what it says.
            return Change()
        degrade = self._degrade
        self._plan = plan = (
            degrade.plan(self._headers, ask) if degrade else Plan(ask.model, ask.max_tokens)
        )
        other = rewritten(ask, plan)
        if other is None:
            return Change()
        length = HeaderMutation(set_headers=[_set("content-length", str(len(other)))])
        body_change = BodyMutation(body=other)
        return Change(response=CommonResponse(header_mutation=length, body_mutation=body_change))

    def _response(self, headers: Headers) -> Change:
        found = _read(headers.headers)
        status = found.get(":status", "")
        self._meter = meter = self._answered()
        meter.begin(int(status) if status.isdigit() else 0, found.get("content-type", ""))
        if headers.end_of_stream:
            meter.feed(b"", True)
        if self._plan is None or not self._plan.actions:
            return Change()
        said = HeaderMutation(
            set_headers=[_set("tokenweir-actions", ", ".join(self._plan.actions))]
        )
        return Change(response=CommonResponse(header_mutation=said))

    def _response_body(self, body: Body) -> Change:
        if self._meter is None:
            return Change()
        passed = self._meter.feed(body.body, body.end_of_stream)
        if passed == body.body:
            return Change()
        mutation = BodyMutation(body=passed) if passed else BodyMutation(clear_body=True)
        return Change(response=CommonResponse(body_mutation=mutation))

    def _answered(self) -> Meter:
        return Meter(self._kind or "chat", self._ask, self._count, self._calls)


def _read(headers: HeaderMap) -> Mapping[str, str]:
    return {
        header.key: (header.raw_value or header.value.encode()).decode("utf-8", "replace")
        for header in headers.headers
    }


def _set(name: str, value: str) -> HeaderValueOption:
    header = HeaderValue(key=name, raw_value=value.encode())
    return HeaderValueOption(header=header, append_action=_OVERWRITE)
