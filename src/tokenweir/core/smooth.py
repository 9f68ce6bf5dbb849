"""Smoothed figures: E_t = λ·I_t + (1 - λ)·E_{t-1}, in whole numbers (budget tutorial)."""

import numpy as np

from tokenweir.core import ONE
from tokenweir.core.terms import Ints


def smooth(before: Ints, now: Ints, gain: int) -> Ints:
    """One step with weight `gain` (millionths) for the newest figure; rounds down, so it ends at 0.

    Figures up to 9 * 10**12 in size do not overflow.
    """
    return (before * (ONE - gain) + now * gain) // ONE


def decay(figure: Ints, gain: int, times: int) -> Ints:
    """`times` steps with nothing new."""
    for _ in range(times):
        figure = figure * (ONE - gain) // ONE
    return figure


def debt(before: Ints, demand: Ints, served: Ints, baseline: Ints, gain: int) -> Ints:
    """d = max(0, (1 - μ)·d + μ·(min(D, baseline) - served)/baseline), in millionths.

    Service below the baseline adds to what the pool owes, service above pays it back (DESIGN,
    decision 8). Tenants without a baseline are owed nothing. Shapes (tenants,).
    """
    short = np.floor_divide((np.minimum(demand, baseline) - served) * ONE, np.maximum(baseline, 1))
    short = np.maximum(short, -100 * ONE)
    owed = np.maximum(smooth(before, short, gain), 0)
    return np.where(baseline > 0, owed, 0)
