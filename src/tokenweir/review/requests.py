"""What became of requests: a call that is tried again is one request, and several attempts."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tokenweir.records.usage import RequestsBlock

PART = "part"


@dataclass(slots=True)
class Counts:
    """One tenant's requests, of those that ended in the range.

    `attempts` = `admitted` + those refused; `reasons` count the refused.
    """

    ids: set[int] = field(default_factory=set)  # hashes of the requests' ids
    attempts: int = 0
    admitted: int = 0
    errors: int = 0
    estimated: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    @property
    def requests(self) -> int:
        """How many calls users made, however often each was tried."""
        return len(self.ids)

    @property
    def refused(self) -> int:
        """Attempts that were refused."""
        return self.reasons.total()


@dataclass(slots=True)
class Requests:
    """Counts by tenant."""

    tenants: dict[str, Counts] = field(default_factory=dict)

    def add(self, block: RequestsBlock) -> None:
        """Count a report's increments; `block` has every column at its full length."""
        columns: tuple[Sequence[object], ...] = (
            block.id,
            block.status,
            block.tenant,
            block.reason,
            block.error,
            block.estimated,
        )
        for id_, status, tenant, reason, error, estimated in zip(*columns, strict=True):
            if status == PART:
                continue
            assert isinstance(tenant, int)
            assert isinstance(reason, int)
            counts = self.tenants.setdefault(block.names[tenant], Counts())
            counts.ids.add(hash(id_))
            counts.attempts += 1
            counts.estimated += bool(estimated)
            if status == "refused":
                counts.reasons[block.names[reason]] += 1
            else:
                counts.admitted += 1
                counts.errors += bool(error)

    @property
    def total(self) -> Counts:
        """Of all tenants; requests of two tenants are two, even of the same id."""
        sum_ = Counts()
        for tenant, one in self.tenants.items():
            sum_.ids |= {hash((tenant, id_)) for id_ in one.ids}
            sum_.attempts += one.attempts
            sum_.admitted += one.admitted
            sum_.errors += one.errors
            sum_.estimated += one.estimated
            sum_.reasons += one.reasons
        return sum_
