"""The high watermark of one replica, with the epoch in which it was committed.

It falls only after an unclean election. Its epoch is the one in which everything below it was committed, or a later one
if that is not known. A log that has any entry of a leader of this epoch or of a later one has the same entries as that
leader before it.
"""

from tailrace.protocol.ids import NO_EPOCH, Epoch

from .entries import EntryLog, compacted_end


class HighWatermark:
    """A replica's high watermark. One object lives as long as the replica, and its roles share it."""

    __slots__ = ("epoch", "value")

    def __init__(self, value: int, epoch: Epoch = NO_EPOCH) -> None:
        self.value = value
        """The offset before which this replica's log is the committed one."""
        self.epoch = epoch
        """An epoch such that everything below `value` was committed in it or earlier; NO_EPOCH if none is known."""

    def advance(self, end: int, epoch: Epoch) -> bool:
        """Raises the high watermark to `end`; returns whether it rose."""
        if end <= self.value:
            return False
        self.value, self.epoch = end, epoch
        return True

    def fall_back(self, end: int) -> None:
        """Lowers the high watermark, because a leader that was elected uncleanly lacks what was committed from `end`
        on."""
        self.value = min(self.value, end)


def epoch_at_start(high_watermark: int, checkpoint: int, epoch: Epoch) -> Epoch:
    """Returns the epoch that was saved with the checkpoint; NO_EPOCH if the log shows a larger high watermark than
    that."""
    return epoch if high_watermark <= checkpoint else NO_EPOCH


def high_watermark_at_start(log: EntryLog, checkpoint: int) -> int:
    """Returns the high watermark that a store knows when it opens a log.

    It is the checkpointed one, or a larger one that the log itself proves: only committed entries are ever deleted or
    compacted, so everything before the log start or before a gap was committed.
    """
    value = checkpointed_high_watermark(log, checkpoint)
    continues_at = log.log_end if log.is_end_sure else None
    return max(value, compacted_end(list(log.entries(value, log.log_end)), value, continues_at, log.has_valid_checksum))


def checkpointed_high_watermark(log: EntryLog, checkpoint: int) -> int:
    """Returns the high watermark without reading the whole log: the checkpoint, within the bounds of the log.

    The result is the end of an entry, because a log may start in the middle of one.
    """
    value = min(max(checkpoint, log.log_start), log.log_end)
    if value > log.log_start:
        return value
    first = next(iter(log.entries(value, log.log_end)), None)
    return value if first is None or first.base >= value else max(value, first.end)
