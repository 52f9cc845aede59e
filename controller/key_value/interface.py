"""What the SC asks of a key-value store: versioned compare-and-set, an ordered watch, and leases.

It is the part that etcd, an embedded database and a dictionary can all give exactly, so that one conformance suite
holds them to the same behaviour. Keys are text, ordered as their UTF-8 bytes; values are bytes that mean nothing here.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Struct

NO_VERSION = 0
VALUE_BYTES_MAX = 1024 * 1024
"""etcd takes 1.5 MiB in one request by default."""


class StoreUnavailable(Exception):  # noqa: N818 # named for what is the case, as the caller sees it
    """The store does not answer now, or has been closed; what was asked may or may not have been done. Try again."""


class StoreCorrupt(Exception):  # noqa: N818
    """What lies where the store should be is damaged or somebody else's; one sentence for the operator."""


class FellBehind(Exception):  # noqa: N818
    """The store no longer has the changes that a watch was to go on with: list again, and watch from there."""


class LeadershipLost(Exception):  # noqa: N818
    """Somebody else may hold the lease by now; nothing was written."""


class Entry(Struct, frozen=True):
    key: str
    value: bytes
    version: int
    """The store's revision of its last change. A key never has the same version twice; entries changed by one `write`
    may share theirs."""


class Put(Struct, frozen=True):
    key: str
    value: bytes
    version: int
    """The version that the entry must still have; NO_VERSION: there must be none."""


class Delete(Struct, frozen=True):
    key: str
    version: int


Change = Put | Delete


class Listing(Struct, frozen=True):
    """Everything below a prefix at one moment, in the order of the keys."""

    entries: tuple[Entry, ...]
    revision: int
    """Watch after this one, and no change is missed or seen twice."""


class EntryPut(Struct, frozen=True):
    entry: Entry


class EntryDeleted(Struct, frozen=True):
    key: str
    version: int
    """The revision that deleted it."""


WatchEvent = EntryPut | EntryDeleted


class KeyValueStore(Protocol):
    """Every call but `close` may raise StoreUnavailable or StoreCorrupt."""

    async def get(self, key: str) -> Entry | None: ...

    async def list(self, prefix: str) -> Listing: ...

    async def write(self, changes: Sequence[Change], guard: Entry | None = None) -> Sequence[int | None]:
        """Each change in order, and each for itself: its new version, or None where the entry's version was another.

        What counted is durable on return. With a `guard`, nothing more is written once that entry has another version
        or is gone: LeadershipLost. A value above VALUE_BYTES_MAX is a ValueError.
        """

    def watch(self, prefix: str, after_revision: int) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent]]:
        """Every change after that revision, in order and exactly once, through lost connections too.

        It does not end by itself. FellBehind comes out of it as soon as something would be missing.
        """

    async def take(self, key: str, value: bytes, ttl_seconds: float) -> Entry | None:
        """Creates the key under a new lease; None when there is such a key: watch for its deletion, and try again.

        The lease lasts at least that long from the moment of the call, and the key goes with it.
        """

    async def renew(self, entry: Entry) -> None:
        """The lease lasts as long again from now on; LeadershipLost when it, or the key, is gone.

        StoreUnavailable comes within a fraction of the lease, so that there is time to try again.
        """

    async def give_up(self, entry: Entry) -> None:
        """Deletes the key and its lease at once; no error when they are gone already."""

    async def close(self) -> None:
        """Watches that wait, and all calls after it, raise StoreUnavailable. Leases run out by themselves."""


def check_sizes(changes: Sequence[Change]) -> None:
    for change in changes:
        if isinstance(change, Put) and len(change.value) > VALUE_BYTES_MAX:
            raise ValueError(f"the value of {change.key} has {len(change.value)} bytes, more than {VALUE_BYTES_MAX}")


def end_of_prefix(prefix: bytes) -> bytes:
    """Returns the first key after all keys that begin with `prefix`, for stores that order keys as UTF-8 bytes.

    `prefix` must not be empty. Its last byte can be incremented, since no byte of UTF-8 is 255.
    """
    return prefix[:-1] + bytes([prefix[-1] + 1])
