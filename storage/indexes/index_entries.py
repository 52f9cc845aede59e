"""The entries of a segment's two indexes in memory, and the rule for which batches get one."""

from array import array

from . import offset_index


class IndexEntries:
    """Parallel entries of the offset index and the time index."""

    __slots__ = ("interval_bytes", "last_position", "next_position", "offsets", "times")

    def __init__(self, interval_bytes: int, last_position: int = 0) -> None:
        self.interval_bytes = interval_bytes
        self.start_after(last_position)
        self.offsets = array("Q")
        self.times = array("q")

    def __len__(self) -> int:
        return len(self.offsets)

    def start_after(self, last_position: int) -> None:
        """Sets the position of the last batch with an entry. The first batch of a segment needs none."""
        self.last_position = last_position
        self.next_position = last_position + max(1, self.interval_bytes)
        """The first batch at or after this position gets an entry."""

    def keep(self, count: int) -> None:
        """Keeps only the first `count` entries."""
        del self.offsets[count:], self.times[count:]
        self.start_after(offset_index.position_of(self.offsets[-1]) if count else 0)

    def thin_out(self, count_max: int) -> None:
        """Drops entries evenly until at most `count_max` are left."""
        step = -(-len(self.offsets) // count_max)
        if step > 1:
            self.offsets, self.times = self.offsets[::step], self.times[::step]

    def on_batch(self, relative_offset: int, position: int, max_timestamp_before: int) -> None:
        """Adds an entry for the batch if it is far enough behind the last batch with an entry."""
        if position >= self.next_position:
            self.offsets.append(offset_index.entry(relative_offset, position))
            self.times.append(max_timestamp_before)
            self.start_after(position)
