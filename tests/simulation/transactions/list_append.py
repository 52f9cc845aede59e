"""Exports a history of transactions as a list-append history in EDN, for an external checker of isolation levels.

Each partition is a key, and its log is the list. A transaction appends its values. A response to a read_committed
reader is a transaction of its own, which reads one list up to there: Kafka promises nothing about what a reader gets
from several partitions. What the reader was not given because it started later is filled in from the final log.

A reader may get a part of a transaction, because responses end anywhere. With `whole`, each read is cut where no
transaction of that list is unfinished. Transactions of Kafka may also have different orders in different partitions
(G0). A checker that reports G0, or G1c with only ww edges, is no news.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from enum import Enum

from msgspec import Struct

from .transaction_history import Fate, Partition, Poll, Position, Send, Transaction, TransactionHistory


class Kind(Enum):
    """The type of an operation in Jepsen's terms."""

    OK = "ok"
    FAIL = "fail"
    INFO = "info"


class Append(Struct, frozen=True):
    key: int
    value: int


class ListRead(Struct, frozen=True):
    key: int
    values: tuple[int, ...]


class Operation(Struct, frozen=True):
    process: int
    kind: Kind
    began: float
    steps: tuple[Append | ListRead, ...]


_KINDS = {Fate.COMMITTED: Kind.OK, Fate.ABORTED: Kind.FAIL, Fate.EITHER: Kind.INFO}


def operations(history: TransactionHistory, *, whole: bool = True) -> list[Operation]:
    """Returns the operations in the order in which they began."""
    return sorted(_Export(history, whole).operations(), key=lambda operation: operation.began)


def edn(history: TransactionHistory, *, whole: bool = True) -> str:
    """Returns pairs of an invocation and a completion, one operation per line."""
    lines: list[str] = []
    for each in operations(history, whole=whole):
        for kind, steps in (("invoke", _invoked(each.steps)), (each.kind.value, each.steps)):
            written = " ".join(map(_step, steps))
            lines.append(
                f"{{:index {len(lines)}, :type :{kind}, :process {each.process}, :f :txn, :value [{written}]}}\n"
            )
    return "".join(lines)


class _Export:
    def __init__(self, history: TransactionHistory, whole: bool) -> None:
        self._history = history
        self._whole = whole
        logs = sorted(history.final_logs, key=lambda log: log.partition)
        self._keys: dict[Partition, int] = {log.partition: key for key, log in enumerate(logs)}
        for send, _, _ in history.sends():
            self._keys.setdefault(send.partition, len(self._keys))
        self._numbers: dict[bytes, int] = {}
        self._last_values: dict[tuple[int, int], int] = {}
        """The offset of the last value of each transaction in each key, if it is in the final log."""
        self._owners: dict[bytes, Transaction] = {
            send.value: transaction for transaction in history.transactions() for send in transaction.sends
        }
        for log in logs:
            for offset, value in log.committed:
                if owner := self._owners.get(value):
                    self._last_values[id(owner), self._keys[log.partition]] = offset

    def operations(self) -> Iterator[Operation]:
        process = 0
        for producer in self._history.producers:
            process += 1
            for send in producer.sends:
                yield Operation(process, _kind_of(send), send.began, (self._append(send),))
            for transaction in producer.transactions:
                appends = tuple(map(self._append, transaction.sends))
                yield Operation(process, _KINDS[transaction.fate], transaction.began, appends)
        for reader in self._history.readers:
            process += 1
            if reader.reads_committed:
                yield from self._reads(process, reader.events)

    def _append(self, send: Send) -> Append:
        return Append(self._keys[send.partition], self._number(send.value))

    def _number(self, value: bytes) -> int:
        return self._numbers.setdefault(value, len(self._numbers) + 1)

    def _reads(self, process: int, events: Sequence[Position | Poll]) -> Iterator[Operation]:
        known: dict[Partition, list[tuple[int, bytes]]] = {}
        for event in events:
            if isinstance(event, Position):
                known[event.partition] = self._before(event.partition, event.offset)
                continue
            records = known.setdefault(event.partition, self._before(event.partition, 0))
            records += event.records
            key = self._keys.get(event.partition)
            if event.records and key is not None:
                values = tuple(self._number(value) for _, value in self._cut(key, records))
                yield Operation(process, Kind.OK, event.began, (ListRead(key, values),))

    def _before(self, partition: Partition, offset: int) -> list[tuple[int, bytes]]:
        log = self._history.final_log(partition)
        records = [] if log is None else [(record.offset, record.value) for record in log.committed]
        return records[: bisect_left(records, (offset, b""))]

    def _cut(self, key: int, records: Sequence[tuple[int, bytes]]) -> Sequence[tuple[int, bytes]]:
        """Returns the longest beginning in which each transaction is whole, as far as the final log shows."""
        if not self._whole:
            return records
        unfinished_until, end = -1, 0
        for index, (offset, value) in enumerate(records):
            owner = self._owners.get(value)
            if owner is not None:
                unfinished_until = max(unfinished_until, self._last_values.get((id(owner), key), -1))
            if unfinished_until <= offset:
                end = index + 1
        return records[:end]


def _kind_of(send: Send) -> Kind:
    return {"ok": Kind.OK, "failed": Kind.FAIL, "unknown": Kind.INFO}[send.outcome.value]


def _invoked(steps: Sequence[Append | ListRead]) -> Sequence[Append | int]:
    """Returns the steps as they were before their results were known: reads as their keys."""
    return [step.key if isinstance(step, ListRead) else step for step in steps]


def _step(step: Append | ListRead | int) -> str:
    if isinstance(step, int):
        return f"[:r {step} nil]"
    if isinstance(step, Append):
        return f"[:append {step.key} {step.value}]"
    return f"[:r {step.key} [{' '.join(map(str, step.values))}]]"
