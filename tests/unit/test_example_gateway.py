"""The example's simulated model and its look-up of who calls, without a gateway."""

import pytest
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from examples.openai_gateway import chat, identify
from tokenweir.adapters.asgi import Caller


@pytest.mark.parametrize(
    ("header", "caller"),
    [(b"Bearer acme:bo", Caller("acme", "bo")), (b"Bearer", None), (b"", None)],
)
def test_a_key_is_a_tenant_and_a_user(header: bytes, caller: Caller | None) -> None:
    assert identify({"headers": [(b"authorization", header)]}) == caller


def test_a_body_that_asks_for_nothing_is_answered_with_400() -> None:
    app = Starlette(routes=[Route("/v1/chat/completions", chat, methods=["POST"])])
    answer = TestClient(app).post("/v1/chat/completions", json={"model": "m-large"})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "model and messages are needed"
