"""The leader epochs of a log and the offsets at which they began, which show where two logs diverge (KIP-101).

Recovery stamps a new leader's epoch on batches that a consumer may have read with an older epoch. For clients, those
batches keep their old epoch (KIP-320): an epoch begins with its bridge if it has one, and not with the first batch that
was stamped with it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from operator import attrgetter
from typing import NamedTuple

from tailrace.protocol.ids import NO_EPOCH


class EpochStart(NamedTuple):
    """A leader epoch and the offset at which it began."""

    epoch: int
    start: int
    """The offset of the epoch's first record."""


_by_epoch = attrgetter("epoch")
_by_start = attrgetter("start")


class EpochEvidence(NamedTuple):
    """What a log or its manifest says about the start of an epoch."""

    epoch: int
    start: int
    is_bridge: bool
    """Whether the epoch certainly began at `start`, whatever is stamped on earlier batches. Otherwise `start` is
    only the first batch of the epoch that was seen."""


class LeaderEpochs:
    """The epochs of a log in order. Epochs and starts both rise; an epoch without a record has no entry."""

    __slots__ = ("_starts",)

    def __init__(self, starts: Iterable[EpochStart] = ()) -> None:
        self._starts: list[EpochStart] = []
        for epoch, start in starts:
            self.begin(epoch, start)

    @classmethod
    def from_evidence(cls, evidence: Iterable[EpochEvidence]) -> "LeaderEpochs":
        """Derives the epochs from evidence in any order."""
        evidence = sorted(evidence, key=_by_start)
        bridges = [each for each in evidence if each.is_bridge]
        # The least epoch from each bridge on, so that in a log of many elections each step looks at few bridges.
        least_epochs = [*accumulate((bridge.epoch for bridge in reversed(bridges)), min)][::-1]
        starts = []
        for each in evidence:
            epoch, start = each.epoch, each.start
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
        """Notes that the first record of an epoch was appended. Repeating it does no harm."""
        while self._starts and self._starts[-1].start >= start and self._starts[-1].epoch <= epoch:
            if self._starts[-1].epoch == epoch:
                return
            self._starts.pop()
        if not self._starts or self._starts[-1].epoch < epoch:
            self._starts.append(EpochStart(epoch, start))

    def begin_with_bridge(self, epoch: int, start: int) -> None:
        """Notes a bridge.

        Everything before it belongs to older epochs, whatever was stamped on it; newer epochs begin after it.
        """
        before = [each for each in self._starts if each.epoch < epoch and each.start < start]
        newer = [each for each in self._starts if each.epoch > epoch]
        self._starts = [*before, EpochStart(epoch, start)]
        for each in newer:
            self.begin(each.epoch, max(each.start, start + 1))

    def between(self, start: int, end: int) -> tuple[EpochStart, ...]:
        """Returns the epochs that began in [start, end)."""
        return tuple(each for each in self._starts if start <= each.start < end)

    def at(self, offset: int) -> int:
        """Returns the epoch of the record at the offset; NO_EPOCH if it is unknown."""
        index = bisect_right(self._starts, offset, key=_by_start) - 1
        return self._starts[index].epoch if index >= 0 else NO_EPOCH

    def end_of(self, epoch: int, log_end: int) -> tuple[int, int]:
        """Returns the largest epoch with records up to this one and the offset where this epoch ended, as Kafka does.

        An epoch older than all known ones ended where the first known epoch starts. The caller refuses future epochs.
        """
        index = bisect_right(self._starts, epoch, key=_by_epoch)
        end = min(self._starts[index].start, log_end) if index < len(self._starts) else log_end
        return (self._starts[index - 1].epoch if index else epoch), end

    def truncate(self, log_end: int) -> None:
        """Removes the epochs that started at or after `log_end`, after the log was truncated to it."""
        while self._starts and self._starts[-1].start >= log_end:
            self._starts.pop()

    def advance_start(self, log_start: int) -> None:
        """Adapts to a new log start: the epoch of the first remaining record begins with that record."""
        index = bisect_right(self._starts, log_start, key=_by_start) - 1
        if index >= 0:
            self._starts[: index + 1] = [
                EpochStart(self._starts[index].epoch, max(log_start, self._starts[index].start))
            ]
