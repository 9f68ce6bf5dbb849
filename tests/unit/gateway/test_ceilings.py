from tests.unit.gateway.made import (
    admitted,
    ask,
    barred,
    class_states,
    give,
    obeying,
    reason,
    settle,
)

LEASE = ("ela", 1000, 1000, 0)
#  own time   0 ───── window 1 ───── 10 000 ───── window 2 ───── 20 000
ONE = ("ela", "", "w1", 0, 10_000, 100)
TWO = ("ela", "", "w2", 10_000, 20_000, 50)


def test_spending_in_a_window_never_passes_its_ceiling() -> None:
    gate = obeying(LEASE, ceilings=[ONE])
    assert admitted(gate, 1000, "ela", 30) == 3
    assert reason(ask(gate, 1000, "ela", 30)) == "quota"
    assert ask(gate, 1000, "ela", 10).state == "admitted"


def test_a_refusal_by_quota_says_when_the_window_ends_plus_an_interval() -> None:
    gate = obeying(LEASE, ceilings=[ONE])
    refused = ask(gate, 1000, "ela", 101)
    assert refused.denial is not None
    assert refused.denial.retry_ms == 9000 + 1000


def test_a_settled_request_counts_with_what_it_used() -> None:
    gate = obeying(LEASE, ceilings=[ONE])
    settle(gate, ask(gate, 1000, "ela", 90), 1000, 20)
    assert ask(gate, 1000, "ela", 80).state == "admitted"
    assert reason(ask(gate, 1000, "ela", 1)) == "quota"


def test_a_raised_ceiling_keeps_what_was_spent() -> None:
    gate = obeying(LEASE, ceilings=[ONE])
    admitted(gate, 1000, "ela", 100)
    give(gate, 1000, LEASE, ceilings=[("ela", "", "w1", 0, 10_000, 150)])
    assert ask(gate, 1100, "ela", 51).state == "ended"
    assert ask(gate, 1100, "ela", 50).state == "admitted"


def test_what_was_used_in_a_window_refuses_nothing_in_the_next() -> None:
    gate = obeying(LEASE, ceilings=[ONE, TWO], expires_ms=30_000)
    admitted(gate, 1000, "ela", 100)
    assert reason(ask(gate, 9_999, "ela", 10)) == "quota"
    assert admitted(gate, 10_000, "ela", 10) == 5


def test_nothing_passes_in_a_window_whose_ceiling_is_not_known() -> None:
    gate = obeying(LEASE, ceilings=[ONE], expires_ms=30_000)
    assert reason(ask(gate, 10_000, "ela", 1)) == "quota"


def test_a_users_ceiling_holds_for_that_user_alone() -> None:
    gate = obeying(LEASE, ceilings=[("ela", "bo", "w1", 0, 10_000, 10)])
    refused = ask(gate, 1000, "ela", 11, user="bo")
    assert refused.denial == ("quota", 10_000, False, 10, "bo")
    assert ask(gate, 1000, "ela", 11, user="cy").state == "admitted"


def test_the_tenants_ceiling_refuses_in_nobodys_name() -> None:
    gate = obeying(LEASE, ceilings=[ONE, ("ela", "bo", "w1", 0, 10_000, 200)])
    refused = ask(gate, 1000, "ela", 101, user="bo")
    assert refused.denial == ("quota", 10_000, True, 100, "")


def test_what_was_spent_before_the_first_ceiling_came_counts() -> None:
    gate = obeying(LEASE)
    ask(gate, 1000, "ela", 60)
    give(gate, 1000, LEASE, ceilings=[ONE])
    assert ask(gate, 2000, "ela", 41).state == "ended"
    assert ask(gate, 2000, "ela", 40).state == "admitted"


def test_a_tenant_whose_ceilings_are_gone_is_free() -> None:
    gate = obeying(LEASE, ceilings=[ONE])
    give(gate, 1000, LEASE)
    assert ask(gate, 2000, "ela", 500).state == "admitted"


def test_a_quota_counts_tokens_and_not_requests() -> None:
    hour = ("ela", "", "h1", 0, 3_600_000, 3000)
    gate = obeying(("ela", 10_000, 10_000, 0), ceilings=[hour])
    asked = [ask(gate, 1000, "ela", 150).state for _ in range(30)]
    assert asked == ["admitted"] * 20 + ["ended"] * 10


def test_who_is_barred_because_its_quota_is_spent_is_told_the_same() -> None:
    gate = obeying(pot=(100, 100))
    gate.hear(barred(0, ("ela", "quota", 30_000), ("gua", "quota", 0)), 0)
    assert ask(gate, 1000, "ela", 10).denial == ("quota", 29_000 + 1000, False, 0, "")
    assert ask(gate, 1000, "gua", 10).state == "waiting"  # its ceilings come when it asks


DAY = ("ela", "", "day/2027-01-15", 0, 40_000, 150)
MINUTES = (
    ("ela", "", "minute/2027-01-15T08:00+00:00", 0, 10_000, 100),
    ("ela", "", "minute/2027-01-15T08:01+00:00", 10_000, 20_000, 100),
)


