"""A file of which the disk does not give all."""

from tailrace.runtime.files import UnreadableError


class BadDisk:
    """Counts what was asked for, and has a place that it cannot read."""

    def __init__(self, content: bytes, *, bad_position: int | None = None) -> None:
        self.content = content
        self.bad_position = bad_position
        self.counts: list[int] = []

    def read_at(self, position: int, count: int) -> bytes:
        self.counts.append(count)
        if self.bad_position is not None and position <= self.bad_position < position + count:
            raise UnreadableError("/log", self.content[position : self.bad_position])
        return self.content[position : position + count]
