"""A virtual replica with continuous batching, in fluid steps: an event a phase, none a token.

A step gives every running sequence one token and takes `step_ms`, and `per_sequence_ms` for each
beside the first. While prompts wait, a step also takes in a chunk of the oldest (chunked prefill,
Sarathi-Serve), at the prefill rate, and is longer by that. A request holds one sequence slot and
the KV cache of its prompt and output.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf

from simpy import Environment

from tokenweir.sim.after import Alarm
from tokenweir.sim.job import NEVER, Job

CLOSE = 1e-6  # tokens: what is nearer than that is there


@dataclass(frozen=True, slots=True)
class Profile:
    """What one replica can do."""

    prefill_tokens_per_s: float
    step_ms: float  # a decode step of one sequence
    per_sequence_ms: float  # and more for each further one
    slots: int
    kv_tokens: int
    chunk: int = 512  # prompt tokens a step: vLLM's max_num_batched_tokens, 0.6


# Measured by the authors of Splitwise (ISCA'24) on DGX machines, tensor parallel 8, and published
# with SplitwiseSim (data/perf_model.csv): 64 prompts of 512 tokens in 2.94 s and 7.64 s; a decode
# step of 29.7 ms and 44.9 ms for one sequence, 50.0 ms and 71.3 ms for 64. Nobody measured more
# than 64. The KV cache is what 90 % of 8 x 80 GB leaves beside 140 GB of weights, 320 KiB a token.
PROFILES = {
    "llama2-70b-h100": Profile(11_100.0, 29.7, 0.322, 64, 1_330_000),
    "llama2-70b-a100": Profile(4_290.0, 44.9, 0.419, 64, 1_330_000),
}


class Engine:
    """One replica."""

    __slots__ = (
        "_alarm",
        "_chunk_ms",
        "_decoding",
        "_ended",
        "_env",
        "_full_ms",
        "_last",
        "_number",
        "_passes",
        "_prefill",
        "kv_tokens",
        "profile",
        "running",
        "work_ms",
    )

    def __init__(self, env: Environment, profile: Profile, ended: Callable[[Job], None]) -> None:
        self.profile = profile
        self.running: dict[Job, None] = {}
        self.kv_tokens = 0
        self.work_ms = 0.0  # what it did, in ms of a replica with all slots in use
        self._env = env
        self._ended = ended
        self._prefill: deque[Job] = deque()
        self._decoding: list[tuple[float, int, Job]] = []  # by the pass after which they end
        self._passes = 0.0  # tokens that each decoding sequence has got since the start
        self._last = env.now
        self._alarm = Alarm(env, self._wake)
        self._number = 0
        self._chunk_ms = 1000 * profile.chunk / profile.prefill_tokens_per_s
        self._full_ms = self._step_ms(profile.slots) / profile.slots

    def fits(self, job: Job) -> bool:
        """There is a slot, and room in the KV cache."""
        room = self.profile.kv_tokens - self.kv_tokens
        return len(self.running) < self.profile.slots and job.prompt + job.output <= room

    def load(self) -> tuple[int, int]:
        """What a balancer looks at: prompts that wait here, then sequences."""
        return len(self._prefill), len(self.running)

    def produced(self, job: Job) -> tuple[int, int]:
        """Tokens of prompt taken in, and of output given, so far."""
        self._advance()
        if job.finish == NEVER:
            return int(max(job.prompt - job.left, 0.0)), int(job.produced)
        return job.prompt, int(job.output - (job.finish - self._passes))

    def add(self, job: Job) -> None:
        """Begin with a job, or again with one that was stopped: its tokens so far are prompt."""
        self._advance()
        job.engine = self
        job.left = job.prompt + job.produced
        job.finish = NEVER
        self.running[job] = None
        self.kv_tokens += job.prompt + job.output
        self._prefill.append(job)
        self._plan()

    def remove(self, job: Job) -> None:
        """Stop a job; what it has produced is kept for when it goes on."""
        self._advance()
        self._leave(job)
        if job in self._prefill:
            self._prefill.remove(job)
        else:
            job.produced = max(job.output - (job.finish - self._passes), 0.0)
            job.finish = NEVER  # its place in the heap says nothing any more
        self._plan()

    def _leave(self, job: Job) -> None:
        del self.running[job]
        self.kv_tokens -= job.prompt + job.output
        job.engine = None

    def _step_ms(self, sequences: int) -> float:
        return self.profile.step_ms + self.profile.per_sequence_ms * max(sequences - 1, 0)

    def _pace(self) -> tuple[float, float]:
        """Prompt tokens and passes a ms as things stand."""
        decoding = len(self.running) - len(self._prefill)
        if not self._prefill:
            return 0.0, 1 / self._step_ms(decoding) if decoding else 0.0
        step_ms = self._chunk_ms + (self._step_ms(decoding) if decoding else 0.0)
        return self.profile.chunk / step_ms, 1 / step_ms if decoding else 0.0

    def _advance(self) -> None:
        passed = self._env.now - self._last
        self._last = self._env.now
        if passed <= 0 or not self.running:
            return
        taken, passes = self._pace()
        decoding = len(self.running) - len(self._prefill)
        if self._prefill:
            self._prefill[0].left -= taken * passed
        self._passes += passes * passed
        prefill_ms = taken * 1000 / self.profile.prefill_tokens_per_s
        self.work_ms += passed * (prefill_ms + passes * decoding * self._full_ms)

    def _plan(self) -> None:
        """Wake when the next job changes its phase, unless an earlier wake is due already."""
        while self._decoding and self._decoding[0][0] != self._decoding[0][2].finish:
            heappop(self._decoding)
        taken, passes = self._pace()
        wait = max(self._prefill[0].left, 0.0) / taken if self._prefill else inf
        if self._decoding:
            wait = min(wait, max(self._decoding[0][0] - self._passes, 0.0) / passes)
        if wait < inf:
            self._alarm.at(self._env.now + wait)

    def _wake(self) -> None:
        self._advance()
        while self._prefill and self._prefill[0].left <= CLOSE:
            self._decode(self._prefill.popleft())
        ended = []
        while self._decoding and self._decoding[0][0] <= self._passes + CLOSE:
            finish, _, job = heappop(self._decoding)
            if finish == job.finish and job.engine is self:
                self._leave(job)
                ended.append(job)
        self._plan()
        for job in ended:
            job.produced = job.output
            self._ended(job)

    def _decode(self, job: Job) -> None:
        """Its prompt is in, and that gives a first token."""
        if job.first == NEVER:
            job.first = self._env.now
        self._number += 1
        job.finish = self._passes + max(job.output - max(job.produced, 1.0), 0.0)
        heappush(self._decoding, (job.finish, self._number, job))
