import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.gateway.made import EPOCH_MS, POOL, ask, decision, leases, obeying, roster
from tokenweir.gateway.answers import Answer, answer
from tokenweir.gateway.headers import duration, rate_limit
from tokenweir.gateway.pool import PoolGate
from tokenweir.gateway.reasons import Reason, Refused
from tokenweir.gateway.standing import standing
from tokenweir.records.control import Roster

URL = "https://limits.example/ded"


def refusal(reason: Reason, retry_after_s: float = 1.2, **changes: Any) -> Refused:
    fields: dict[str, Any] = {
        "pool": POOL,
        "tenant": "ded",
        "reason": reason,
        "retry_after_s": retry_after_s,
        "decision_id": f"{POOL}@{EPOCH_MS}",
        "needed": 500,
        "available": 0,
    }
    return Refused(**{**fields, **changes})


def answered(gate: PoolGate, refused: Refused, now_ms: int = 0, user: str = "") -> Answer:
    return answer(refused, standing(gate, refused.tenant, user, now_ms))


def headers(gate: PoolGate, now_ms: int, tenant: str = "ded", user: str = "") -> dict[str, str]:
    return dict(rate_limit(standing(gate, tenant, user, now_ms)))


def test_what_is_left_of_a_lease_stands_in_both_forms() -> None:
    """1 000 tokens/s with a burst of 1 000, empty at 0: after 600 ms 600 are there."""
    gate = obeying(("ded", 1000, 1000, 0))
    found = headers(gate, 600)
    assert found["ratelimit-policy"] == '"lease";q=1000;w=1;qu="tokens"'
    assert found["ratelimit"] == '"lease";r=600;t=1'
    assert found["x-ratelimit-limit-tokens"] == "1000"
    assert found["x-ratelimit-remaining-tokens"] == "600"
    assert found["x-ratelimit-reset-tokens"] == "400ms"
    assert found["tokenweir-decision"] == f"chat@{EPOCH_MS}"
    assert "x-ratelimit-limit-requests" not in found


def test_what_is_owed_is_a_field_of_its_own_and_remaining_is_never_negative() -> None:
    """Limit 1 000, one request of 1 200: it completes, and 200 are owed (field note 42)."""
    gate = obeying(("ded", 1000, 1000, 0))
    assert headers(gate, 1000)["x-ratelimit-remaining-tokens"] == "1000"
    assert ask(gate, 1000, "ded", 1200).state == "admitted"
    found = headers(gate, 1000)
    assert found["ratelimit"] == '"lease";r=0;t=1;tokenweir-owed=200'
    assert found["x-ratelimit-remaining-tokens"] == "0"
    assert found["x-ratelimit-reset-tokens"] == "2s"
    body = answered(gate, refusal("tokens"), 1000).body
    assert body["error"]["owed"] == 200


def test_a_refusal_says_when_to_come_back_in_whole_seconds_and_exactly() -> None:
    gate = obeying(("ded", 1000, 1000, 0))
    found = answered(gate, refusal("tokens", 1.2))
    assert found.status == 429
    assert dict(found.headers)["retry-after"] == "2"
    assert dict(found.headers)["retry-after-ms"] == "1200"
    assert dict(found.headers)["tokenweir-reason"] == "tokens"
    error = json.loads(found.content)["error"]
    assert error["type"] == "tokens"
    assert error["code"] == "rate_limit_exceeded"
    assert error["param"] is None
    assert error["decision_id"] == f"chat@{EPOCH_MS}"
    assert (error["needed"], error["available"]) == (500, 0)
    assert "Retry after 2 s." in error["message"]


@pytest.mark.parametrize("reason", ["breaker", "no_decision", "silent", "queue_full", "closing"])
def test_the_services_own_fault_is_503(reason: Reason) -> None:
    found = answered(obeying(), refusal(reason))
    assert found.status == 503
    assert found.body["error"]["type"] == "server_error"


