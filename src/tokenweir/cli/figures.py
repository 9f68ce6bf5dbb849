"""Figures for tables: short, in the units that people use."""

_RATES = ((10**12, "G"), (10**9, "M"), (10**6, "k"))
_SIZES = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_AGES = ((172_800_000, 86_400_000, "d"), (7_200_000, 3_600_000, "h"), (120_000, 60_000, "min"))


def rate(milli: int) -> str:
    """Milli-tokens/s as tokens a second: 950/s, 20.3k/s."""
    for one, letter in _RATES:
        if abs(milli) >= one:
            return f"{_three(milli / one)}{letter}/s"
    return f"{_three(milli / 1000)}/s"


def count(value: int) -> str:
    """A count: 950, 20.3k."""
    for one, letter in _RATES:
        if abs(value) >= one // 1000:
            return f"{_three(value / (one // 1000))}{letter}"
    return str(value)


def percent(millionths: int) -> str:
    """Millionths as a percentage: 63%."""
    return f"{millionths / 10_000:.0f}%"


def ratio(millionths: int) -> str:
    """Millionths as a ratio: 0.80."""
    return f"{millionths / 1_000_000:.2f}"


def size(bytes_: int) -> str:
    """Bytes: 12.5GiB."""
    for one, unit in _SIZES:
        if bytes_ >= one:
            return f"{_three(bytes_ / one)}{unit}"
    return f"{bytes_}B"


def age(ms: int) -> str:
    """How long ago, or until: 0.8s, 12s, 3min, 5h, 2d."""
    for least, one, unit in _AGES:
        if abs(ms) >= least:
            return f"{ms / one:.0f}{unit}"
    return f"{ms / 1000:.1f}s" if abs(ms) < 10_000 else f"{ms / 1000:.0f}s"


def _three(value: float) -> str:
    """About three digits, without needless zeros."""
    text = f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return text.removesuffix(".0")
