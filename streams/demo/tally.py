"""What became of the load, counted where it was offered."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self


@dataclass(slots=True)
class Tally:
    """One tenant's requests and tokens. Input tokens include the cached ones."""

    admitted: int = 0
    refused: int = 0
    input: int = 0
    cached: int = 0
    output: int = 0
    reasons: Counter[str] = field(default_factory=Counter)  # of the refusals

    def spend(self, uncached: int, cached: int, out: int) -> None:
        """Count an admitted request that has ended."""
        self.admitted += 1
        self.input += uncached + cached
        self.cached += cached
        self.output += out

    def refuse(self, reason: str) -> None:
        """Count a request that was not admitted."""
        self.refused += 1
        self.reasons[reason] += 1

    def plus(self, other: "Tally") -> "Tally":
        """Both together."""
        return Tally(
            self.admitted + other.admitted,
            self.refused + other.refused,
            self.input + other.input,
            self.cached + other.cached,
            self.output + other.output,
            self.reasons + other.reasons,
        )

    def counts(self) -> tuple[int, int, int, int, int]:
        """What the history must count as well."""
        return self.admitted, self.refused, self.input, self.cached, self.output

    def to_json(self) -> dict[str, Any]:
        """As a mapping of plain values."""
        return {**asdict(self), "reasons": dict(self.reasons)}  # asdict would count its pairs

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Self:
        """From what `to_json` gave."""
        return cls(**{**plain, "reasons": Counter(plain["reasons"])})


Tallies = dict[str, Tally]  # by tenant


def together(parts: Iterable[Mapping[str, Tally]]) -> Tallies:
    """The sum over several gateways."""
    sums: Tallies = {}
    for part in parts:
        for tenant, tally in part.items():
            sums[tenant] = sums.get(tenant, Tally()).plus(tally)
    return dict(sorted(sums.items()))
