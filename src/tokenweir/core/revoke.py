"""Running work of preemptible tenants, stopped when owners need what it occupies.

Preemptible work is revoked when what is left to it would not carry it on, less than a tenth of what
it uses, while owners get back more of their floors than what the ceiling leaves free; or when the
tier refuses its class. Its demand would not do for that: a few long requests that wait are many
times what they use while they run. Nor would each tremor of a floor: what is free takes that in
while running work comes to its end. It may go on by itself after the spec's `resume_ms` of pool
time, as soon as it is granted something (budget tutorial: suspended work resumes after 60 s).
"""

import numpy as np

from tokenweir.core.terms import PREEMPTIBLE, Bools, Ints, Terms

LEAST_PART = 10  # a tenth of what it uses carries work on


def is_revoked(revoked_ms: Ints, at_ms: int) -> Bools:
    """Who stands revoked at `at_ms`; shape (tenants,)."""
    return revoked_ms > at_ms


def revoked(
    terms: Terms,
    running: Ints,
    use: Ints,
    grant: Ints,
    pressed: bool,
    refused: Bools,
) -> Bools:
    """Whose running work is revoked now.

    `running` are requests in flight, `use` is their smoothed rate, `grant` what they have from now
    on; `pressed`: this decision gave floors back to owners that need their place; `refused`: the
    tenant's class gets nothing in this tier.
    """
    taken = (grant * LEAST_PART < use) & pressed
    stopped: Bools = (terms.rank == PREEMPTIBLE) & (running > 0) & (taken | refused)
    return stopped


def in_flight(gauges: list[Ints], tenants: int) -> Ints:
    """Requests in flight at all gateways; each item of `gauges` has shape (6, tenants)."""
    running = np.zeros(tenants, dtype=np.int64)
    for gauge in gauges:
        running += gauge[0]
    return running
