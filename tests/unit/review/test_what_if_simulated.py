"""What a what-if says of a changed policy, beside what real gateways then do in the simulator."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.recordings import Recording, messages, recorded
from tokenweir.core.step import UsageRecord
from tokenweir.records.spec import PoolSpec
from tokenweir.review.frames import frame_of
from tokenweir.review.span import Span
from tokenweir.review.sums import Sums, summed
from tokenweir.review.what_if import Policy, what_if
from tokenweir.sim import control
from tokenweir.sim.figures import simulate
from tokenweir.sim.read import read_scenario

# An owner that leaves most of its 15 000 tokens/s idle, and a borrower that wants far more.
SCENARIO = """\
scenario: lending
pool:
  pool: chat
  alpha: {alpha}
  capacity: {{tokens_per_s: 40k/s}}
  token_weights: {{uncached: 1, out: 8.67}}
  tenants:
    owner: {{class: guaranteed, baseline: 15k/s}}
    borrower: {{class: elastic, baseline: 10k/s}}
gpu: {{profile: llama2-70b-h100, replicas: 6}}
duration: 25 s
workloads:
  owner: {{rate: 8, arrivals: regular, prompt: 512, output: 16}}
  borrower: {{rate: 60, prompt: 512, output: 16}}
"""


class Run:
    """What the gateways of a simulated pool reported, and what was decided."""

    def __init__(self, alpha: str, patch: pytest.MonkeyPatch) -> None:
        self.log: list[tuple[int, UsageRecord]] = []
        self.planes: list[control.Plane] = []
        patch.setattr(control.Plane, "append", self._append(control.Plane.append))
        simulate(read_scenario(SCENARIO.format(alpha=alpha), "lending.yaml"))
        patch.undo()

    @property
    def recording(self) -> Recording:
        return recorded(messages(self.log))

    @property
    def spec(self) -> PoolSpec:
        found = self.log[0][1]
        assert isinstance(found, PoolSpec)
        return found

    @property
    def sums(self) -> Sums:
        return summed([frame_of(taken.entry) for taken in self.planes[-1].decisions])

    def _append(
        self, live: Callable[[control.Plane, UsageRecord], int]
    ) -> Callable[[control.Plane, UsageRecord], int]:
        def append(plane: control.Plane, record: UsageRecord) -> int:
            at_ms = live(plane, record)
            self.log.append((at_ms, record))
            self.planes.append(plane)
            return at_ms

        return append


def instead(spec: PoolSpec) -> Policy:
    return lambda _: replace(spec)


async def test_what_would_have_been_is_what_is(monkeypatch: pytest.MonkeyPatch) -> None:
    low, high = Run("0.2", monkeypatch), Run("0.8", monkeypatch)
    for before, after in ((low, high), (high, low)):
        found = await what_if(before.recording, Span(), instead(after.spec))
        told, real = summed(found.changed.frames), after.sums
        was = summed(found.recorded.frames).tenants["borrower"].spent
        for tenant in ("owner", "borrower"):
            assert told.tenants[tenant].spent == pytest.approx(real.tenants[tenant].spent, rel=0.02)
        assert abs(was - real.tenants["borrower"].spent) > 100_000  # what there is to tell
