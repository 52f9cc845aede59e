"""Which leader epoch began at which offset: tells two replicas where their logs went different ways (KIP-101).

Recovery stamps a new leader's epoch on batches that a consumer may have read under an older one. For clients they stay
what they were (KIP-320): an epoch begins with its bridge, if it has one, and not with the first batch that it stamped.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from operator import attrgetter
from typing import NamedTuple

from tailrace.protocol.ids import NO_EPOCH


class EpochStart(NamedTuple):
    epoch: int
    start: int
    """The offset of the epoch's first record."""


_by_epoch = attrgetter("epoch")
_by_start = attrgetter("start")


class EpochMark(NamedTuple):
    """What a log, or its manifest, tells of an epoch."""

    epoch: int
    start: int
    is_bridge: bool
    """The epoch began here, whatever is stamped before; otherwise that is only the first batch of it that was seen."""


class LeaderEpochs:
    """Epochs and starts both rise; an epoch that appended nothing has no entry."""

    __slots__ = ("_starts",)

    def __init__(self, starts: Iterable[EpochStart] = ()) -> None:
        self._starts: list[EpochStart] = []
        for epoch, start in starts:
            self.begin(epoch, start)

    @classmethod
    def of_marks(cls, marks: Iterable[EpochMark]) -> "LeaderEpochs":
        """In whatever order they were found."""
        marks = sorted(marks, key=_by_start)
        bridges = [mark for mark in marks if mark.is_bridge]
        # From each of them on: in a log of many elections one looks at few for each mark.
        least_epochs = [*accumulate((bridge.epoch for bridge in reversed(bridges)), min)][::-1]
        starts = []
        for mark in marks:
            epoch, start = mark.epoch, mark.start
            for index in range(bisect_left(bridges, start, key=_by_start), len(bridges)):
                bridge = bridges[index]
                if epoch < least_epochs[index]:
                    break
                if start <= bridge.start and epoch >= bridge.epoch:
                    start = bridge.start + (epoch > bridge.epoch)
            starts.append(EpochStart(epoch, start))
        return cls(sorted(starts, key=_by_start))

    def __iter__(self) -> Iterator[EpochStart]:
        return iter(self._starts)

    @property
    def latest(self) -> int:
        return self._starts[-1].epoch if self._starts else NO_EPOCH

    def begin(self, epoch: int, start: int) -> None:
        """An epoch's first record was appended. Says the same twice without harm."""
        while self._starts and self._starts[-1].start >= start and self._starts[-1].epoch <= epoch:
            if self._starts[-1].epoch == epoch:
                return
            self._starts.pop()
        if not self._starts or self._starts[-1].epoch < epoch:
            self._starts.append(EpochStart(epoch, start))

    def begin_with_bridge(self, epoch: int, start: int) -> None:
        """What lies before belongs to older epochs, whoever has stamped it since. A newer one begins behind it."""
        before = [each for each in self._starts if each.epoch < epoch and each.start < start]
        newer = [each for each in self._starts if each.epoch > epoch]
        self._starts = [*before, EpochStart(epoch, start)]
        for each in newer:
            self.begin(each.epoch, max(each.start, start + 1))

    def between(self, start: int, end: int) -> tuple[EpochStart, ...]:
        """Those that began there."""
        return tuple(each for each in self._starts if start <= each.start < end)

    def at(self, offset: int) -> int:
        """The epoch of the record at the offset; NO_EPOCH where nothing is known."""
        index = bisect_right(self._starts, offset, key=_by_start) - 1
        return self._starts[index].epoch if index >= 0 else NO_EPOCH

    def end_of(self, epoch: int, log_end: int) -> tuple[int, int]:
        """Where this epoch ended, with the largest epoch up to it that appended anything, as Kafka answers it.

        An epoch older than all we know ended where the first known one starts. The caller refuses future epochs.
        """
        index = bisect_right(self._starts, epoch, key=_by_epoch)
        end = min(self._starts[index].start, log_end) if index < len(self._starts) else log_end
        return (self._starts[index - 1].epoch if index else epoch), end

    def cut_end(self, log_end: int) -> None:
        """The log was truncated: epochs that started at or after its end are gone."""
        while self._starts and self._starts[-1].start >= log_end:
            self._starts.pop()

    def cut_start(self, log_start: int) -> None:
        """Older records are gone: the epoch that holds the first one that is left begins with it."""
        index = bisect_right(self._starts, log_start, key=_by_start) - 1
        if index >= 0:
            self._starts[: index + 1] = [
                EpochStart(self._starts[index].epoch, max(log_start, self._starts[index].start))
            ]
