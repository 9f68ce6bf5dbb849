"""Who is entitled, for gateways: the record that is published when a spec comes into force (L8)."""

from tokenweir.core import ONE
from tokenweir.records.control import Roster
from tokenweir.records.spec import RAISE_LIMIT, UNKNOWN, PoolSpec


def roster(spec: PoolSpec) -> Roster:
    """Every entitled tenant's class, and the weights of its users that are not 1."""
    known = [claim for claim in spec.entitlements if claim.tenant != UNKNOWN]
    known.sort(key=lambda claim: claim.tenant)
    urls = [claim.tags.get(RAISE_LIMIT, "") for claim in known]
    users = [
        (claim.tenant, terms.user, terms.weight)
        for claim in known
        for terms in sorted(claim.users, key=lambda terms: terms.user)
        if terms.weight != ONE
    ]
    return Roster(
        pool=spec.pool,
        spec_version=spec.version,
        tenant=[claim.tenant for claim in known],
        service_class=[claim.service_class for claim in known],
        on_silence=[claim.on_silence for claim in known],
        raise_limit=urls if any(urls) else [],
        user_tenant=[tenant for tenant, _, _ in users],
        user=[user for _, user, _ in users],
        user_weight=[weight for _, _, weight in users],
    )
