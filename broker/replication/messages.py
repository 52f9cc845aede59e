"""The messages between leader and followers of a partition, and from the leader to the Streaming Controller.

Each message carries the sender's epoch; a receiver that has promised a larger epoch refuses it. A follower's message
also names its store incarnation, because another incarnation may have lost entries.
"""

from msgspec import Struct

from tailrace.protocol.ids import NO_EPOCH, Epoch, SpuId

from .entries import Entry
from .epoch_starts import EpochStart

RECORDS_BYTES_MAX = (1 << 30) - 64 * 1024
"""The largest size of the record batches in one message. A larger batch could not reach a follower."""


class Hello(Struct, frozen=True):
    """A follower waits for its leader, or says that its disk has failed. It has promised this epoch."""

    epoch: Epoch
    spu: SpuId
    incarnation: str
    has_failed: bool = False
    """Whether the follower's disk has failed. This process will not follow any more, so the leader need not wait for
    it."""


class Seal(Struct, frozen=True):
    """A leader asks a store to promise its epoch and to describe its log."""

    epoch: Epoch
    entries_from: int | None
    """The offset from which the leader asks for entries; None if its own entries are enough."""
    log_start: int = 0
    log_end: int | None = None
    """The leader's log end when its epoch begins; None if there never was an unclean election."""
    epochs: tuple[EpochStart, ...] = ()
    """The epochs of the leader's log, with which the store finds out how far both logs agree."""


class SealReply(Struct, frozen=True):
    """The store's durable promise of the epoch, and what the store holds."""

    epoch: Epoch
    spu: SpuId
    incarnation: str
    high_watermark: int
    log_end: int
    in_doubt: bool
    """Whether the store stopped uncleanly and may have lost something that it had acknowledged."""
    entries: tuple[Entry, ...] = ()
    """The entries from `entries_from`, or from the store's own high watermark if that is smaller: the logs may differ
    from there on."""
    log_start: int = 0
    high_watermark_epoch: Epoch = NO_EPOCH
    """An epoch such that everything below `high_watermark` was committed in it or earlier."""


class Append(Struct, frozen=True):
    """Entries from `base` on, and the state of the leader. Without entries it is a sign of life."""

    epoch: Epoch
    base: int
    entries: tuple[Entry, ...]
    high_watermark: int
    log_end: int
    log_start: int
    live_replicas: frozenset[SpuId]
    stamped_end: int = 0
    """The offset before which `epochs`, and not the stamps of the entries, says where epochs begin."""
    epochs: tuple[EpochStart, ...] = ()
    """The starts of epochs from `base` up to `stamped_end`."""
    high_watermark_epoch: Epoch = NO_EPOCH
    """An epoch such that everything below `high_watermark` was committed in it or earlier."""
    producers: bytes = b""
    """The state of all producers before `base`, for a log that is to begin there."""


class AppendReply(Struct, frozen=True):
    """A follower's state after an Append."""

    epoch: Epoch
    spu: SpuId
    incarnation: str
    matched_end: int
    """The end up to which the follower's log is known to be the leader's."""
    log_end: int
    high_watermark: int
    missed: bool
    """Whether the received entries begin beyond the matched end, so that entries before them are missing."""
    log_start: int = 0


class Fenced(Struct, frozen=True):
    """The refusal of a message because the receiver has promised a newer epoch."""

    promised: Epoch


class ProposeLiveReplicas(Struct, frozen=True):
    """A proposal to the SC, which stores it if epoch and version are unchanged and no named store has restarted."""

    epoch: Epoch
    version: int
    members: tuple[tuple[SpuId, str], ...]
    """The proposed live replicas. Each one that enters has the store incarnation that has caught up; the others have an
    empty string. No members at all means that the set stays as it is stored."""
    has_taken_over: bool = False
    """Whether the copy set has everything that this epoch began with, so that earlier copy sets are not needed any
    more."""


Message = Hello | Seal | SealReply | Append | AppendReply | Fenced
