"""What leader and followers of one partition say to each other, and the leader to the Streaming Controller.

Each carries the sender's epoch: what is of a smaller one than the receiver has promised is refused. A follower also
names its incarnation, the process that speaks: another one may have lost what this one had.
"""

from msgspec import Struct

from tailrace.protocol.ids import NO_EPOCH, Epoch, SpuId

from .entries import Entry
from .epoch_starts import EpochStart

RECORDS_BYTES_MAX = (1 << 30) - 64 * 1024
"""The most bytes of record batches in one message. A larger batch could never reach a follower."""


class Hello(Struct, frozen=True):
    """A follower has promised this epoch and waits for its leader."""

    epoch: Epoch
    spu: SpuId
    incarnation: str
    has_failed: bool = False
    """Its disk: nothing more comes from this process, and nobody need wait for it."""


class Seal(Struct, frozen=True):
    epoch: Epoch
    entries_from: int | None
    """From where on the leader wants to know what the store has; None: it takes its own."""
    log_start: int = 0
    log_end: int | None = None
    """Of the leader, as its epoch begins; None: no leader has ever been elected that may have lacked something."""
    epochs: tuple[EpochStart, ...] = ()
    """Where each epoch begins in the leader's log, so that the store sees how far its own is the same."""


class SealReply(Struct, frozen=True):
    """The promise is durable, and this is what is there."""

    epoch: Epoch
    spu: SpuId
    incarnation: str
    high_watermark: int
    log_end: int
    in_doubt: bool
    """It stopped uncleanly, and may have lost what it acknowledged."""
    entries: tuple[Entry, ...] = ()
    """From where the leader wants them, or from the own high watermark if that is smaller: there it may differ."""
    log_start: int = 0
    high_watermark_epoch: Epoch = NO_EPOCH
    """In this one or an earlier one that was committed."""


class Append(Struct, frozen=True):
    """Entries from `base` on, none as a sign of life, and how far the leader is."""

    epoch: Epoch
    base: int
    entries: tuple[Entry, ...]
    high_watermark: int
    log_end: int
    log_start: int
    live_replicas: frozenset[SpuId]
    stamped_end: int = 0
    """What lies before it recovery has stamped: not the entries say where epochs begin there."""
    epochs: tuple[EpochStart, ...] = ()
    """But these, from `base` up to there."""
    high_watermark_epoch: Epoch = NO_EPOCH
    """In this one or an earlier one all below the high watermark was committed."""
    producers: bytes = b""
    """For a log that is to begin at `base`: who had appended before, and what."""


class AppendReply(Struct, frozen=True):
    epoch: Epoch
    spu: SpuId
    incarnation: str
    matched_end: int
    """Up to where the log is known to be the leader's."""
    log_end: int
    high_watermark: int
    missed: bool
    """What came lies beyond the matched end: something before it was lost."""
    log_start: int = 0


class Fenced(Struct, frozen=True):
    """Something was refused, because of a newer epoch."""

    promised: Epoch


class ProposeLiveReplicas(Struct, frozen=True):
    """To the Streaming Controller: stored if epoch and version are still these, and nobody named has restarted."""

    epoch: Epoch
    version: int
    members: tuple[tuple[SpuId, str], ...]
    """The live replicas, each with the process that has caught up; empty: it stays as it is stored."""
    has_taken_over: bool = False
    """The copy set has all that this epoch began with: those before it are needed no more."""


Message = Hello | Seal | SealReply | Append | AppendReply | Fenced
