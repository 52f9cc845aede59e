"""The contents of the store as a function of a log of transactions, and the form of each transaction in JSON.

Kubernetes can compare and set one object at a time, not several. So the store keeps a log of transactions, and only the
object with the newest transaction is compared and set. A transaction holds only changes that have succeeded, each with
its own revision, so that every SC that reads the log arrives at the same contents.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from msgspec import Struct

from tailrace.controller.key_value.interface import (
    Change,
    Delete,
    Entry,
    EntryDeleted,
    EntryPut,
    Put,
    StoreCorrupt,
    WatchEvent,
)

Json = dict[str, Any]
T = TypeVar("T")

ENCODED_BYTES_MAX = 1_430_000
"""The largest encoded transaction or snapshot part. The store of Kubernetes accepts 1.5 MiB for a whole object."""
CHANGES_MAX = 1000
TEXT_BYTES_MAX = 4096
"""The largest value that is stored as text, so that people can read it. Longer ones are stored as base64."""
_ESCAPED = frozenset("<>&\u2028\u2029")
"""Characters that Kubernetes stores in six bytes each."""
_OVERHEAD_BYTES = 200
"""An upper limit for the field names and numbers of one change."""


class Lease(Struct, frozen=True):
    """The lease of an entry: the object that its holder renews, and how long the entry outlives the last renewal."""

    name: str
    seconds: float


class Stored(Struct, frozen=True):
    """An entry of the store, with its lease if it has one."""

    entry: Entry
    lease: Lease | None = None


class Removed(Struct, frozen=True):
    """The removal of an entry."""

    key: str
    version: int


class Transaction(Struct, frozen=True):
    """Changes that take effect together. Numbers of transactions have no gaps, and neither have revisions."""

    number: int
    changes: tuple[Stored | Removed, ...]


class Contents:
    """The contents of the store after a transaction."""

    def __init__(self) -> None:
        self.number = 0
        """The number of the last transaction."""
        self.revision = 0
        """The revision of the last change."""
        self._stored: dict[str, Stored] = {}

    def get(self, key: str) -> Stored | None:
        return self._stored.get(key)

    def version(self, key: str) -> int:
        """Returns the version of an entry; NO_VERSION (0) if there is none."""
        stored = self._stored.get(key)
        return 0 if stored is None else stored.entry.version

    def entries(self, prefix: str) -> tuple[Entry, ...]:
        """Returns the entries below a prefix in the order of their keys."""
        found = sorted((key for key in self._stored if key.startswith(prefix)), key=str.encode)
        return tuple(self._stored[key].entry for key in found)

    def leased(self) -> list[Stored]:
        """Returns the entries that have a lease."""
        return [each for each in self._stored.values() if each.lease is not None]

    def all(self) -> list[Stored]:
        return list(self._stored.values())

    def plan(
        self, changes: Sequence[Change], lease: Lease | None = None
    ) -> tuple[list[int | None], Transaction | None]:
        """Returns the outcome of each change, as `KeyValueStore.write` does, and a transaction of those that succeed.

        The transaction is None if no change succeeds.
        """
        outcomes: list[int | None] = []
        counted: list[Stored | Removed] = []
        versions: dict[str, int] = {}
        for change in changes:
            version = versions.get(change.key, self.version(change.key))
            if version != change.version or (isinstance(change, Delete) and version == 0):
                outcomes.append(None)
                continue
            revision = self.revision + len(counted) + 1
            if isinstance(change, Put):
                counted.append(Stored(Entry(change.key, bytes(change.value), revision), lease))
                versions[change.key] = revision
            else:
                counted.append(Removed(change.key, revision))
                versions[change.key] = 0
            outcomes.append(revision)
        return outcomes, Transaction(self.number + 1, tuple(counted)) if counted else None

    def apply(self, transaction: Transaction) -> list[WatchEvent]:
        """Applies the next transaction and returns its events."""
        if transaction.number != self.number + 1:
            raise StoreCorrupt(f"transaction {transaction.number} follows transaction {self.number} in the store")
        events: list[WatchEvent] = []
        for change in transaction.changes:
            self.revision += 1
            if isinstance(change, Stored):
                self._stored[change.entry.key] = change
                events.append(EntryPut(change.entry))
            else:
                self._stored.pop(change.key, None)
                events.append(EntryDeleted(change.key, change.version))
        self.number = transaction.number
        return events

    @classmethod
    def restored(cls, number: int, revision: int, stored: Iterable[Stored]) -> "Contents":
        """Returns the contents that a snapshot holds."""
        contents = cls()
        contents.number, contents.revision = number, revision
        contents._stored = {each.entry.key: each for each in stored}
        return contents


def in_parts(changes: Sequence[Change]) -> Iterator[Sequence[Change]]:
    """Splits changes into parts that each fit into one transaction."""
    sized = ((change, size_of(change.key, change.value if isinstance(change, Put) else b"")) for change in changes)
    return _grouped(sized)


def in_snapshot_parts(stored: Iterable[Stored]) -> Iterator[Sequence[Stored]]:
    """Splits the contents of the store into parts that each fit into one object."""
    return _grouped((each, size_of(each.entry.key, each.entry.value)) for each in stored)


def size_of(key: str, value: bytes) -> int:
    """Returns an upper limit for the encoded size of a change."""
    # JSON may need six bytes for one character of a key.
    return _OVERHEAD_BYTES + 6 * len(key.encode()) + max(len(value) * 4 // 3 + 4, 2 * min(len(value), TEXT_BYTES_MAX))


def _grouped(sized: Iterable[tuple[T, int]]) -> Iterator[Sequence[T]]:
    part: list[T] = []
    total = 0
    for each, size in sized:
        if part and (len(part) == CHANGES_MAX or total + size > ENCODED_BYTES_MAX):
            yield part
            part, total = [], 0
        part.append(each)
        total += size
    if part:
        yield part


def encoded(change: Stored | Removed) -> Json:
    """Returns a change as it is stored."""
    if isinstance(change, Removed):
        return {"key": change.key, "version": change.version, "removed": True}
    entry, lease = change.entry, change.lease
    document: Json = {"key": entry.key, "version": entry.version, **_value(entry.value)}
    if lease is not None:
        document["lease"] = {"name": lease.name, "milliseconds": round(lease.seconds * 1000)}
    return document


def decoded(document: Json) -> Stored | Removed:
    """Returns the change that `encoded` has stored. Raises StoreCorrupt if another program has written it."""
    try:
        key, version = str(document["key"]), int(document["version"])
        if document.get("removed"):
            return Removed(key, version)
        text = document.get("text")
        value = b64decode(document["base64"], validate=True) if text is None else str(text).encode()
        held = document.get("lease")
        lease = None if held is None else Lease(str(held["name"]), int(held["milliseconds"]) / 1000)
        return Stored(Entry(key, value, version), lease)
    except (KeyError, TypeError, ValueError) as error:
        raise StoreCorrupt(f"Kubernetes has a change that no SC has written: {document!r:.200}") from error


def _value(value: bytes) -> Json:
    if len(value) <= TEXT_BYTES_MAX:
        try:
            text = value.decode()
        except UnicodeDecodeError:
            pass
        else:
            if text.isprintable() and not _ESCAPED & set(text):
                return {"text": text}
    return {"base64": b64encode(value).decode()}
