"""The rule of a measured rate, and what a pool's engines add up to. Rates in milli-tokens/s."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.capacity.recorded_pages import recorded
from tokenweir.capacity.engine import Engine, heard, missed
from tokenweir.capacity.estimate import Each, Sent, estimate, is_due
from tokenweir.capacity.sample import Sample
from tokenweir.records.spec import TokenWeights
from tokenweir.records.usage import CapacityReport

EQUAL = TokenWeights(1_000_000, 1_000_000, 1_000_000)
NOBODY = Each()


def sample(at_s: float, tokens: int, waiting: int = 1, engines: int = 1) -> Sample:
    return Sample(at_s, engines, 8, waiting, waiting > 0, 0, 0, tokens, 0.5, 1000)


def watched(*samples: Sample) -> Engine:
    engine = Engine()
    for one in samples:
        engine = heard(engine, one, EQUAL)
    return engine


def report(tokens_per_s: int | None, kv_bytes: int | None = None) -> CapacityReport:
    return CapacityReport("chat", "vllm", tokens_per_s, kv_bytes, None)


def test_a_rate_is_measured_over_30_s_in_which_requests_waited() -> None:
    #  0 s          15 s         30 s
    #  | 12 000     | 6 000      |       tokens; requests wait at each scrape
    engine = watched(sample(0, 0), sample(15, 12_000), sample(30, 18_000))
    assert engine.rate == 600_000


def test_the_rate_of_a_recorded_load_is_measured() -> None:
    # 9600 tokens of prompts, 2944 of them cached, and 7028 generated in 30.758 s; then idle.
    assert watched(*recorded("0.32.0")).rate == 540_607
    engine, weights = Engine(), TokenWeights(1_000_000, 100_000, 4_000_000)
    for one in recorded("0.32.0"):
        engine = heard(engine, one, weights)
    assert engine.rate == round((6656 + 294.4 + 4 * 7028) / 30.758 * 1000)


def test_the_rate_of_a_recorded_engine_before_v1_is_measured() -> None:
    # 800 tokens of prompts and 912 generated in 30.342 s.
    assert watched(*recorded("0.9.1")).rate == 56_423


def test_the_rate_of_two_engines_is_that_of_their_server() -> None:
    # 16 000 tokens of prompts and 12 091 generated in 33.237 s.
    assert watched(*recorded("0.32.0-two-engines")).rate == 845_173


def test_nothing_is_measured_where_nobody_waited_for_a_moment() -> None:
    engine = watched(sample(0, 0), sample(15, 9000, waiting=0), sample(30, 18_000))
    assert engine.rate is None


def test_nothing_is_measured_over_a_scrape_that_failed() -> None:
    engine = missed(watched(sample(0, 0), sample(15, 9000)))
    assert heard(engine, sample(30, 18_000), EQUAL).rate is None


def test_a_restart_of_the_server_begins_anew() -> None:
    engine = watched(sample(0, 50_000), sample(15, 100), sample(30, 9100), sample(45, 18_100))
    assert engine.rate == 600_000


def test_the_highest_of_ten_minutes_holds_and_then_falls() -> None:
    fast, slow = 30_000, 15_000  # tokens in 30 s
    samples = [sample(0, 0), sample(30, fast)]
    samples += [sample(30 * n, fast + slow * (n - 1)) for n in range(2, 22)]
    assert watched(*samples).rate == 1_000_000  # 630 s: 600 s after the fast half minute
    last = sample(660, fast + slow * 21)
    assert watched(*samples, last).rate == 500_000


def test_what_was_measured_last_stays_while_nobody_waits() -> None:
    idle = [sample(60 * n, 30_000, waiting=0) for n in range(1, 100)]
    assert watched(sample(0, 0), sample(30, 30_000), *idle).rate == 1_000_000


def test_tokens_count_as_the_pool_charges_them() -> None:
    # 1000 uncached at 1, 2000 cached at 0.1 and 500 out at 4 are 3200 charged tokens in 32 s.
    weights = TokenWeights(1_000_000, 100_000, 4_000_000)
    first = sample(0, 0)
    last = replace(first, at_s=32, prompt_tokens=3000, cached_tokens=2000, out_tokens=500)
    assert heard(heard(Engine(), first, weights), last, weights).rate == 100_000


def test_engines_of_a_pool_add_up() -> None:
    one = watched(sample(0, 0), sample(30, 30_000))
    two = watched(sample(0, 0), sample(30, 15_000))
    each = Each(kv_bytes_per_token=100, sequences=256)
    found = estimate("chat", "vllm", [one, two], each)
    assert found == CapacityReport("chat", "vllm", 1_500_000, 200_000, 512)


def test_a_server_of_two_engines_counts_as_two() -> None:
    found = estimate("chat", "vllm", [watched(sample(0, 0, engines=2))], Each(9000, None, 256))
    assert found == CapacityReport("chat", "vllm", 18_000, None, 512)


def test_a_server_that_missed_three_scrapes_counts_0() -> None:
    each = Each(10_000, 100, 256)
    up, down = watched(sample(0, 0)), missed(missed(watched(sample(0, 0))))
    still = CapacityReport("chat", "vllm", 20_000, 200_000, 512)
    assert estimate("chat", "vllm", [up, down], each) == still
    lost = CapacityReport("chat", "vllm", 10_000, 100_000, 256)
    assert estimate("chat", "vllm", [up, missed(down)], each) == lost
    back = heard(missed(down), sample(9, 0), EQUAL)
    assert estimate("chat", "vllm", [up, back], each) == still


def test_nothing_is_said_before_each_server_has_answered_or_is_down() -> None:
    each = Each(rate=10_000)
    up, new = watched(sample(0, 0)), Engine()
    assert estimate("chat", "vllm", [up, new], each) is None
    gone = missed(missed(missed(new)))
    assert estimate("chat", "vllm", [up, gone], each) == report(10_000)


def test_addresses_that_never_answered_close_no_pool() -> None:
    gone = missed(missed(missed(Engine())))
    assert estimate("chat", "vllm", [gone], Each(rate=10_000)) is None


def test_unknown_strength_leaves_the_rate_as_it_is() -> None:
    # Both down: 0 would stay when they come back, since nobody could measure them then.
    known, unknown = watched(sample(0, 0), sample(30, 30_000)), watched(sample(0, 0))
    assert estimate("chat", "vllm", [known, unknown], NOBODY) is None
    gone = missed(missed(missed(unknown)))
    assert estimate("chat", "vllm", [gone], NOBODY) is None
    assert estimate("chat", "vllm", [gone], Each(sequences=9)) == CapacityReport(
        "chat", "vllm", None, None, 0
    )


def test_a_report_is_due_at_first_at_a_change_and_once_a_minute() -> None:
    sent = Sent(100.0, report(10_000))
    assert is_due(None, report(10_000), 0)
    assert not is_due(sent, report(10_500), 101)
    assert is_due(sent, report(10_600), 101)
    assert is_due(sent, report(9_400), 101)
    assert is_due(sent, report(0), 101)
    assert is_due(sent, report(10_000, kv_bytes=1), 101)
    assert not is_due(sent, report(10_000), 159.9)
    assert is_due(sent, report(10_000), 160)


STEPS = st.lists(
    st.tuples(st.floats(0.1, 40), st.integers(0, 10**6), st.booleans(), st.booleans()), max_size=60
)


@given(STEPS)
def test_a_measured_rate_is_never_above_the_fastest_step(
    steps: list[tuple[float, int, bool, bool]],
) -> None:
    engine, at_s, tokens, fastest = Engine(), 0.0, 0, 0.0
    for took_s, more, waits, fails in steps:
        at_s, tokens = at_s + took_s, tokens + more
        fastest = max(fastest, more / took_s)
        engine = missed(engine) if fails else heard(engine, sample(at_s, tokens, int(waits)), EQUAL)
        assert engine.rate is None or 0 <= engine.rate <= fastest * 1000 * 1.000001 + 1
