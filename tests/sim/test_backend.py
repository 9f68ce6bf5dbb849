"""The virtual GPU pool, by figures that can be checked by hand."""

import pytest
from simpy import Environment

from tokenweir.sim.gpu import GpuPool, Profile
from tokenweir.sim.job import Job

# 1000 prompt tokens/s: a chunk of 100 takes 100 ms. A decode step takes 10 ms, and 1 ms more for
# each sequence beside the first.
PROFILE = Profile(1000.0, 10.0, 1.0, slots=4, kv_tokens=10_000, chunk=100)


def pool(
    replicas: int = 1, profile: Profile = PROFILE
) -> tuple[Environment, GpuPool, list[tuple[int, float]]]:
    """A pool, and who ended when."""
    env = Environment()
    ended: list[tuple[int, float]] = []

    def done(job: Job) -> None:
        ended.append((job.number, env.now))

    return env, GpuPool(env, profile, replicas, done), ended


def job(number: int, prompt: int, output: int) -> Job:
    return Job(number, "acme", "acme", 0.0, prompt, output, lambda job, wait: None)


def test_one_request_alone_takes_its_prefill_and_a_step_for_each_further_token() -> None:
    env, gpu, ended = pool()
    one = job(1, 200, 11)
    gpu.submit(one)
    env.run()
    assert one.first == pytest.approx(200)
    assert [number for number, _ in ended] == [1]
    assert ended[0][1] == pytest.approx(300)  # ten steps of 10 ms


def test_a_batch_shares_steps_that_grow_with_it() -> None:
    env, gpu, ended = pool()
    for number in range(4):
        gpu.submit(job(number, 1, 1001))
    env.run()
    # A thousand steps of 13 ms, after four tokens of prompt.
    assert ended[0][1] == pytest.approx(13_000, rel=0.01)
    assert ended[-1][1] == pytest.approx(13_000, rel=0.01)
    assert gpu.work_ms / env.now == pytest.approx(1, rel=0.01)


def test_a_prompt_slows_those_that_decode_and_is_slowed_by_them() -> None:
    env, gpu, _ = pool()
    first, second = job(1, 100, 1001), job(2, 1000, 2)
    gpu.submit(first)
    env.run(until=200)
    gpu.submit(second)
    env.run(until=5_000)
    # Ten chunks of 100 ms, each with a step of 10 ms for the other.
    assert second.first == pytest.approx(200 + 1100)


def test_what_finds_no_slot_waits_first_come_first_served() -> None:
    env, gpu, ended = pool()
    for number in range(6):
        gpu.submit(job(number, 100, 101))
    assert len(gpu.queue) == 2
    env.run()
    assert [number for number, _ in ended] == [0, 1, 2, 3, 4, 5]
    assert gpu.longest_queue == 2


def test_the_kv_cache_bounds_what_runs() -> None:
    env, gpu, ended = pool(profile=Profile(1000.0, 10.0, 1.0, slots=4, kv_tokens=250))
    for number in range(3):
        gpu.submit(job(number, 100, 20))
    assert gpu.running == 2
    env.run()
    assert len(ended) == 3


def test_what_ran_on_a_lost_replica_starts_again_before_those_that_wait() -> None:
    env, gpu, ended = pool(replicas=2)
    for number in range(9):
        gpu.submit(job(number, 100, 101))
    env.run(until=500)
    gpu.resize(1)
    assert gpu.running == 4
    assert [one.number for one in gpu.queue][:4] == [1, 3, 5, 7]
    assert [one.number for one in gpu.queue][4:] == [8]
    env.run()
    assert len(ended) == 9
    # Two replicas for half a second, then one.
    assert gpu.time_ms == pytest.approx(500 + env.now)


def test_a_stopped_request_goes_on_where_it_was_and_pays_its_prompt_again() -> None:
    env, gpu, ended = pool()
    one = job(1, 100, 101)
    gpu.submit(one)
    env.run(until=600)  # 100 ms of prompt, then 50 of its 100 steps
    gpu.stop(one)
    assert one.produced == pytest.approx(51)
    env.run(until=1_000)
    assert not ended
    gpu.submit(one)
    env.run()
    assert ended[0][1] == pytest.approx(1_000 + 151 + 500)
