"""Recorded runs of gateways that obey: each spends no more than its leases let it."""

from collections.abc import Callable, Iterator, Mapping

from tests.pools import START, report, step
from tokenweir.core.pool import new_pool
from tokenweir.core.step import UsageRecord
from tokenweir.records.control import GatewayLeases
from tokenweir.records.spec import PoolSpec

Offers = Callable[[int], Mapping[str, int]]  # tokens/s of each tenant, at a time
STEP_MS = 500


def enforced(
    rules: PoolSpec,
    offers: Offers,
    *,
    seconds: int = 40,
    gateways: str = "ab",
    extra: Mapping[int, UsageRecord] | None = None,
) -> Iterator[tuple[int, UsageRecord]]:
    """The log of a run; `extra` are other records, by the second after which they come."""
    pool = new_pool(rules.pool)
    leases: dict[str, GatewayLeases] = {}
    later = {START + second * 1000 + 50: record for second, record in (extra or {}).items()}

    def played(at_ms: int, record: UsageRecord) -> tuple[int, UsageRecord]:
        decided = step(pool, record, at_ms)
        if decided is not None:
            leases.update({own.gateway: own for own in decided.leases})
        return at_ms, record

    yield played(START - 400, rules)
    for number in range(seconds * 1000 // STEP_MS):
        at_ms = START + number * STEP_MS
        for place, gateway in enumerate(gateways):
            shares = {name: rate // len(gateways) for name, rate in offers(at_ms).items()}
            spent, refused = _spent(leases.get(gateway), shares)
            applied = leases[gateway].at_ms if gateway in leases else 0
            one = report(gateway, number + 1, spent, refused=refused, applied=applied)
            yield played(at_ms + 10 * place, one)
        if at_ms + 50 in later:
            yield played(at_ms + 50, later[at_ms + 50])


def _spent(
    own: GatewayLeases | None, asked: Mapping[str, int]
) -> tuple[dict[str, int], dict[str, int]]:
    rates = dict(zip(own.tenant, own.rate, strict=True)) if own else {}
    spent = {
        name: min(rate, rates.get(name, 0) // 1000) * STEP_MS // 1000
        for name, rate in asked.items()
    }
    return spent, {name: rate * STEP_MS // 1000 - spent[name] for name, rate in asked.items()}
