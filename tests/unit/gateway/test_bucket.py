from tokenweir.gateway.bucket import Bucket


def flowing(rate: int, burst: int, at_ms: int = 0) -> Bucket:
    bucket = Bucket()
    bucket.restart(at_ms, rate, burst)
    return bucket


def test_a_bucket_starts_empty() -> None:
    bucket = flowing(10_000, 10_000, at_ms=5000)
    bucket.refill(5000)
    assert bucket.level == 0


def test_it_fills_at_its_rate_up_to_its_burst() -> None:
    bucket = flowing(10_000, 15_000)
    bucket.refill(700)
    assert bucket.level == 7_000
    bucket.refill(9_000)
    assert bucket.level == 15_000


def test_no_milli_token_is_lost_by_looking_often() -> None:
    bucket = flowing(333, 10_000)
    for now_ms in range(10_001):
        bucket.refill(now_ms)
    assert bucket.level == 3_330


def test_time_never_runs_backwards() -> None:
    bucket = flowing(1_000, 10_000)
    bucket.refill(2_000)
    bucket.refill(500)
    bucket.refill(2_000)
    assert bucket.level == 2_000


def test_a_renewal_keeps_the_level_capped_by_the_new_burst() -> None:
    bucket = flowing(10_000, 10_000)
    bucket.renew(1_000, 5_000, 4_000)
    assert bucket.level == 4_000
    bucket.renew(1_000, 5_000, 40_000)
    assert bucket.level == 4_000


def test_a_restart_empties_it_and_keeps_what_is_owed() -> None:
    full, owing = flowing(10_000, 10_000), flowing(10_000, 10_000)
    full.restart(1_000, 10_000, 10_000)
    owing.level -= 25_000
    owing.restart(1_000, 10_000, 10_000)
    assert (full.level, owing.level) == (0, -15_000)


def test_what_is_owed_is_paid_before_anything_is_admitted() -> None:
    bucket = flowing(1_000_000, 1_000_000)
    bucket.refill(1_000)
    bucket.level -= 1_200_000
    assert bucket.level == -200_000
    assert bucket.ready_ms() == 201  # 200 tokens at 1 000 a second, and one milli-token more
    bucket.refill(1_200)
    assert bucket.level == 0
    bucket.refill(1_201)
    assert bucket.level > 0


def test_what_a_hold_of_an_earlier_epoch_returns_mints_nothing() -> None:
    bucket = flowing(10_000, 10_000)
    bucket.refill(1_000)
    epoch = bucket.epoch
    bucket.level -= 14_000
    bucket.restart(1_000, 10_000, 10_000)
    assert bucket.level == -4_000
    bucket.put_back(9_000, epoch)
    assert bucket.level == 0
    bucket.put_back(9_000, epoch)
    assert bucket.level == 0


def test_a_bucket_that_does_not_flow_is_never_ready() -> None:
    assert Bucket().ready_ms() is None
    assert flowing(0, 500).ready_ms() is None
