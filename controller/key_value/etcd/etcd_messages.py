"""Requests and responses of etcd's v3 API in the form of its JSON gateway.

Bytes are in base64, and 64-bit numbers are texts. The gateway leaves out of its responses all fields that are false,
zero or empty.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from tailrace.controller.key_value.interface import (
    VALUE_BYTES_MAX,
    Change,
    Delete,
    Entry,
    EntryDeleted,
    EntryPut,
    Put,
    StoreCorrupt,
    WatchEvent,
    end_of_prefix,
)

Json = Mapping[str, Any]

OPERATIONS_MAX = 127
"""The largest number of changes in one transaction. etcd allows 128 operations by default, with the outer one."""
TRANSACTION_BYTES_MAX = VALUE_BYTES_MAX + 128 * 1024
PAGE_ENTRIES_MAX = 128
_NEVER = -1


class KeySpace(Struct, frozen=True):
    """The keys of one cluster, which all begin with a prefix, so that several clusters can share one etcd."""

    prefix: bytes

    def key(self, key: str) -> str:
        return _base64(self.prefix + key.encode())

    def below(self, prefix: str) -> dict[str, Any]:
        start = self.prefix + prefix.encode()
        return {"key": _base64(start), "range_end": _base64(end_of_prefix(start))}

    def entry(self, found: Json) -> Entry:
        return Entry(self._text(found["key"]), b64decode(found.get("value", "")), int(found["mod_revision"]))

    def event(self, found: Json) -> WatchEvent:
        if found.get("type") == "DELETE":
            return EntryDeleted(self._text(found["kv"]["key"]), int(found["kv"]["mod_revision"]))
        return EntryPut(self.entry(found["kv"]))

    def _text(self, key: str) -> str:
        whole = b64decode(key)
        try:
            return whole.removeprefix(self.prefix).decode()
        except UnicodeDecodeError:
            raise StoreCorrupt(f"etcd has the key {whole!r}, which no SC has written") from None


def revision_of(response: Json) -> int:
    return int(response["header"]["revision"])


def get_request(space: KeySpace, key: str) -> Json:
    return {"key": space.key(key)}


def page_request(space: KeySpace, prefix: str, after: Entry | None, revision: int) -> Json:
    """Requests the page after the entry `after`. All pages are of one revision; 0 stands for the newest."""
    request = {**space.below(prefix), "limit": str(PAGE_ENTRIES_MAX), "revision": str(revision)}
    return request if after is None else {**request, "key": space.key(after.key + "\0")}


def watch_request(space: KeySpace, prefix: str, after_revision: int) -> Json:
    """Requests a watch in fragments, since one message could otherwise hold a thousand revisions of any size."""
    start = {"start_revision": str(after_revision + 1), "fragment": True}
    return {"create_request": {**space.below(prefix), **start}}


def take_request(space: KeySpace, entry: Put, lease_id: str) -> Json:
    put = {"key": space.key(entry.key), "value": _base64(entry.value), "lease": lease_id}
    return {"compare": [_has_version(space, entry.key, entry.version)], "success": [{"request_put": put}]}


def write_request(space: KeySpace, changes: Sequence[Change], guard: Entry | None) -> Json:
    """Requests changes, each as a transaction nested in one that checks the guard. No two may have the same key."""
    return {
        "compare": [] if guard is None else [_has_version(space, guard.key, guard.version)],
        "success": [{"request_txn": _change(space, change)} for change in changes],
    }


def written(response: Json, changes: Sequence[Change]) -> list[int | None]:
    revision = revision_of(response)
    outcomes = [each["response_txn"].get("succeeded", False) for each in response["responses"]]
    return [revision if counted else None for _, counted in zip(changes, outcomes, strict=True)]


def in_transactions(changes: Sequence[Change]) -> Iterator[Sequence[Change]]:
    """Splits changes into parts that each fit into one transaction, which can change a key only once."""
    part: list[Change] = []
    keys: set[str] = set()
    size = 0
    for change in changes:
        more = len(change.key.encode()) + (len(change.value) if isinstance(change, Put) else 0)
        if part and (len(part) == OPERATIONS_MAX or change.key in keys or size + more > TRANSACTION_BYTES_MAX):
            yield part
            part, keys, size = [], set(), 0
        part.append(change)
        keys.add(change.key)
        size += more
    if part:
        yield part


def _change(space: KeySpace, change: Change) -> Json:
    operation: Json
    match change:
        case Put(key, value):
            operation = {"request_put": {"key": space.key(key), "value": _base64(value)}}
            version = change.version
        case Delete(key):
            operation = {"request_delete_range": {"key": space.key(key)}}
            # For etcd a missing key has version 0. To delete a missing key must fail, as with the other stores.
            version = change.version or _NEVER
    return {"compare": [_has_version(space, change.key, version)], "success": [operation]}


def _has_version(space: KeySpace, key: str, version: int) -> Json:
    return {"key": space.key(key), "target": "MOD", "result": "EQUAL", "mod_revision": str(version)}


def _base64(data: bytes) -> str:
    return b64encode(data).decode()
