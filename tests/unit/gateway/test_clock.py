from tokenweir.gateway.clock import PoolClock


def test_before_the_first_acknowledgement_there_is_no_time() -> None:
    clock = PoolClock()
    clock.decided(5_000)
    assert clock.at(100) is None


def test_pool_time_is_early_by_the_way_to_the_broker() -> None:
    #  own time   100 sent ──▶ 180 appended at 9 000 ──▶ 250 acknowledged
    clock = PoolClock()
    clock.acknowledged(9_000, sent_ms=100)
    assert clock.at(250) == 9_150  # in truth 9 070


def test_pool_time_never_runs_backwards() -> None:
    clock = PoolClock()
    clock.acknowledged(9_000, sent_ms=0)  # a slow way: 4 s early
    assert clock.at(4_000) == 13_000
    clock.acknowledged(9_010, sent_ms=4_000)
    assert clock.at(4_100) == 13_000
    assert clock.at(8_500) == 13_510


def test_pool_time_is_not_behind_the_newest_decision() -> None:
    clock = PoolClock()
    clock.acknowledged(1_000, sent_ms=0)
    clock.decided(7_000)
    assert clock.at(10) == 7_000
    clock.decided(6_000)
    assert clock.at(20) == 7_000
