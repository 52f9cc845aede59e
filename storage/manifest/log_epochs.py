"""Which leader epochs the batches of a log belong to, also where recovery has stamped another one on them.

A batch tells the epoch of the leader that appended it, unless the recovery of a later leader has stamped its own. There
the batches tell nothing: what began where is known from bridges alone, and to the next start from the manifest.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from tailrace.protocol.batches.record_batch import BatchHeader
from tailrace.protocol.ids import NO_EPOCH

from .leader_epochs import EpochStart, LeaderEpochs
from .manifest import SegmentFacts, epoch_line, stamped_line


class LogEpochs:
    __slots__ = ("latest", "stamped_end", "stamped_epoch", "starts")

    def __init__(self, starts: LeaderEpochs, stamped_end: int, stamped_epoch: int = NO_EPOCH) -> None:
        self.starts = starts
        """As clients are told them."""
        self.latest = starts.latest
        """Of the last batch that told its own: the next one of the same epoch begins nothing."""
        self.stamped_end = stamped_end
        """Up to where recovery has stamped batches, here or in the log that this one is made like."""
        self.stamped_epoch = stamped_epoch
        """With this one or earlier ones: a later one tells its own, also where what was expected never came."""

    def on_another(self, header: BatchHeader) -> None:
        """A batch of another epoch than `latest` was appended."""
        if header.leader_epoch > self.stamped_epoch or header.base_offset >= self.stamped_end:
            self.latest = header.leader_epoch
            self.starts.begin(header.leader_epoch, header.base_offset)

    def on_bridge(self, epoch: int, offset: int) -> None:
        self.starts.begin_with_bridge(epoch, offset)
        self.latest = self.starts.latest

    def on_stamped(self, end: int, epoch: int) -> None:
        self.stamped_end, self.stamped_epoch = max(self.stamped_end, end), max(self.stamped_epoch, epoch)

    def expect_stamped(self, log_end: int, end: int, epoch: int, starts: Iterable[EpochStart]) -> None:
        """What is appended below `end`, with this epoch or earlier ones, was stamped by recovery: these begin there."""
        self.stamped_end, self.stamped_epoch = end, max(self.stamped_epoch, epoch)
        self.starts.cut_end(log_end)
        for start in starts:
            self.starts.begin(*start)

    def cut_end(self, end: int) -> None:
        self.starts.cut_end(end)
        self.stamped_end = min(self.stamped_end, end)
        self.latest = self.starts.latest

    # for the manifest

    def lines(self) -> list[bytes]:
        return [*map(epoch_line, self.starts), stamped_line(self.stamped_end, self.stamped_epoch)]

    def noted_in(self, facts: SegmentFacts) -> SegmentFacts:
        """The same, with what the segment alone would not tell of the epochs in it."""
        starts = self.starts.between(facts.base, facts.end)
        is_plain = (
            facts.epoch_starts is None
            and all(start.epoch == facts.epoch for start in starts)
            and self.starts.at(facts.base) in (facts.epoch, NO_EPOCH)
        )
        return facts if is_plain else replace(facts, epoch_starts=starts)
