"""Which part of a log is meant: by pool time, or by offset; both ends belong to it."""

from dataclasses import dataclass

from tokenweir.errors import BadInput


@dataclass(frozen=True, slots=True)
class Span:
    """Decisions between two boundaries, or those that the messages between two offsets caused.

    None is open: from the first, to the last. Raises `BadInput` when both ways are mixed, and for
    an end before the beginning.
    """

    from_ms: int | None = None
    to_ms: int | None = None
    from_offset: int | None = None
    to_offset: int | None = None

    def __post_init__(self) -> None:
        by_time, by_offset = (self.from_ms, self.to_ms), (self.from_offset, self.to_offset)
        if any(end is not None for end in by_time) and any(end is not None for end in by_offset):
            raise BadInput("a range is by time or by offset: give --from and --to, or the offsets")
        for first, last in (by_time, by_offset):
            if first is not None and last is not None and last < first:
                raise BadInput(f"the range ends at {last}, before it begins at {first}")

    @property
    def is_open(self) -> bool:
        """Whether it goes on to whatever is the last."""
        return self.to_ms is None and self.to_offset is None

    def has_begun(self, boundary_ms: int, offset: int) -> bool:
        """Whether a decision of this boundary, which this message caused, is not before it."""
        return boundary_ms >= (self.from_ms or 0) and offset >= (self.from_offset or 0)

    def is_over(self, boundary_ms: int, offset: int) -> bool:
        """Whether that decision is behind it."""
        late = self.to_ms is not None and boundary_ms > self.to_ms
        return late or (self.to_offset is not None and offset > self.to_offset)
