"""The wire's integers in words and units that people read."""

_BYTES = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_TIMES = ((3_600_000, "h"), (60_000, "min"), (1000, "s"))


def number(value: int, scale: int = 1) -> str:
    """`value / scale` exactly, without needless zeros; `scale` is a power of ten."""
    whole, rest = divmod(abs(value), scale)
    digits = f"{rest:0{len(str(scale)) - 1}d}".rstrip("0") if scale > 1 else ""
    sign = "-" if value < 0 else ""
    return f"{sign}{whole:,}".replace(",", " ") + (f".{digits}" if digits else "")


def rate(milli: int) -> str:
    """Milli-tokens/s: 20 000 tokens/s."""
    return f"{number(milli, 1000)} tokens/s"


def tokens(milli: int) -> str:
    """Milli-tokens: 20 000 tokens."""
    return f"{number(milli, 1000)} tokens"


def millionths(value: int) -> str:
    """Millionths: 0.95."""
    return number(value, 1_000_000)


def share(value: int) -> str:
    """Millionths: 20 %."""
    return f"{number(value, 10_000)} %"


def size(bytes_: int) -> str:
    """Bytes, in the largest unit that is exact: 40 GiB."""
    for unit, name in _BYTES:
        if bytes_ % unit == 0 and bytes_:
            return f"{number(bytes_ // unit)} {name}"
    return f"{number(bytes_)} B"


def time(ms: int) -> str:
    """Milliseconds, in the largest unit that is exact: 10 min."""
    for unit, name in _TIMES:
        if ms % unit == 0 and ms:
            return f"{number(ms // unit)} {name}"
    return f"{number(ms)} ms" if ms else "0 s"


def week_time(minute: int) -> str:
    """Minutes from Monday 00:00: Fri 08:30."""
    day, rest = divmod(minute, 1440)
    return (
        f"{('Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun')[day]} {rest // 60:02}:{rest % 60:02}"
    )
