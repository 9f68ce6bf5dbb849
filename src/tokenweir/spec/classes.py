"""What holds for each class where the spec does not say."""

from dataclasses import replace

from tokenweir.records.spec import ClassTerms, ServiceClass

CORE: tuple[ServiceClass, ...] = ("guaranteed", "dedicated")
BORROWING: tuple[ServiceClass, ...] = ("preemptible", "spot")  # they have no baseline
CORE_WAIT = 3  # intervals: report, shrink, confirm, grow (L8)

_TERMS: tuple[ClassTerms, ...] = (
    ClassTerms("preemptible", 100_000, None, None, 100_000, 0, "refuse", "limit", "refuse"),
    ClassTerms("spot", 1_000_000, None, None, 200_000, 0, "refuse", "limit", "refuse"),
    ClassTerms("elastic", 100_000_000, None, None, 500_000, 1000, "floor", "none", "floor_only"),
    ClassTerms("guaranteed", 500_000_000, None, None, 1_000_000, 0, "floor", "none", "none"),
    ClassTerms("dedicated", 1_000_000_000, None, None, 1_000_000, 0, "floor", "none", "none"),
)


def default_terms(interval_ms: int) -> tuple[ClassTerms, ...]:
    """The terms of the five classes, lowest first, for a pool with this interval."""
    wait = CORE_WAIT * interval_ms
    return tuple(
        replace(terms, longest_wait_ms=wait) if terms.service_class in CORE else terms
        for terms in _TERMS
    )
