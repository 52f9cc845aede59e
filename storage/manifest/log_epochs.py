"""The epochs of one log while it grows, including ranges that recovery has stamped with another epoch.

To stamp a batch is to write a leader's epoch into its header. An unstamped batch shows the epoch of the leader that
appended it. Where the recovery of a later leader has stamped batches, they show nothing: only bridges tell where epochs
began, and after a restart only the manifest.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from tailrace.protocol.batches.record_batch import BatchHeader
from tailrace.protocol.ids import NO_EPOCH

from .leader_epochs import EpochStart, LeaderEpochs
from .manifest import SegmentFacts, epoch_line, stamped_line


class LogEpochs:
    """Tracks epoch starts as batches are appended, stamped and truncated."""

    __slots__ = ("latest", "stamped_end", "stamped_epoch", "starts")

    def __init__(self, starts: LeaderEpochs, stamped_end: int, stamped_epoch: int = NO_EPOCH) -> None:
        self.starts = starts
        """The epoch starts, as clients are told them."""
        self.latest = starts.latest
        """The epoch of the last batch that showed its own. A next batch of the same epoch begins no epoch."""
        self.stamped_end = stamped_end
        """The end of the range in which recovery has stamped batches, in this log or in the log that it replicates."""
        self.stamped_epoch = stamped_epoch
        """The largest epoch that was stamped there. A batch of a later epoch shows its own epoch, even below
        `stamped_end` if expected stamped batches never arrived."""

    def on_new_epoch(self, header: BatchHeader) -> None:
        """Handles the append of a batch whose epoch differs from `latest`."""
        if header.leader_epoch > self.stamped_epoch or header.base_offset >= self.stamped_end:
            self.latest = header.leader_epoch
            self.starts.begin(header.leader_epoch, header.base_offset)

    def on_bridge(self, epoch: int, offset: int) -> None:
        """Handles the append of a bridge."""
        self.starts.begin_with_bridge(epoch, offset)
        self.latest = self.starts.latest

    def on_stamped(self, end: int, epoch: int) -> None:
        """Handles that recovery has stamped batches below `end` with this epoch."""
        self.stamped_end, self.stamped_epoch = max(self.stamped_end, end), max(self.stamped_epoch, epoch)

    def expect_stamped(self, log_end: int, end: int, epoch: int, starts: Iterable[EpochStart]) -> None:
        """Announces that batches below `end` with this epoch or an earlier one were stamped by recovery.

        `starts` says where epochs begin there.
        """
        self.stamped_end, self.stamped_epoch = end, max(self.stamped_epoch, epoch)
        self.starts.truncate(log_end)
        for start in starts:
            self.starts.begin(*start)

    def truncate(self, end: int) -> None:
        """Adapts to a log that was truncated to `end`."""
        self.starts.truncate(end)
        self.stamped_end = min(self.stamped_end, end)
        self.latest = self.starts.latest

    # for the manifest

    def lines(self) -> list[bytes]:
        """Returns the manifest lines that state these epochs."""
        return [*map(epoch_line, self.starts), stamped_line(self.stamped_end, self.stamped_epoch)]

    def with_epoch_starts(self, facts: SegmentFacts) -> SegmentFacts:
        """Returns the segment's facts, with its epoch starts if the segment alone would not tell them."""
        starts = self.starts.between(facts.base, facts.end)
        is_plain = (
            facts.epoch_starts is None
            and all(start.epoch == facts.epoch for start in starts)
            and self.starts.at(facts.base) in (facts.epoch, NO_EPOCH)
        )
        return facts if is_plain else replace(facts, epoch_starts=starts)
