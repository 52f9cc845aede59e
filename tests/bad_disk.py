"""A file that the disk cannot read completely."""

from tailrace.runtime.files import UnreadableError


class BadDisk:
    """Counts the bytes that are read, and fails at one position."""

    def __init__(self, content: bytes, *, bad_position: int | None = None) -> None:
        self.content = content
        self.bad_position = bad_position
        self.counts: list[int] = []

    def read_at(self, position: int, count: int) -> bytes:
        self.counts.append(count)
        if self.bad_position is not None and position <= self.bad_position < position + count:
            raise UnreadableError("/log", self.content[position : self.bad_position])
        return self.content[position : position + count]
