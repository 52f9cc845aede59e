"""Which batches get an entry in the indexes of a segment, and the entries of both, side by side."""

from array import array

from . import offset_index


class IndexEntries:
    __slots__ = ("interval_bytes", "last_position", "next_position", "offsets", "times")

    def __init__(self, interval_bytes: int, last_position: int = 0) -> None:
        self.interval_bytes = interval_bytes
        self.start_after(last_position)
        self.offsets = array("Q")
        self.times = array("q")

    def __len__(self) -> int:
        return len(self.offsets)

    def start_after(self, last_position: int) -> None:
        """The batch there got the last entry. The first batch of a segment needs none."""
        self.last_position = last_position
        self.next_position = last_position + max(1, self.interval_bytes)
        """The first batch from here on gets an entry."""

    def keep(self, count: int) -> None:
        """Only the first ones."""
        del self.offsets[count:], self.times[count:]
        self.start_after(offset_index.position_of(self.offsets[-1]) if count else 0)

    def thin_out(self, count_max: int) -> None:
        """Leaves so many at most."""
        step = -(-len(self.offsets) // count_max)
        if step > 1:
            self.offsets, self.times = self.offsets[::step], self.times[::step]

    def on_batch(self, relative_offset: int, position: int, max_timestamp_before: int) -> None:
        if position >= self.next_position:
            self.offsets.append(offset_index.entry(relative_offset, position))
            self.times.append(max_timestamp_before)
            self.start_after(position)
