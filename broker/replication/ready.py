"""The effects that a role requests: persist first, then send, then wake what waits for the high watermark.

The caller carries out all of them before it reports the next event. If persisting fails, it carries out none of the
rest, and the replica goes offline. Until the log has been changed, it must not be read: the high watermark has moved
already.
"""

from msgspec import Struct, field

from tailrace.protocol.ids import Epoch, SpuId

from .copying import CopyOutcome, CopyRequest
from .entries import Entry
from .epoch_starts import EpochStart
from .messages import Message, ProposeLiveReplicas


class StorePromise(Struct, frozen=True):
    """Makes the promise of an epoch durable, before anything is sent."""

    epoch: Epoch


class EndDoubt(Struct, frozen=True):
    """Ends the doubt, because the store has caught up: syncs the log, and then makes the end of the doubt durable."""


class Truncate(Struct, frozen=True):
    """Truncates the log to `log_end`. A log that begins later becomes an empty log that begins there.

    A larger checkpointed high watermark must be lowered first. There is none, except after an unclean election.
    """

    log_end: int


class Restamp(Struct, frozen=True):
    """Writes the epoch into the entries from `base` to `end`, in place."""

    base: int
    end: int
    epoch: Epoch


class AppendEntries(Struct, frozen=True):
    """Appends entries; the caller has their bytes."""

    entries: tuple[Entry, ...]


class ExpectStamped(Struct, frozen=True):
    """Notes that recovery stamped the entries that are appended before `end`. There, bridges and `epochs`, and not the
    stamps, say where epochs begin. The note must be durable before the entries are."""

    end: int
    epochs: tuple[EpochStart, ...] = ()


class AdvanceLogStart(Struct, frozen=True):
    """Removes the entries before `offset`. A log that ends before `offset` becomes an empty log that begins there."""

    offset: int
    producers: bytes = b""
    """The state of all producers before `offset`, as far as the log does not have it."""


class Sync(Struct, frozen=True):
    """Syncs the log, before anything is sent."""


Change = StorePromise | EndDoubt | AdvanceLogStart | Truncate | Restamp | ExpectStamped | Sync
"""The changes that need no bytes of entries."""
Persist = Change | AppendEntries


class Ready(Struct):
    """The effects of one event."""

    persist: list[Persist] = field(default_factory=list)
    send: list[tuple[SpuId, Message]] = field(default_factory=list)
    propose: ProposeLiveReplicas | None = None
    delete_to: int | None = None
    """The offset before which the leader should delete records, because an earlier leader made another store delete
    them. This is not urgent, and nothing waits for it."""
    suspect_from: int | None = None
    """The offset from which the leader's log may be damaged: it cannot be read there, or entries never arrive although
    they are sent repeatedly."""
    copy_request: CopyRequest | None = None
    """The request to another follower for entries that this one lacks; there is one request at a time."""
    copy_end: CopyOutcome | None = None
    takes_long: bool = False
    """Whether persisting takes so long that the SC should be told first that this replica is going to lead."""
    fenced_by: Epoch | None = None
    """The newer epoch that ends this role. Waiting clients are refused."""
