"""The high watermark of one replica: up to where all is committed. It never falls, but for an unclean election.

With it goes an epoch: of the one in which that was committed, or of a later one if nobody knows. Whoever has anything
that a leader of that epoch or a later one had, has the same before it.
"""

from tailrace.protocol.ids import NO_EPOCH, Epoch

from .entries import EntryLog, compacted_end


class HighWatermark:
    """One for a replica's life in this process: leaders and followers come and go, and share it."""

    __slots__ = ("epoch", "value")

    def __init__(self, value: int, epoch: Epoch = NO_EPOCH) -> None:
        self.value = value
        """Exclusive. Below it, this replica's log is the committed one."""
        self.epoch = epoch
        """All below was committed in this epoch or an earlier one."""

    def advance(self, end: int, epoch: Epoch) -> bool:
        """Whether it rose."""
        if end <= self.value:
            return False
        self.value, self.epoch = end, epoch
        return True

    def fall_back(self, end: int) -> None:
        """A leader that was elected uncleanly never had what was committed from here on."""
        self.value = min(self.value, end)


def epoch_at_start(high_watermark: int, checkpoint: int, epoch: Epoch) -> Epoch:
    """The one that was written down with the checkpoint; NO_EPOCH if the log tells of more, but not since when."""
    return epoch if high_watermark <= checkpoint else NO_EPOCH


def high_watermark_at_start(log: EntryLog, checkpoint: int) -> int:
    """What a store knows of it when it opens a log: the one it wrote down last, or more, if the log itself tells more.

    Only what was committed is ever deleted or compacted: so all before the log's start was, and all before a gap.
    """
    value = checkpointed_high_watermark(log, checkpoint)
    follows = log.log_end if log.is_end_sure else None
    return max(value, compacted_end(list(log.entries(value, log.log_end)), value, follows, log.is_sound))


def checkpointed_high_watermark(log: EntryLog, checkpoint: int) -> int:
    """Without a look at all that is in the log behind it. It is the end of an entry in any case: a log may start in the
    midst of one."""
    value = min(max(checkpoint, log.log_start), log.log_end)
    if value > log.log_start:
        return value
    first = next(iter(log.entries(value, log.log_end)), None)
    return value if first is None or first.base >= value else max(value, first.end)
