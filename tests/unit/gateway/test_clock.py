from tokenweir.gateway.clock import PoolClock


def test_before_the_first_acknowledgement_there_is_no_time() -> None:
    clock = PoolClock()
    clock.decided(5_000)
    assert clock.at(100) is None


def test_pool_time_is_early_by_the_way_to_the_broker() -> None:
    #  own time   100 sent ──▶ 180 appended at 9 000 ──▶ 250 acknowledged
    clock = PoolClock()
    clock.acknowledged(9_000, sent_ms=100, now_ms=250)
    assert clock.at(250) == 9_150  # in truth 9 070


def test_pool_time_never_runs_backwards() -> None:
    clock = PoolClock()
    clock.acknowledged(9_000, sent_ms=0, now_ms=4_000)  # a slow way: 4 s early
    assert clock.at(4_000) == 13_000
    clock.acknowledged(9_010, sent_ms=4_000, now_ms=4_010)
    assert clock.at(4_100) == 13_000
    assert clock.at(8_500) == 13_510


def test_pool_time_is_not_behind_the_newest_decision() -> None:
    clock = PoolClock()
    clock.acknowledged(1_000, sent_ms=0, now_ms=0)
    clock.decided(7_000)
    assert clock.at(10) == 7_000
    clock.decided(6_000)
    assert clock.at(20) == 7_000


def test_an_acknowledgement_that_slept_tells_no_time() -> None:
    #  own time   0 sent ── 600 000 asleep ──▶ appended and acknowledged
    clock = PoolClock()
    clock.acknowledged(1_000, sent_ms=0, now_ms=10)
    clock.acknowledged(601_500, sent_ms=500, now_ms=600_510)
    assert clock.at(600_510) == 601_510  # in truth 601 500; with that answer 1 201 510


def test_looking_at_the_time_does_not_move_it() -> None:
    clock = PoolClock()
    assert clock.seen(0) is None
    clock.acknowledged(1_000, sent_ms=0, now_ms=0)
    assert clock.seen(5_000) == 6_000
    assert clock.at(100) == 1_100
