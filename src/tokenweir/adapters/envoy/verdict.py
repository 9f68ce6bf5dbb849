"""Decisions as rate limit responses.

Envoy answers a refusal with one status of its configuration, 429. The status that is meant is in
the dynamic metadata, `envoy.filters.http.ratelimit: status`, for its local reply configuration.
"""

from collections.abc import Iterable

from tokenweir.adapters.envoy.wire_pb2 import HeaderValue, RateLimitResponse
from tokenweir.adapters.openai.replies import JSON, problem
from tokenweir.errors import BadInput
from tokenweir.gateway import Refused
from tokenweir.gateway.answers import answer
from tokenweir.gateway.headers import Header, rate_limit, tightest
from tokenweir.gateway.standing import Standing

OK, OVER_LIMIT = RateLimitResponse.OK, RateLimitResponse.OVER_LIMIT
_MOST_LEFT = (1 << 32) - 1
_Status = RateLimitResponse.DescriptorStatus


def admitted(standings: Iterable[Standing]) -> RateLimitResponse:
    """All descriptors may go; the header fields are those of the last one."""
    response = RateLimitResponse(overall_code=OK)
    headers: tuple[Header, ...] = ()
    for standing in standings:
        left = min(tightest(standing).remaining, _MOST_LEFT)
        response.statuses.append(_Status(code=OK, limit_remaining=left))
        headers = rate_limit(standing)
    _add(response, headers)
    return response


def refused(refusal: Refused, standing: Standing, position: int, count: int) -> RateLimitResponse:
    """The descriptor at `position` of `count` may not go, and so none does."""
    made = answer(refusal, standing)
    response = _over_limit(made.status, made.headers, made.content, position, count)
    if refusal.decision_id:
        response.dynamic_metadata["decision_id"] = refusal.decision_id
    response.dynamic_metadata["reason"] = refusal.reason
    return response


def unusable(error: BadInput, position: int, count: int) -> RateLimitResponse:
    """A descriptor that cannot be read: 400. An error of the call would let the request pass
    wherever failures are allowed.
    """
    headers = (("content-type", JSON), ("x-should-retry", "false"))
    return _over_limit(400, headers, problem(str(error)), position, count)


def _over_limit(
    status: int, headers: tuple[Header, ...], body: bytes, position: int, count: int
) -> RateLimitResponse:
    response = RateLimitResponse(overall_code=OVER_LIMIT, raw_body=body)
    for number in range(count):
        response.statuses.append(_Status(code=OVER_LIMIT if number == position else OK))
    _add(response, headers)
    response.dynamic_metadata["status"] = status
    return response


def _add(response: RateLimitResponse, headers: Iterable[Header]) -> None:
    response.response_headers_to_add.extend(
        HeaderValue(key=name, value=value) for name, value in headers
    )
