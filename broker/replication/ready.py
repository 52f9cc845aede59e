"""What is to be done now, in this order: persist, then send, then answer those who wait for the high watermark.

Whoever carries it out does all of it before saying what happened next, and nothing of it if persisting fails: then the
replica is offline. Until the log has been changed nobody reads from it, for the high watermark has moved already.
"""

from msgspec import Struct, field

from tailrace.protocol.ids import Epoch, SpuId

from .copying import CopyOutcome, CopyRequest
from .entries import Entry
from .epoch_starts import EpochStart
from .messages import Message, ProposeLiveReplicas


class StorePromise(Struct, frozen=True):
    """Must be on the disk before anything is sent."""

    epoch: Epoch


class EndDoubt(Struct, frozen=True):
    """The store has caught up: must sync the log, then be on the disk itself."""


class Truncate(Struct, frozen=True):
    """Gives up all entries from here on; a log that begins later becomes an empty one that begins here.

    A larger high watermark that was written down must not outlive it. There is none, but for an unclean election.
    """

    log_end: int


class Restamp(Struct, frozen=True):
    """Writes the epoch into the entries from `base` to `end`, in place."""

    base: int
    end: int
    epoch: Epoch


class AppendEntries(Struct, frozen=True):
    entries: tuple[Entry, ...]


class ExpectStamped(Struct, frozen=True):
    """What is appended before this offset was stamped by a recovery: not the stamps say where epochs begin there, but
    bridges, and these. Must be on the disk before the entries are."""

    end: int
    epochs: tuple[EpochStart, ...] = ()


class AdvanceLogStart(Struct, frozen=True):
    """Gives up what is before; a log that ends before it becomes an empty one that begins there."""

    offset: int
    producers: bytes = b""
    """Who had appended before, and what, as far as the log does not tell."""


class Sync(Struct, frozen=True):
    """All that is in the log must be on the disk before anything is sent."""


Change = StorePromise | EndDoubt | AdvanceLogStart | Truncate | Restamp | ExpectStamped | Sync
"""What can be done without the bytes of any entry."""
Persist = Change | AppendEntries


class Ready(Struct):
    persist: list[Persist] = field(default_factory=list)
    send: list[tuple[SpuId, Message]] = field(default_factory=list)
    propose: ProposeLiveReplicas | None = None
    delete_to: int | None = None
    """A leader is to delete what is before: another store has, by the word of an earlier leader. There is no hurry, and
    nothing waits for it."""
    suspect_from: int | None = None
    """What follows in a leader's log is perhaps damaged: it cannot be read, or sent again and again does not arrive."""
    copy_request: CopyRequest | None = None
    """Another follower, for what this one lacks; there is one question at a time."""
    copy_end: CopyOutcome | None = None
    takes_long: bool = False
    """To persist that: whoever waits until this replica leads should hear first that it is about to."""
    fenced_by: Epoch | None = None
    """This replica's role is over: there is a newer epoch. Whoever waits is refused."""
