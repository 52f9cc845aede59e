"""Which batches get an entry in the indexes of a segment, and the entries of both, side by side."""

from array import array

from . import offset_index


class IndexEntries:
    __slots__ = ("interval_bytes", "last_position", "offsets", "times")

    def __init__(self, interval_bytes: int, last_position: int = 0) -> None:
        self.interval_bytes = interval_bytes
        self.last_position = last_position
        """Of the batch that got the last entry. The first batch of a segment needs none."""
        self.offsets = array("Q")
        self.times = array("q")

    def __len__(self) -> int:
        return len(self.offsets)

    def wants(self, position: int) -> bool:
        """Whether the batch at this position gets an entry."""
        return position - self.last_position >= self.interval_bytes and position > 0

    def on_batch(self, relative_offset: int, position: int, max_timestamp_before: int) -> None:
        if self.wants(position):
            self.offsets.append(offset_index.entry(relative_offset, position))
            self.times.append(max_timestamp_before)
            self.last_position = position
