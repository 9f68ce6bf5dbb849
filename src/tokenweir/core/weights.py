"""Who goes first under scarcity (DESIGN, decision 4; Token Pools paper)."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tokenweir.core import ONE
from tokenweir.core.terms import Ints, Terms
from tokenweir.records.spec import WeightTerms

# So that the sum of all tenants' weights stays within 64 bits.
MOST_WEIGHT = 10**13


def weights(terms: Terms, factors: WeightTerms, burst: Ints, debt: Ints) -> Ints:
    """w = w_class / ((1 + a_slo*l) * (1 + a_burst*b)) * (1 + a_debt*d), in millionths, at least 1.

    l is the SLO target in seconds, `burst` and `debt` are in millionths; shapes (tenants,).
    """
    slo = _by_slo(terms, factors.slo)
    bursty = 1.0 + factors.burst / ONE * (burst / ONE)
    owed = 1.0 + factors.debt / ONE * (debt / ONE)
    weight = np.minimum(terms.class_weight / (slo * bursty) * owed, MOST_WEIGHT)
    return np.maximum(weight.astype(np.int64), 1)


@lru_cache(maxsize=64)
def _by_slo(terms: Terms, factor: int) -> NDArray[np.float64]:
    weight: NDArray[np.float64] = 1.0 + factor / ONE * (terms.slo_ms / 1000)
    return weight
