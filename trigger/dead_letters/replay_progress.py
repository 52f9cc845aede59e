"""Which letters of one partition were replayed, in a form that a consumer group can keep with its committed offset.

All letters before the committed offset are done. A replay of selected letters leaves gaps, so the metadata of the
committed offset names the ranges that are done after it.
"""

import re
from bisect import bisect_left, bisect_right

PREFIX = "replayed "
TEXT_CHARACTERS_MAX = 4_000
"""The longest metadata. Brokers take 4096 characters by default."""

_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")


class ReplayProgress:
    """The offsets that are done, as ranges with exclusive ends. Everything before `begin` counts as done."""

    def __init__(self, begin: int, metadata: str = "") -> None:
        """Takes the log start, or the committed offset with its metadata."""
        self._firsts = [0]
        self._ends = [begin]
        if metadata.startswith(PREFIX):
            for part in metadata.removeprefix(PREFIX).split(","):
                found = _RANGE.fullmatch(part)
                if found is not None:
                    self.add(int(found[1]), int(found[2] or found[1]) + 1)

    @property
    def offset(self) -> int:
        """The offset to commit: everything before it is done."""
        return self._ends[0]

    def is_done(self, offset: int) -> bool:
        """Whether the letter at an offset needs no replay."""
        return offset < self._ends[bisect_right(self._firsts, offset) - 1]

    def add(self, first: int, end: int) -> None:
        """Notes that all offsets from `first` to `end`, exclusive, are done."""
        if first >= end:
            return
        low = bisect_left(self._ends, first)
        high = bisect_right(self._firsts, end)
        if low < high:
            first, end = min(first, self._firsts[low]), max(end, self._ends[high - 1])
        self._firsts[low:high] = [first]
        self._ends[low:high] = [end]

    @property
    def metadata(self) -> str:
        """The text to commit with the offset. Ranges that do not fit are left out: they would be replayed again."""
        parts: list[str] = []
        size = len(PREFIX)
        for first, end in zip(self._firsts[1:], self._ends[1:], strict=True):
            part = f"{first}" if end == first + 1 else f"{first}-{end - 1}"
            size += len(part) + 1
            if size > TEXT_CHARACTERS_MAX:
                break
            parts.append(part)
        return PREFIX + ",".join(parts) if parts else ""
