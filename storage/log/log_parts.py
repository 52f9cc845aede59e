"""The state of an open log that the operations of this package share.

`Log` is its only implementation. Each operation is a module of functions over this state, so that it can be understood
alone: see `log_truncation`, `log_deletion`, `log_stamping`, `compaction_steps` and `log_repair`. `Log` itself appends,
reads, syncs and closes. It keeps this state in its own attributes, because a hop to another object would cost every
append and every read.

Every operation holds `disk.lock` while it changes anything but the end of the log.
"""

from collections.abc import Callable
from typing import Protocol

from tailrace.runtime.files import Files
from tailrace.storage.compaction.compaction_schedule import Filled
from tailrace.storage.log_config import LogConfig
from tailrace.storage.manifest.compaction_history import Compacted
from tailrace.storage.manifest.log_epochs import LogEpochs
from tailrace.storage.producers.producer_snapshots import ProducerSnapshots
from tailrace.storage.producers.producer_state import ProducerStates
from tailrace.storage.segments.open_segment import OpenSegment
from tailrace.storage.segments.segment_list import Segments
from tailrace.storage.segments.segment_maker import SegmentMaker
from tailrace.storage.transactions.log_transactions import LogTransactions

from .log_disk import LogDisk


class LogParts(Protocol):
    """What the operations of a log read and change."""

    files: Files
    directory: str
    config: LogConfig
    maker: SegmentMaker
    segment_list: Segments
    disk: LogDisk
    """The lock, the synced end and the manifest."""
    log_epochs: LogEpochs
    log_start: int
    """The offset of the first record."""
    log_end: int
    """The offset after the last record."""
    size_bytes: int
    """The size of all segments."""
    producers: ProducerStates
    """The states of idempotent producers. They are meaningless unless `knows_producers`."""
    knows_producers: bool
    """Whether `producers` are those of this log. If not, no snapshot of them may be written."""
    snapshots: ProducerSnapshots
    transactions: LogTransactions
    compaction_history: list[Compacted]
    filled: Filled | None
    """The base of the open segment that compaction looked at last, and since when it has had records."""
    rewrites: int
    """How often the log was truncated or stamped. What was read of it before such a change may be invalid."""
    is_truncation_pending: bool
    """Whether the log was truncated in memory and in the page cache, but perhaps not on the disk."""
    must_load_producers: bool
    """Whether a pending truncation has removed what was known of producers, so that they must be loaded again."""
    is_overgrown: bool
    """Whether the open segment has grown too far because it may not roll."""
    may_roll: Callable[[int], bool]
    """Returns whether another segment may follow the one with this base."""
    on_compacted: Callable[[], None] | None
    """Called after batches of existing segments were removed or changed."""

    def roll(self) -> OpenSegment:
        """Seals the open segment and begins another one."""

    async def sync(self) -> None:
        """Syncs everything that was appended before the call."""
