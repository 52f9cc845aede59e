"""The interface of a key-value store: versioned compare-and-set, an ordered watch, and leases.

etcd, an embedded database and a dictionary can all provide exactly this, and one conformance suite checks that they
behave alike. Keys are text, ordered as their UTF-8 bytes. Values are opaque bytes.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Struct

NO_VERSION = 0
VALUE_BYTES_MAX = 1024 * 1024
"""The largest value. etcd accepts 1.5 MiB in one request by default."""


class StoreUnavailable(Exception):  # noqa: N818 # named for the state that the caller sees
    """The store does not respond, or was closed. The request may or may not have been carried out. Try again."""


class StoreRefused(StoreUnavailable):
    """The store responds and does not let the SC in. Somebody has to change a setting here or there."""


class StoreCorrupt(Exception):  # noqa: N818
    """The store is damaged, or belongs to another program; the message is one sentence for the operator."""


class FellBehind(Exception):  # noqa: N818
    """The store no longer has the next changes for a watch. List again, and watch from there."""


class LeadershipLost(Exception):  # noqa: N818
    """Another SC may hold the lease by now; nothing was written."""


class Entry(Struct, frozen=True):
    """A key with its value and version."""

    key: str
    value: bytes
    version: int
    """The store's revision at the last change of the entry.

    A key never has the same version twice. Entries that were changed by one `write` may share a version.
    """


class Put(Struct, frozen=True):
    """A change that creates or replaces an entry."""

    key: str
    value: bytes
    version: int
    """The version that the entry must still have, or NO_VERSION if it must not exist."""


class Delete(Struct, frozen=True):
    """A change that deletes an entry."""

    key: str
    version: int
    """The version that the entry must still have."""


Change = Put | Delete


class Listing(Struct, frozen=True):
    """All entries below a prefix at one moment, in the order of their keys."""

    entries: tuple[Entry, ...]
    revision: int
    """The revision of the listing. A watch after it misses no change and sees none twice."""


class EntryPut(Struct, frozen=True):
    """An event of a watch: an entry was created or replaced."""

    entry: Entry


class EntryDeleted(Struct, frozen=True):
    """An event of a watch: an entry was deleted."""

    key: str
    version: int
    """The revision that deleted the entry."""


WatchEvent = EntryPut | EntryDeleted


class KeyValueStore(Protocol):
    """A key-value store. Every call except `close` may raise StoreUnavailable or StoreCorrupt."""

    async def get(self, key: str) -> Entry | None:
        """Returns the entry of a key, if there is one."""

    async def list(self, prefix: str) -> Listing:
        """Returns all entries whose keys begin with the prefix."""

    async def write(self, changes: Sequence[Change], guard: Entry | None = None) -> Sequence[int | None]:
        """Applies the changes in order, each by its own compare-and-set.

        Returns the new version for each change, or None if the entry did not have the expected version. Changes are
        durable on return. Raises LeadershipLost, and writes nothing more, if `guard` no longer has its version. Raises
        ValueError for a value above VALUE_BYTES_MAX.
        """

    def watch(self, prefix: str, after_revision: int) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent]]:
        """Iterates over all changes after a revision, in order and exactly once, even across lost connections.

        It never ends by itself. It raises FellBehind as soon as a change would be missing.
        """

    async def take(self, key: str, value: bytes, ttl_seconds: float) -> Entry | None:
        """Creates the key under a new lease. Returns None if the key exists: watch for its deletion, and try again.

        The lease lasts at least `ttl_seconds` from the moment of the call, and the key is deleted with it.
        """

    async def renew(self, entry: Entry) -> None:
        """Extends the lease by its whole duration from now on. Raises LeadershipLost if the lease or the key is gone.

        Raises StoreUnavailable within a fraction of the lease, so that there is time to try again.
        """

    async def give_up(self, entry: Entry) -> None:
        """Deletes the key and its lease at once, if they exist."""

    async def close(self) -> None:
        """Closes the store: waiting watches and all later calls raise StoreUnavailable. Leases expire by themselves."""


def check_sizes(changes: Sequence[Change]) -> None:
    """Raises ValueError if a value is larger than VALUE_BYTES_MAX."""
    for change in changes:
        if isinstance(change, Put) and len(change.value) > VALUE_BYTES_MAX:
            raise ValueError(f"the value of {change.key} has {len(change.value)} bytes, more than {VALUE_BYTES_MAX}")


def end_of_prefix(prefix: bytes) -> bytes:
    """Returns the first key after all keys that begin with `prefix`, for stores that order keys as UTF-8 bytes.

    `prefix` must not be empty. Its last byte can be incremented, since no byte of UTF-8 is 255.
    """
    return prefix[:-1] + bytes([prefix[-1] + 1])