def test_a_refusal_by_quota_says_when_the_window_ends_and_where_to_raise_the_limit() -> None:
    """A ceiling of 100 in a window that ends at 60 000; 50 of it are spent at 1 000."""
    ceilings = [("ded", "", "2027-01", 0, 60_000, 100)]
    gate = PoolGate(POOL, "edge")
    gate.acknowledged(EPOCH_MS, 0, 0)
    known = roster()
    urls = [URL if name == "ded" else "" for name in known.tenant]
    gate.hear(Roster(POOL, 1, known.tenant, known.service_class, known.on_silence, urls), 0)
    gate.hear(leases("edge", ("ded", 1000, 1000, 0), ceilings=ceilings), 0)
    gate.hear(decision(), 0)
    assert ask(gate, 1000, "ded", 50).state == "admitted"
    refused = ask(gate, 1000, "ded", 80)
    assert refused.denial is not None
    assert refused.denial.reason == "quota"

    found = answered(gate, refusal("quota", 60.0, needed=80, available=50), 1000)
    error = found.body["error"]
    ends = datetime.fromtimestamp((EPOCH_MS + 60_000) / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert error["code"] == "insufficient_quota"
    assert (error["window_id"], error["window_ends"]) == ("2027-01", ends)
    assert error["raise_limit_url"] == URL
    assert f"ends at {ends}" in error["message"]
    assert URL in error["message"]
    fields = dict(found.headers)
    assert fields["ratelimit"] == '"lease";r=950;t=1, "quota";r=50;t=59'
    assert fields["ratelimit-policy"].endswith('"quota";q=100;w=60;qu="tokens"')
    # The quota is what is tightest, so it is what OpenAI's fields tell.
    assert fields["x-ratelimit-remaining-tokens"] == "50"
    assert fields["x-ratelimit-reset-tokens"] == "59s"


def test_a_refusal_by_a_users_own_quota_names_the_user_and_its_window() -> None:
    ceilings = [("ded", "", "2027", 0, 90_000, 30), ("ded", "bo", "2027-01", 0, 60_000, 50)]
    gate = obeying(("ded", 1000, 1000, 0), ceilings=ceilings)
    found = answered(gate, refusal("quota", 60.0, user="bo"), 1000, "bo").body["error"]
    assert (found["user"], found["window_id"]) == ("bo", "2027-01")
    assert "the quota is used up (that of user 'bo' alone)" in found["message"]
    found = answered(gate, refusal("quota", 60.0), 1000, "bo").body["error"]
    assert (found["user"], found["window_id"]) == (None, "2027")


def test_a_wait_longer_than_clients_obey_is_not_to_be_retried_at_once() -> None:
    fields = dict(answered(obeying(), refusal("quota", 3600.0)).headers)
    assert fields["x-should-retry"] == "false"
    assert fields["retry-after"] == "3600"
    assert "retry-after-ms" not in fields


def test_sequences_are_concurrent_requests() -> None:
    gate = obeying(("ded", 1000, 1000, 0), sequences=2)
    assert ask(gate, 1000, "ded", 1, sequences=2).state == "admitted"
    found = headers(gate, 1000)
    assert found["ratelimit-policy"].endswith(', "sequences";q=2;qu="concurrent-requests"')
    assert found["ratelimit"].endswith(', "sequences";r=0')
    assert found["x-ratelimit-limit-requests"] == "2"
    assert found["x-ratelimit-remaining-requests"] == "0"
    assert found["x-ratelimit-reset-requests"] == "1s"


def test_a_tenant_without_a_lease_reads_what_the_starter_pot_gives_it() -> None:
    gate = obeying(pot=(500, 500))
    assert headers(gate, 1000, "ela")["ratelimit"] == '"pot";r=500;t=0'
    assert ask(gate, 1000, "ela", 100).state == "admitted"
    assert headers(gate, 1000, "ela")["x-ratelimit-remaining-tokens"] == "400"


def test_before_the_first_decision_there_is_nothing_left() -> None:
    gate = PoolGate(POOL, "edge")
    found = headers(gate, 0)
    assert found["ratelimit"] == '"lease";r=0'
    assert "tokenweir-decision" not in found


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0s"),
        (120, "120ms"),
        (1000, "1s"),
        (1001, "2s"),
        (360_000, "6m0s"),
        (3_661_000, "1h1m1s"),
    ],
)
def test_durations_are_written_as_openai_does(ms: int, text: str) -> None:
    assert duration(ms) == text
