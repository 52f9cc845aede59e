"""Plans changes of users, access rules, quotas and delegation tokens: returns the writes, or the error."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from tailrace.controller.objects.objects import SecurityEntry
from tailrace.controller.state.actions import Delete, KvAction, Put
from tailrace.controller.state.local_store import LocalStore
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.security.records.security_records import (
    RECORDS_MAX,
    RecordError,
    SecurityRecord,
    check_record,
    encode_record,
    key_of,
    kind_of,
)
from tailrace.server.administration import SecurityEdit

from .planned_changes import Planned, Plans

SECURITY_BYTES_MAX = 48 * 1024 * 1024
"""How large all records may be together: one message brings all of them to an SPU that has just connected."""
_WORDS: Mapping[str, str] = {
    "user": "users",
    "acl": "access rules",
    "quota": "entities with quotas",
    "token": "delegation tokens",
}


def plan_security(edits: Sequence[SecurityEdit], local: LocalStore) -> Plans[None]:
    """Plans the edits, each by itself. Edits of the same record are planned one after the other by the caller."""
    room = _Room(local)
    plans: Plans[None] = []
    for edit in edits:
        try:
            plans.append(Planned(None, _writes(edit, local, room)))
        except KafkaError as error:
            plans.append(error)
    return plans


class _Room:
    """The numbers and the size of the records, with those that are planned."""

    def __init__(self, local: LocalStore) -> None:
        self._counts = {kind: len(entries) for kind, entries in local.security.items()}
        self._bytes = local.security_bytes

    def take(self, record: SecurityRecord, before: SecurityRecord | None) -> None:
        """Notes a planned record. Raises KafkaError if there is no room for it."""
        kind = kind_of(record)
        count = self._counts[kind] + (before is None)
        size = self._bytes + len(encode_record(record)) - (0 if before is None else len(encode_record(before)))
        if count > RECORDS_MAX[kind]:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"a cluster can have {RECORDS_MAX[kind]} {_WORDS[kind]}; remove some that are not needed first",
            )
        if size > max(SECURITY_BYTES_MAX, self._bytes):
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"users, access rules, quotas and tokens together can take {SECURITY_BYTES_MAX} bytes; remove some "
                "that are not needed first",
            )
        self._counts[kind], self._bytes = count, size


def _writes(edit: SecurityEdit, local: LocalStore, room: _Room) -> tuple[KvAction, ...]:
    entry = local.security[edit.kind].get(edit.key)
    before = None if entry is None else entry.record
    after = edit.change(before)
    if after == before:
        return ()
    if after is None:
        assert entry is not None
        return (Delete(entry),)
    assert (kind_of(after), key_of(after)) == (edit.kind, edit.key), "an edit does not move a record"
    try:
        check_record(after)
    except RecordError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
    room.take(after, before)
    return (Put(SecurityEntry(after) if entry is None else replace(entry, record=after)),)
