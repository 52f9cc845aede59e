"""Rules for what readers get: nothing aborted, early, unstable, unsent, skipped or out of order."""

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping

from .kept_records import KeptRecords
from .transaction_history import (
    Anomaly,
    Fate,
    FinalLog,
    Outcome,
    Partition,
    Poll,
    Position,
    Producer,
    Record,
    Send,
    Transaction,
    TransactionHistory,
)

Owner = tuple[Send, Producer, Transaction | None]


def aborted_reads(history: TransactionHistory) -> Iterator[Anomaly]:
    """Yields values of aborted transactions that a read_committed reader got (G1a)."""
    owners = _owners(history)
    for who, _, offset, value in _committed_reads(history):
        transaction = owners[value][2] if value in owners else None
        if transaction is not None and transaction.fate is Fate.ABORTED:
            yield Anomaly("aborted read", f"{who} got {value!r} at {offset}, of {transaction}, which was aborted")


def failed_reads(history: TransactionHistory) -> Iterator[Anomaly]:
    """Yields values that were read although nobody sent them, or the broker said that it refused them."""
    owners = _owners(history)
    for reader in history.readers:
        for poll in reader.polls():
            yield from _unsent(owners, reader.name, [(each.offset, each.value) for each in poll.records])
    for log in history.final_logs:
        name = f"the final log of {log.partition}"
        yield from _unsent(owners, name, [(each.offset, each.value) for each in log.uncommitted])
        yield from _unsent(owners, name, [(each.offset, each.value) for each in log.committed])


def precommitted_reads(history: TransactionHistory) -> Iterator[Anomaly]:
    """Yields values that a read_committed reader got before anybody asked to commit their transaction."""
    owners = _owners(history)
    for reader in history.readers:
        for poll in reader.polls() if reader.reads_committed else ():
            for offset, value in poll.records:
                transaction = owners[value][2] if value in owners else None
                if transaction is not None and poll.ended < transaction.commit_began < math.inf:
                    yield Anomaly(
                        "precommitted read",
                        f"{reader.name} got {value!r} at {offset} at {poll.ended:.3f} s, but the commit of "
                        f"{transaction} began at {transaction.commit_began:.3f} s",
                    )


def vanished_reads(history: TransactionHistory) -> Iterator[Anomaly]:
    """Yields values that a reader got and that a final reader of the same kind no longer gets, although nothing was
    deleted there. What a reader got after the final reading began does not count.

    Compaction may remove records that are superseded, and those of transactions that are not known to be committed.
    """
    kept, owners = KeptRecords(history), _owners(history)
    for reader in history.readers:
        for poll in reader.polls():
            log = history.final_log(poll.partition)
            if log is None or poll.ended > log.began:
                continue
            left = {record.value for record in (log.committed if reader.reads_committed else log.uncommitted)}
            for offset, value in poll.records:
                if offset < log.log_start or value in left:
                    continue
                if not _may_be_compacted(kept, owners, log, reader.reads_committed, Record(offset, value)):
                    yield Anomaly(
                        "vanished read", f"{reader.name} got {value!r} at {offset} of {poll.partition}, which is gone"
                    )


def unstable_reads(history: TransactionHistory) -> Iterator[Anomaly]:
    """Yields records at or beyond the last stable offset in the response that brought them, or the high watermark."""
    for reader in history.readers:
        for poll in reader.polls():
            end = poll.stable_end if reader.reads_committed else poll.high_watermark
            for offset, value in poll.records:
                if end is not None and offset >= end:
                    yield Anomaly(
                        "unstable read", f"{reader.name} got {value!r} at {offset} of {poll.partition}, beyond {end}"
                    )


def wrong_stable_ends(history: TransactionHistory) -> Iterator[Anomaly]:
    """Yields last stable offsets that fell under one leader, lay beyond the high watermark, or passed an open
    transaction. What was deleted of a transaction is passed."""
    newest: dict[tuple[str, Partition, int], int] = {}
    opened: dict[Partition, list[tuple[int, Send, Transaction, float]]] = defaultdict(list)
    for send, transaction, until in _open_sends(history):
        if send.offset is not None:
            opened[send.partition].append((send.offset, send, transaction, until))
    for reader in history.readers:
        for poll in reader.polls():
            end = poll.stable_end
            if end is None:
                continue
            if poll.high_watermark is not None and end > poll.high_watermark:
                yield Anomaly(
                    "wrong stable offset",
                    f"{reader.name} was told that {poll.partition} is stable up to {end}, beyond its high watermark "
                    f"{poll.high_watermark}",
                )
            if poll.leader_epoch is not None:
                key = reader.name, poll.partition, poll.leader_epoch
                if end < newest.get(key, 0):
                    yield Anomaly(
                        "wrong stable offset",
                        f"{reader.name} was told that {poll.partition} is stable up to {end} after {newest[key]}",
                    )
                newest[key] = max(end, newest.get(key, 0))
            for offset, send, transaction, until in opened[poll.partition]:
                if end > max(offset, poll.log_start) and send.ended < poll.began and poll.ended < until:
                    yield Anomaly(
                        "wrong stable offset",
                        f"{reader.name} was told that {poll.partition} is stable up to {end}, while {transaction} was "
                        f"open from {offset} on",
                    )


