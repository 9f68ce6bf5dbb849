"""A refusal as the error that the LiteLLM proxy answers as it is."""

from typing import Any

from litellm.proxy._types import ProxyException

from tokenweir.errors import BadInput
from tokenweir.gateway.answers import Answer


class Turned(ProxyException):  # type: ignore[misc]  # LiteLLM is not in this environment
    """Answered by the proxy with our status, header fields and error body."""

    def __init__(self, answer: Answer) -> None:
        self.error: dict[str, Any] = dict(answer.body["error"])
        super().__init__(
            message=self.error["message"],
            type=self.error["type"],
            param=None,
            code=answer.status,
            headers={name: value for name, value in answer.headers if name != "content-type"},
            openai_code=self.error["code"],
        )

    def to_dict(self) -> dict[str, Any]:
        """The error's body; LiteLLM's own form would leave out the figures."""
        return dict(self.error)


def bad_request(error: BadInput) -> ProxyException:
    """The answer to a request that cannot be."""
    return ProxyException(message=str(error), type="invalid_request_error", param=None, code=400)
