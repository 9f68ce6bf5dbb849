"""Per-tenant figures that live from decision to decision."""

from dataclasses import dataclass

import numpy as np

from tokenweir.core.terms import Ints


@dataclass(slots=True)
class Tally:
    """Per-tenant figures that live from decision to decision; arrays of shape (tenants,)."""

    refused: Ints  # requests since the last decision
    waits: Ints  # ms since the last decision
    rate: Ints  # smoothed use, milli-tokens/s
    refusals: Ints  # smoothed, thousandths of a request per second
    wait: Ints  # smoothed, ms per decision
    burst: Ints  # smoothed excess over the baseline, millionths of it
    debt: Ints  # millionths of the baseline
    carry: Ints  # what rounding took, millionths
    grant: Ints  # of the last decision, milli-tokens/s
    floor: Ints  # of the last decision, milli-tokens/s
    borrowed: Ints  # of the last decision, milli-tokens/s
    lost_ms: Ints  # when a reclaim last took from it
    gained_ms: Ints  # when a reclaim last gave to it
    revoked_ms: Ints  # until when its work is revoked
    sequences: Ints  # smoothed, thousandths
    kv: Ints  # smoothed, MiB
    carry_sequences: Ints  # what rounding took, millionths
    carry_kv: Ints  # the same
    ended: Ints  # requests since the last decision
    failed: Ints  # of these
    looked_ended: Ints  # requests since the tuning's last look
    looked_refused: Ints  # the same
    looked_spent: Ints  # charged tokens since then
    looked_wait: Ints  # ms since then
    limit: Ints  # tuned: times the quotas and the borrow cap, millionths; 0 is one
    limit_was: Ints  # before its last change, while that is on trial; else 0
    limit_ms: Ints  # of its last change; 0: none
    limit_asked: Ints  # what asked for the change on trial, millionths
    raised_at: Ints  # what asked for raising when it did not help; 0: nothing
    lowered_at: Ints  # the same of lowering


TALLIES = tuple(Tally.__dataclass_fields__)


def new_tally(tenants: int) -> Tally:
    """A tally of so many tenants, all zero."""
    return Tally(*(np.zeros(tenants, dtype=np.int64) for _ in TALLIES))