def reordered_polls(history: TransactionHistory) -> Iterator[Anomaly]:
    """Yields records that a reader got before, or out of order, without a new position."""
    for reader in history.readers:
        next_offsets: dict[Partition, int] = {}
        for event in reader.events:
            if isinstance(event, Position):
                next_offsets[event.partition] = event.offset
                continue
            for offset, value in event.records:
                expected = next_offsets.get(event.partition, 0)
                if offset < expected:
                    yield Anomaly(
                        "reordered polls",
                        f"{reader.name} got {value!r} at {offset} of {event.partition}, but was at {expected} already",
                    )
                next_offsets[event.partition] = max(offset + 1, expected)


def skipped_records(history: TransactionHistory) -> Iterator[Anomaly]:
    """Yields records of the final log that a reader passed without getting them.

    A reader is past a record when it gets a later one of the same partition. What was deleted meanwhile does not count,
    and neither does what compaction may remove, because it may have done so in the replica that was read.
    """
    kept, owners = KeptRecords(history), _owners(history)
    for reader in history.readers:
        positions: dict[Partition, int] = {}
        for event in reader.events:
            if isinstance(event, Position):
                positions[event.partition] = event.offset
            elif event.records:
                log = history.final_log(event.partition)
                if log is not None:
                    for offset, value in _skipped(log, reader.reads_committed, event, positions):
                        if not _may_be_compacted(kept, owners, log, reader.reads_committed, Record(offset, value)):
                            yield Anomaly(
                                "skipped record",
                                f"{reader.name} got {event.records[-1].offset} of {log.partition}, but not {value!r} "
                                f"at {offset}",
                            )


def _skipped(
    log: FinalLog, reads_committed: bool, poll: Poll, positions: dict[Partition, int]
) -> Iterator[tuple[int, bytes]]:
    """Yields the records of the final log that the response has passed, and moves the position of its reader."""
    records = log.committed if reads_committed else log.uncommitted
    offsets = [record.offset for record in records]
    start = max(positions.get(poll.partition, 0), log.log_start)
    last = poll.records[-1].offset
    got = {record.offset for record in poll.records}
    for index in range(bisect_left(offsets, start), bisect_right(offsets, last)):
        if offsets[index] not in got:
            yield offsets[index], records[index].value
    positions[poll.partition] = max(last + 1, positions.get(poll.partition, 0))


def _may_be_compacted(
    kept: KeptRecords, owners: Mapping[bytes, Owner], log: FinalLog, reads_committed: bool, record: Record
) -> bool:
    """Returns whether compaction may have removed what such a reader gets, or may get: a record that is superseded, or
    one of a transaction that is not known to be committed."""
    if not log.is_compacted:
        return False
    transaction = owners[record.value][2] if record.value in owners else None
    is_committed = reads_committed or transaction is None or transaction.fate is Fate.COMMITTED
    return not is_committed or kept.may_lack(log.partition, record.offset, record.value)


def _open_sends(history: TransactionHistory) -> Iterator[tuple[Send, Transaction, float]]:
    """Yields the first acknowledged record of each transaction in each partition, and until when the transaction was
    certainly open: nobody had asked to end it, and neither its time-out nor an InitProducerId can have ended it."""
    for transaction in history.transactions():
        until = min(transaction.end_began, transaction.expires, _init_may_end(history, transaction))
        partitions: set[Partition] = set()
        for send in transaction.sends:
            if send.outcome is Outcome.OK and send.partition not in partitions:
                partitions.add(send.partition)
                yield send, transaction, until


def _init_may_end(history: TransactionHistory, transaction: Transaction) -> float:
    """Returns from when on an InitProducerId may have aborted the transaction.

    One that began earlier may take effect later, and so may a repeated one of its own process.
    """
    if any(each.is_commit and each.outcome is Outcome.OK for each in transaction.endings):
        return math.inf  # nobody commits what an InitProducerId has aborted
    return min(
        (
            producer.init_began
            for producer in history.producers
            if producer.transactional_id == transaction.producer.transactional_id
            and producer.init_is_over > transaction.began
        ),
        default=math.inf,
    )


def _owners(history: TransactionHistory) -> Mapping[bytes, Owner]:
    return {send.value: (send, producer, transaction) for send, producer, transaction in history.sends()}


def _committed_reads(history: TransactionHistory) -> Iterator[tuple[str, Partition, int, bytes]]:
    for reader in history.readers:
        for poll in reader.polls() if reader.reads_committed else ():
            for offset, value in poll.records:
                yield reader.name, poll.partition, offset, value
    for log in history.final_logs:
        for offset, value in log.committed:
            yield "the final reader", log.partition, offset, value


def _unsent(owners: Mapping[bytes, Owner], name: str, records: list[tuple[int, bytes]]) -> Iterator[Anomaly]:
    for offset, value in records:
        if value not in owners:
            yield Anomaly("phantom", f"{name} has {value!r} at {offset}, which nobody sent")
        elif owners[value][0].outcome is Outcome.FAILED:
            yield Anomaly("phantom", f"{name} has {value!r} at {offset}, which the broker had refused")
