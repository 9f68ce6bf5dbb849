"""Waiting in virtual time: fair by tokens, nobody starves, nothing is lost, promises hold."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.waiting import PATIENT_MS, Run, gate_with, patient
from tests.unit.gateway.made import ONE, class_states
from tokenweir.gateway.fair import Fair
from tokenweir.gateway.line import AGING_MS, POT_WEIGHTS
from tokenweir.gateway.queue import WEIGHTS
from tokenweir.gateway.request import Request
from tokenweir.records.usage import Flow

sizes = st.integers(1, 100)
longer = st.integers(10, 100)
seeds = st.integers(0, 10**9)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.sampled_from((1, 2, 4)), sizes), min_size=2, max_size=8), seeds)
def test_what_waiting_flows_get_is_within_a_request_of_their_share(
    flows: list[tuple[int, int]], seed: int
) -> None:
    random = Random(seed)
    fair: Fair[int] = Fair(PATIENT_MS)
    got = [0] * len(flows)
    for key, (weight, _) in enumerate(flows):
        fair.join(key, weight, 0)
    for _ in range(300):
        turn = fair.next(0)
        assert turn is not None
        cost = random.randint(1, flows[turn][1])
        fair.served(turn, cost, 0)
        got[turn] += cost
        level = sum(got) / sum(weight for weight, _ in flows)  # B/Σw
        widest = max(most / weight for weight, most in flows)
        for tokens, (weight, _) in zip(got, flows, strict=True):
            assert abs(tokens - weight * level) <= weight * widest


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.sampled_from((1, 2, 3)), longer), min_size=2, max_size=6), seeds)
def test_users_that_wait_share_a_lease_by_tokens_and_priority(
    users: list[tuple[int, int]], seed: int
) -> None:
    random = Random(seed)
    run = Run(gate_with(("ela", 300, 300, 0), changes=patient(elastic=PATIENT_MS)))
    run.arrive(1000, Request("ela", "first", 600))
    for user, (priority, most) in enumerate(users):
        waiting = [
            Request("ela", str(user), random.randint(1, most), priority=priority)
            for _ in range(10_000 // most)
        ]
        run.arrive_all(1001, waiting)
    run.until(8000)
    run.served.pop("first")
    weights = [WEIGHTS[priority] for priority, _ in users]
    level = sum(run.served.values()) / sum(weights)
    widest = max(most / weight for weight, (_, most) in zip(weights, users, strict=True))
    for user, weight in enumerate(weights):
        assert abs(run.served.get(str(user), 0) - weight * level) <= weight * widest


@pytest.mark.parametrize("apart", [True, False])
def test_ten_times_longer_requests_get_no_more_tokens_over_five_minutes(apart: bool) -> None:
    """Two users of one tenant, or two tenants of one class at the starter pot."""
    if apart:
        gate = gate_with(pot=(1000, 1000), changes=patient(elastic=PATIENT_MS))
        gate.roster.update({"long": gate.roster["ela"], "short": gate.roster["ela"]})
        tenants = ("long", "short")
    else:
        gate = gate_with(("ela", 1000, 1000, 0), changes=patient(elastic=PATIENT_MS))
        tenants = ("ela", "ela")
    run = Run(gate)
    run.arrive(1000, Request(tenants[0], "long", 2000))
    #  as fast as they can: each asks anew when it was served, and keeps ten waiting
    run.on_end = lambda done: run.arrive(
        run.now_ms, Request(done.tenant, done.user, done.cost // 1000)
    )
    for tenant, user, size in zip(tenants, ("long", "short"), (500, 50), strict=True):
        run.arrive_all(1001, (Request(tenant, user, size) for _ in range(10)))
    run.until(301_000)
    long, short = run.served["long"], run.served["short"]
    print(f"\nlong {long} tokens, short {short}: {abs(long - short) / (long + short):.2%} apart")
    assert abs(long - short) <= 0.05 * (long + short) / 2


@settings(max_examples=25, deadline=None)
@given(sizes, sizes, st.sampled_from((1, 2, 3)), seeds)
def test_batch_and_low_priority_wait_no_longer_than_their_aging_says(
    small: int, large: int, priority: int, seed: int
) -> None:
    #  a hundred tokens a second of new users' requests come for each that flows
    random = Random(seed)
    run = Run(gate_with(("ela", 100, 100, 0), changes=patient(elastic=60_000)))
    run.arrive(1000, Request("ela", "first", 150))
    low = Request("ela", "low", large, priority=1, flow="batch")
    run.arrive(1001, low)
    for number in range(400):
        size = random.randint(1, small)
        at_ms = 1001 + number * small * 5
        run.arrive(at_ms, Request("ela", f"user {number}", size, priority=priority))
    run.until(60_000)
    #  what is owed when it comes, then aging: k = 0, a request of at most 150 tokens at 100/s
    assert low.state == "ended"
    assert low.status == "done"
    assert low.wait_ms <= AGING_MS + 5 * max(small, large, 150) * 10


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 50), st.integers(1, 50), seeds)
def test_the_lowest_class_at_the_pot_waits_no_longer_than_its_aging_says(
    small: int, large: int, seed: int
) -> None:
    random = Random(seed)
    every = dict.fromkeys(("preemptible", "spot", "elastic", "guaranteed"), 60000)
    run = Run(gate_with(pot=(100, 100), changes=patient(**every)))
    run.arrive(1000, Request("ela", "first", 150))
    low = Request("pre", "low", large)
    run.arrive(1001, low)
    for number in range(600):
        tenant = random.choice(("gua", "ela", "spo"))
        run.arrive(1001 + number * small * 5, Request(tenant, "", random.randint(1, small)))
    run.until(60_000)
    assert low.status == "done"
    assert low.wait_ms <= AGING_MS + 5 * 4 * max(small, large, 150) * 10  # k = 3 classes


def test_the_pot_is_shared_by_the_weights_of_the_classes() -> None:
    # The lowest three, so that all are served in the time: 0.1 to 1 to 100.
    every = dict.fromkeys(("preemptible", "spot", "elastic"), PATIENT_MS)
    gate = gate_with(pot=(4_000, 4_000), changes=patient(**every))
    gate.lines.pot._aging_ms = PATIENT_MS
    run = Run(gate)
    run.arrive(1000, Request("ela", "first", 8_000))
    for tenant in ("pre", "spo", "ela"):
        run.arrive_all(1001, (Request(tenant, tenant, 5) for _ in range(10_000)))
    run.until(11_000)
    got = [run.served.get(tenant, 0) for tenant in ("pre", "spo", "ela")]
    level = sum(got) / sum(POT_WEIGHTS[:3])
    for tokens, weight in zip(got, POT_WEIGHTS, strict=False):
        assert abs(tokens - weight * level) <= 5 * weight / POT_WEIGHTS[0]
    assert got[2] > 90 * got[1] > 0


def test_online_goes_first_and_batch_gets_what_is_left() -> None:
    run = Run(gate_with(("ela", 1000, 1000, 0), changes=patient(elastic=PATIENT_MS)))
    run.arrive(1000, Request("ela", "first", 1001))
    run.arrive_all(1001, (Request("ela", "batch", 100, flow="batch") for _ in range(100)))
    run.arrive_all(1002, (Request("ela", "online", 100) for _ in range(30)))
    run.until(3900)
    assert run.served == {"first": 1001, "online": 2900}
    run.until(8000)
    assert run.served["online"] == 3000
    assert run.served["batch"] >= 4000


@settings(max_examples=40, deadline=None)
@given(seeds, st.integers(1, 200), st.sampled_from((0, 40, 3000)))
def test_every_request_ends_once_and_returns_everything(
    seed: int, most_waiting: int, runs_ms: int
) -> None:
    random = Random(seed)
    waits = patient(elastic=3000, spot=500, preemptible=8000)
    rows = (("ela", 300, 300, 100), ("gua", 500, 500, 500), ("spo", 100, 100, 0))
    gate = gate_with(*rows, pot=(200, 200), changes=waits, sequences=20, most_waiting=most_waiting)
    run = Run(gate, runs_ms)
    asked = []
    for _ in range(400):
        flow: Flow = random.choice(("online", "batch"))
        timeout_ms = random.choice((None, None, 0, 50, 2000))
        request = Request(
            random.choice(("ela", "gua", "spo", "pre", "ded", "who?", "x")),
            random.choice("abc"),
            random.randint(0, 300),
            priority=random.randint(1, 3),
            flow=flow,
            timeout_ms=timeout_ms,
        )
        asked.append(request)
        run.arrive(random.randint(1000, 9000), request)
    gone = 0
    for at_ms in range(1000, 12_000, 100):
        run.until(at_ms)
        waiting = [request for request in gate.lines if random.random() < 0.1]
        for request in waiting:
            gate.abandon(request, at_ms)
        gone += len(waiting)
        assert len(gate.lines) == sum(r.state == "waiting" for r in asked) <= most_waiting
        assert gate.lines.pot_crowd.cost == sum(
            r.cost for r in asked if r.state == "waiting" and r.subject in gate.lines.pot
        )
    run.until(60_000)
    assert {request.state for request in asked} == {"ended"}
    assert len(run.ended) + gone == len(asked) == len({id(request) for request in run.ended}) + gone
    assert len(gate.rows) >= len(asked)
    assert sum(row[8] in ("done", "refused") for row in gate.rows) == len(asked)
    subjects = (*gate.subjects.values(), gate.stranger)
    assert not any(s.in_flight or s.waiting or s.sequences or s.kv_bytes for s in subjects)
    assert sum(s.spent for s in subjects) == sum(
        r.cost // 1000 for r in asked if r.status == "done"
    )
    lines = gate.lines
    assert (lines.count, lines._lines, lines._levels, len(lines.pot)) == (0, {}, {}, 0)
    assert lines.pot_crowd.cost == 0
    assert gate.next_ms is None or gate.next_ms > 60_000


@settings(max_examples=60, deadline=None)
@given(
    seeds, st.sampled_from(("ela", "spo", "pre")), st.sampled_from((0, 300, 2000)), st.booleans()
)
def test_who_comes_when_it_was_promised_is_admitted_within_a_second(
    seed: int, tenant: str, wait_ms: int, leased: bool
) -> None:
    random = Random(seed)
    waits = patient(elastic=wait_ms, spot=wait_ms, preemptible=wait_ms)
    if leased:
        gate = gate_with((tenant, 1000, 1000, 0), changes=waits)
    else:
        #  a place at the pot is worth what it says until the next decision
        gate = gate_with(pot=(1000, 1000), changes={**waits, "interval_ms": PATIENT_MS})
    run = Run(gate)
    late: list[int] = []
    promised: dict[str, int] = {}

    def end(request: Request) -> None:
        first = request.id.rpartition("+")[0] or request.id
        if request.status != "refused":
            if first in promised:
                late.append(run.now_ms - promised[first])
            return
        assert request.denial is not None
        assert request.denial.retry_ms is not None
        if first in promised:
            late.append(PATIENT_MS)  # it came as told and was refused again
        promised[first] = run.now_ms + request.denial.retry_ms
        again = Request(tenant, request.user, request.cost // 1000, id=f"{first}+1")
        run.arrive(promised[first], again)

    run.on_end = end
    for number in range(random.randint(20, 150)):
        request = Request(tenant, random.choice("abcd"), random.randint(1, 400), id=f"r{number}")
        #  a promise counts those who wait and those refused before, not those still to come
        run.arrive(1000 + random.choice((0, random.randint(0, wait_ms))), request)
    run.until(PATIENT_MS)
    assert len(late) == len(promised)
    assert max(late, default=0) <= 1000


def test_no_shows_cost_nothing() -> None:
    gate = gate_with(("spo", 1000, 1000, 0))
    run = Run(gate)
    run.arrive_all(1000, (Request("spo", "gone", 100) for _ in range(100)))
    run.until(1000)
    assert [r.status for r in run.ended].count("refused") == 90
    run.arrive_all(20_000, (Request("spo", "new", 100) for _ in range(11)))
    run.until(20_000)
    assert run.served["new"] == 1000
    #  the hundredth of those that are gone was promised 10 s; nobody waits for it now
    assert run.ended[-1].denial is not None
    assert run.ended[-1].denial.retry_ms == 1


def test_a_promise_at_the_pot_counts_the_tenants_own_allowance_too() -> None:
    half = {"classes": class_states(spot={"starter": ONE // 2})}
    run = Run(gate_with(pot=(1000, 1000), changes=half))
    run.arrive_all(1000, (Request("spo", "a", 250) for _ in range(4)))
    run.until(1000)
    retries = [r.denial.retry_ms for r in run.ended if r.denial is not None]
    assert retries == [1, 501]


@settings(max_examples=6, deadline=None)
@given(st.lists(st.integers(1, 8), min_size=2, max_size=4), seeds)
def test_users_share_their_tenants_lease_by_weight_and_none_starves(
    weights: list[int], seed: int
) -> None:
    random = Random(seed)
    gate = gate_with(("ela", 10_000, 10_000, 0), changes=patient(elastic=PATIENT_MS))
    #  whoever weighs 1 need not be named
    shown = {("ela", str(user)): w * ONE for user, w in enumerate(weights) if w > 1}
    gate.user_weights.update(shown)
    run = Run(gate)

    def again(user: int | str) -> Request:
        return Request("ela", str(user), random.randint(10, 30))

    def end(done: Request) -> None:
        if done.user != "first":
            run.arrive(run.now_ms, again(done.user))

    run.on_end = end
    run.arrive(1000, Request("ela", "first", 10_010))
    #  lasting demand: each keeps three requests waiting, and asks anew when one was served
    for user in range(len(weights)):
        run.arrive_all(1001, (again(user) for _ in range(3)))
    run.until(4001)
    run.served.pop("first")
    total = sum(run.served.values())
    assert total >= 29_900
    for user, weight in enumerate(weights):
        share = total * weight / sum(weights)
        assert abs(run.served[str(user)] - share) <= 0.05 * share