def test_all_quotas_of_a_tenant_must_have_room() -> None:
    """
    minute  100 ─────────── 10 000 100 ─────────── 20 000
    day     150 ──────────────────────────────────────────── 40 000
    """
    gate = obeying(LEASE, ceilings=[DAY, *MINUTES], expires_ms=50_000)
    assert admitted(gate, 1000, "ela", 20) == 5
    assert admitted(gate, 10_000, "ela", 20) == 2
    refused = ask(gate, 10_000, "ela", 20)
    assert refused.denial is not None
    assert refused.denial.retry_ms == 30_000 + 1000  # the day's end, not the minute's


def test_where_one_of_its_quotas_is_not_known_a_tenant_may_spend_nothing() -> None:
    gate = obeying(LEASE, ceilings=[DAY, *MINUTES], expires_ms=50_000)
    assert reason(ask(gate, 20_000, "ela", 1)) == "quota"


def test_a_quota_that_the_spec_has_dropped_holds_nobody_back() -> None:
    gate = obeying(LEASE, ceilings=[DAY, *MINUTES], expires_ms=50_000)
    admitted(gate, 1000, "ela", 20)
    give(gate, 1000, LEASE, ceilings=[DAY], expires_ms=50_000)
    assert ask(gate, 2000, "ela", 50).state == "admitted"


def test_an_older_record_than_the_newest_window_changes_nothing() -> None:
    """32: a cached ceiling of the window before says nothing about this one."""
    gate = obeying(LEASE, ceilings=[*MINUTES], expires_ms=50_000)
    admitted(gate, 1000, "ela", 100)
    give(gate, 9_000, LEASE, ceilings=[MINUTES[0]], expires_ms=50_000)
    assert reason(ask(gate, 10_000, "ela", 1)) == "quota"  # the new one is not known
    give(gate, 10_000, LEASE, ceilings=[*MINUTES], expires_ms=50_000)
    assert admitted(gate, 10_000, "ela", 10) == 10


def test_a_tenant_whose_ceiling_lacks_tokens_waits_for_the_next_decisions() -> None:
    small = ("ela", "", "day/2027-01-15", 0, 90_000, 10)
    waits = {"classes": class_states(elastic={"longest_wait_ms": 1000})}
    gate = obeying(LEASE, ceilings=[small], expires_ms=50_000, changes=waits)
    asked = ask(gate, 1000, "ela", 50)
    assert reason(asked) == "waiting"
    give(gate, 1500, LEASE, ceilings=[(*small[:5], 200)], expires_ms=50_000, changes=waits)
    assert gate.serve(1500) == [asked]
    assert reason(asked) == "admitted"
    assert reason(ask(gate, 1600, "ela", 500)) == "waiting"
    gate.serve(2700)
    assert ask(gate, 4700, "ela", 500).state == "ended"  # three intervals later nobody waits for it


def test_where_nothing_was_given_yet_the_next_decision_may_bring_something() -> None:
    """A quota over several pools begins so in each (Q2)."""
    gate = obeying(LEASE, ceilings=[(*ONE[:5], 0)])
    assert ask(gate, 1000, "ela", 10).denial == ("quota", 1000, True, 0, "")
    assert ask(gate, 7000, "ela", 10).denial == ("quota", 3000 + 1000, False, 0, "")


class TestEverybody:
    ALL = ("ela", "*", "w1", 0, 10_000, 30)

    def test_what_everybody_may_spend_holds_for_each_user_by_itself(self) -> None:
        gate = obeying(LEASE, ceilings=[self.ALL])
        assert [ask(gate, 1000, "ela", 20, user=name).state for name in ("bo", "cy", "bo")] == [
            "admitted", "admitted", "ended",
        ]  # fmt: skip

    def test_a_user_with_ceilings_of_its_own_keeps_what_it_spent_before(self) -> None:
        gate = obeying(LEASE, ceilings=[self.ALL])
        ask(gate, 1000, "ela", 20, user="bo")
        give(gate, 1000, LEASE, ceilings=[self.ALL, ("ela", "bo", "w1", 0, 10_000, 100)])
        assert ask(gate, 1100, "ela", 81, user="bo").state == "ended"
        assert ask(gate, 1100, "ela", 80, user="bo").state == "admitted"
        give(gate, 2000, LEASE, ceilings=[self.ALL])
        assert ask(gate, 2100, "ela", 1, user="bo").state == "ended"

    def test_who_has_no_ceilings_of_its_own_yet_may_have_them_after_the_next_decision(self) -> None:
        gate = obeying(LEASE, ceilings=[self.ALL])
        assert ask(gate, 1000, "ela", 31, user="bo").denial == ("quota", 1000, False, 30, "bo")

    def test_who_names_no_user_is_held_by_the_tenants_quota_alone(self) -> None:
        gate = obeying(LEASE, ceilings=[self.ALL])
        assert ask(gate, 1000, "ela", 200, user="").state == "admitted"
