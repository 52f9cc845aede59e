"""Which records must still be in the final logs: all, except what was deleted with the beginning, or compacted.

Compaction keeps the last committed record of each key. It may remove earlier ones and aborted ones, now or later.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

from .transaction_history import FinalLog, Partition, Send, TransactionHistory


class _Placed(Protocol):
    @property
    def offset(self) -> int: ...
    @property
    def value(self) -> bytes: ...


def keys_of(history: TransactionHistory) -> Mapping[bytes, bytes | None]:
    """Returns the key of each value that was sent."""
    return {send.value: send.key for send, _, _ in history.sends()}


class KeptRecords:
    """What the final read_committed logs have, and what they may lack."""

    def __init__(self, history: TransactionHistory) -> None:
        self._keys = keys_of(history)
        self._logs = {log.partition: log for log in history.final_logs}
        self._values = {log.partition: {record.value for record in log.committed} for log in history.final_logs}
        self._last = {log.partition: last_offsets(log.committed, self._keys) for log in history.final_logs}

    def has(self, send: Send) -> bool | None:
        """Whether the record is there; None if that partition was not read, or if the record may have been removed."""
        log = self._logs.get(send.partition)
        if log is None:
            return None
        if send.value in self._values[send.partition]:
            return True
        return None if self._may_lack(log, send.offset, send.key) else False

    def may_lack(self, partition: Partition, offset: int, value: bytes) -> bool:
        """Whether a committed record that was at this offset may have been removed."""
        return self._may_lack(self._logs[partition], offset, self._keys.get(value))

    def may_lack_input(self, partition: Partition, offset: int) -> bool:
        """Whether a process may not have seen a committed record at this offset, because a replica had removed it."""
        log = self._logs.get(partition)
        if log is None:
            return False
        value = next((each.value for each in log.committed if each.offset == offset), None)
        if value is None:
            return offset < log.log_start or log.is_compacted
        return self.may_lack(partition, offset, value)

    def _may_lack(self, log: FinalLog, offset: int | None, key: bytes | None) -> bool:
        if log.log_start > (0 if offset is None else offset):
            return True
        # A record with a later one of its key may be removed. Without its offset, any other one may be later.
        last = self._last[log.partition].get(key, -1) if log.is_compacted else -1
        return last > (-1 if offset is None else offset)


def last_offsets(records: Iterable[_Placed], keys: Mapping[bytes, bytes | None]) -> dict[bytes | None, int]:
    """Returns the last offset of each key. The records are in the order of their offsets."""
    return {keys.get(record.value): record.offset for record in records}
