"""One record of every kind, with something in every field."""

from dataclasses import replace

from tests.pools import report, spec, tenant
from tokenweir.records.control import Barred, ClassState, ControlDecision, GatewayLeases, Roster
from tokenweir.records.event import Event
from tokenweir.records.journal import (
    AuditEntry,
    Break,
    DeadLetter,
    DecisionEntry,
    GatewayFigures,
    JournalEntry,
    SnapshotChunk,
    TenantFigures,
)
from tokenweir.records.rows import BlockRow, GatewayRow, PoolRow
from tokenweir.records.spec import Capacity, TokenWeights
from tokenweir.records.usage import CapacityReport, QuotaCeiling, RequestsBlock
from tokenweir.wire import encode

AT = 1_800_000_000_000
WEIGHTS = TokenWeights(1_000_000, 100_000, 4_000_000)
SPEC = replace(
    spec(
        tenant("acme", "dedicated", 1_500, lend_cap=100),
        replace(tenant("büro", "elastic", share=0.25, borrow_cap=40), tags={"team": "search"}),
        tenant("nightly", "preemptible", suspended=True, slo_s=30),
        sequences=64,
        kv_bytes=2**34,
        share_caps={"spot": 0.3},
        alphas={"preemptible": 0.5},
    ),
    burst=20_000_000,
    token_weights=WEIGHTS,
    source="pool: chat\n",
)
DECISION = ControlDecision(
    pool="chat",
    at_ms=AT,
    id=f"chat@{AT}",
    spec_version=3,
    mode="shadow",
    interval_ms=1000,
    longest_request_ms=600_000,
    tier="soft_degrade",
    breaker="half_open",
    breaker_refuses="all",
    probe_rate=500_000,
    level=712_345,
    level_now=730_001,
    lent=99_000,
    alpha=800_000,
    capacity=10_000_000,
    granted=9_000_000,
    priority_threshold="spot",
    parts=2,
    token_weights=WEIGHTS,
    classes=[ClassState("spot", "limit", 200_000, 0, "refuse")],
    unknown_class="preemptible",
)
REQUESTS = RequestsBlock(
    names=["", "acme", "ana", "llama-70b", "chat", "standard", "quota"],
    id=["r1", "r2"],
    attempt=[1, 2],
    tenant=[1, 1],
    user=[2, 0],
    model=[3, 3],
    operation=[4, 4],
    provider_tier=[5, 0],
    reason=[0, 6],
    status=["done", "refused"],
    flow=["online", "batch"],
    priority=[1, 3],
    tokens_uncached=[120, 0],
    tokens_cache_write=[20, 0],
    tokens_cached=[2_000, 0],
    tokens_out=[311, 0],
    refused_tokens=[0, 900],
    estimated=[False, True],
    error=[False, False],
    kv_bytes=[2**20, 0],
    wait_ms=[15, 0],
    duration_ms=[4_200, 0],
    age_ms=[350, 20],
    decision=[AT, 0],
)
REPORT = replace(
    report(
        "gw-1f3a",
        7,
        {"acme": 311, "büro": -20},
        refused={"acme": 900},
        queued={"büro": 40},
        sequences={"acme": 3},
        applied=AT,
        age_ms=12,
        row_age_ms=350,
    ),
    requests=encode(REQUESTS),
)
RECORDS: tuple[object, ...] = (
    REPORT,
    REQUESTS,
    SPEC,
    CapacityReport("chat", "autoscaler", 8_000_000, None, 48),
    QuotaCeiling("chat", "acme", "ana", "2027-01", AT, AT + 2_678_400_000, 5_000_000),
    Event(
        pool="chat",
        tenant="acme",
        user="ana",
        request_id="r1",
        attempt=2,
        status="cancelled",
        provisional=True,
        id="e-17",
        age_ms=350,
        time_ms=None,
        model="llama-70b",
        operation="chat",
        provider_tier="standard",
        reason="cancelled",
        flow="batch",
        priority=1,
        tokens_uncached=45,
        tokens_cache_write=5,
        tokens_cached=20,
        tokens_out=None,
        chars_prompt=260,
        chars_streamed=2_048,
        max_tokens=4_000,
        refused_tokens=0,
        error=False,
        kv_bytes=2**20,
        wait_ms=15,
        duration_ms=4_200,
        decision=AT,
    ),
    DECISION,
    GatewayLeases(
        pool="chat",
        gateway="gw-1f3a",
        part=1,
        parts=2,
        at_ms=AT,
        expires_ms=AT + 15_000,
        floor_expires_ms=AT + 600_000,
        pot_rate=125_000,
        pot_burst=125_000,
        tenant=["acme", "büro"],
        rate=[1_500_000, 400_000],
        burst=[1_500_000, 400_000],
        floor=[1_500_000, 0],
        sequences=[-1, 8],
        kv_bytes=[-1, 2**30],
        ceiling_tenant=["acme"],
        ceiling_user=[""],
        ceiling_window_id=["2027-01"],
        ceiling_starts_ms=[AT],
        ceiling_ends_ms=[AT + 2_678_400_000],
        ceiling_tokens=[5_000_000],
    ),
    Barred("chat", AT, ["nightly", "acme"], ["suspended", "quota"], [0, AT + 60_000]),
    Roster(
        "chat",
        3,
        ["acme", "nightly"],
        ["dedicated", "preemptible"],
        [None, "refuse"],
        ["https://limits.example/acme", ""],
    ),
    JournalEntry(
        "chat",
        AT,
        f"chat@{AT}",
        DecisionEntry(
            DECISION,
            TenantFigures(["acme"], ["dedicated"], *([value] for value in range(1, 14))),
            GatewayFigures(["gw-1f3a"], [7], [AT], [AT - 20], [1_900_000], [0]),
            used=123_456,
            budget=600_000,
        ),
    ),
    DeadLetter("tokenweir.usage.v1", 3, 41, AT, b"chat", None, "the value is null", "control"),
    PoolRow(
        pool="chat",
        clock_ms=AT + 400,
        boundary_ms=AT,
        spec=encode(SPEC),
        pending_spec=None,
        capacity=Capacity(8_000_000, None, 48),
        pending_capacity=Capacity(7_000_000, 2**34, None),
        tier="soft_degrade",
        above=[2, 0],
        below_since_ms=[-1, AT - 3_000],
        level=712_345,
        barred=["nightly"],
        barred_reason=["suspended"],
        notes=2,
        newest_s=AT // 1000,
        seconds=2,
        flows=bytes(7 * 2 * 8),
        gateways=["gw-1f3a"],
        gone=["gw-0"],
        gone_sequence=[99],
        gone_seen_ms=[AT - 60_000],
    ),
    GatewayRow(
        gateway="gw-1f3a",
        sequence=7,
        missing=1,
        first_ms=AT - 9_000,
        seen_ms=AT - 20,
        applied_ms=AT - 1_000,
        parts=2,
        reported=True,
        closed=False,
        more=True,
        tenant=["acme"],
        figures=bytes(15 * 8),
        issued_ms=[AT],
        expires_ms=[AT + 15_000],
        floor_expires_ms=[AT + 600_000],
        pot=[125_000],
        issued=bytes(2 * 8),
    ),
    BlockRow(["acme", "büro"], 3, bytes(range(48))),
)
# The other bodies of a journal entry; a corpus file each, beside the decision's.
BODIES: tuple[AuditEntry | SnapshotChunk | Break, ...] = (
    AuditEntry(
        "reclaim", "chat", ["nightly"], ["acme"], 70, "milli-tokens/s", "70", "0", "it came back"
    ),
    SnapshotChunk(42, 0, True, 1, ["pools/chat"], [b"\x00\xff"]),
    Break("offsets 3 to 9 are gone from the log", 10, 1),
)


def samples() -> dict[str, object]:
    """Every record by the name of its file, without the version."""
    named = {type(record).__name__: record for record in RECORDS}
    for body in BODIES:
        kind = type(body).__name__
        named[f"JournalEntry-{kind}"] = JournalEntry("chat", AT, f"chat@{AT}/{kind}", body)
    return named
