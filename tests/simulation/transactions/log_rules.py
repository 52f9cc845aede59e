"""Rules for logs and writes: one value per offset, nothing lost, torn or repeated, and markers obeyed."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise, starmap

from .kept_records import KeptRecords, keys_of, last_offsets
from .transaction_history import (
    Anomaly,
    Fate,
    FinalLog,
    Marker,
    Outcome,
    Partition,
    Record,
    Stored,
    TransactionHistory,
)


def inconsistent_offsets(history: TransactionHistory) -> Iterator[Anomaly]:
    """Yields offsets at which clients were told of two values, by whatever response."""
    at: dict[tuple[Partition, int], bytes] = {}
    for who, partition, offset, value in _observations(history):
        known = at.setdefault((partition, offset), value)
        if known != value:
            yield Anomaly(
                "inconsistent offsets", f"{who} has {value!r} at {offset} of {partition}, where {known!r} was seen"
            )


def duplicates(history: TransactionHistory) -> Iterator[Anomaly]:
    """Yields values at two places, except for those of producers that may repeat them."""
    may_repeat = {
        send.value
        for send, producer, transaction in history.sends()
        if transaction is None and not producer.is_idempotent
    }
    places: dict[bytes, tuple[Partition, int]] = {}
    for who, partition, offset, value in _observations(history):
        known = places.setdefault(value, (partition, offset))
        if known != (partition, offset) and value not in may_repeat:
            yield Anomaly(
                "duplicate", f"{who} has {value!r} at {offset} of {partition}, and it was at {known[1]} of {known[0]}"
            )


def lost_writes(history: TransactionHistory) -> Iterator[Anomaly]:
    """Yields acknowledged values, of committed transactions or of none, that a final read does not get."""
    kept = KeptRecords(history)
    for send, producer, transaction in history.sends():
        is_committed = transaction is None or transaction.fate is Fate.COMMITTED
        if is_committed and send.outcome is Outcome.OK and kept.has(send) is False:
            whose = producer if transaction is None else transaction
            yield Anomaly("lost write", f"{send.value!r} of {whose} was acknowledged at {send.offset}, and is gone")


def torn_transactions(history: TransactionHistory) -> Iterator[Anomaly]:
    """Yields transactions of which a final read gets some acknowledged values, and lacks others for ever."""
    kept = KeptRecords(history)
    for transaction in history.transactions():
        sends = [send for send in transaction.sends if send.outcome is Outcome.OK]
        seen = [send.value for send in sends if kept.has(send)]
        lacking = [send.value for send in sends if kept.has(send) is False]
        if seen and lacking:
            yield Anomaly("torn transaction", f"of {transaction}, {seen[0]!r} is there, and {lacking[0]!r} is not")


def reordered_sends(history: TransactionHistory) -> Iterator[Anomaly]:
    """Yields values of one producer that are in another order than it sent them.

    Without idempotence, a repeated value may come later.
    """
    for producer in history.producers:
        offsets: dict[Partition, list[tuple[int, bytes]]] = defaultdict(list)
        for send in sorted(producer.all_sends(), key=lambda send: send.began):
            if send.offset is not None and send.outcome is Outcome.OK:
                offsets[send.partition].append((send.offset, send.value))
        for sent in offsets.values():
            for (before, earlier), (after, later) in pairwise(sent):
                if after <= before:
                    yield Anomaly(
                        "reordered sends",
                        f"{producer} sent {later!r} after {earlier!r}, and it is at {after}, not after {before}",
                    )


def zombie_writes(history: TransactionHistory) -> Iterator[Anomaly]:
    """Yields what an earlier process of a transactional id did after a later one had fenced it.

    If both were initialized at the same time, nobody can tell which of them is the later one.
    """
    for producer in history.producers:
        fenced_at = min(
            (
                other.init_ended
                for other in history.producers
                if other is not producer
                and other.transactional_id == producer.transactional_id is not None
                and other.init_began >= producer.init_ended
            ),
            default=None,
        )
        if fenced_at is None:
            continue
        for transaction in producer.transactions:
            for send in transaction.sends:
                if send.outcome is Outcome.OK and send.began > fenced_at:
                    yield Anomaly("zombie", f"{producer} sent {send.value!r} after it was fenced at {fenced_at:.3f} s")
            for ending in transaction.endings:
                if ending.outcome is Outcome.OK and ending.began > fenced_at:
                    yield Anomaly("zombie", f"{transaction} ended after its producer was fenced at {fenced_at:.3f} s")


def unsettled_logs(history: TransactionHistory) -> Iterator[Anomaly]:
    """Yields logs whose last stable offset has not reached the end after all faults: a transaction hangs."""
    for log in history.final_logs:
        if log.stable_end < log.log_end:
            yield Anomaly(
                "stuck stable offset", f"{log.partition} is stable up to {log.stable_end}, and ends at {log.log_end}"
            )


def disobeyed_markers(history: TransactionHistory) -> Iterator[Anomaly]:
    """Yields records that a read_committed reader gets or lacks against what the markers in the final log say."""
    keys = keys_of(history)
    for log in history.final_logs:
        should_be = {each for each in _committed_by_markers(log) if each[0] >= log.log_start}
        committed = {(record.offset, record.value) for record in log.committed if record.offset >= log.log_start}
        if log.is_compacted:
            # The logs were read one after the other, and compaction may have removed records between the readings.
            last = last_offsets(starmap(Record, sorted(should_be)), keys)
            committed = {each for each in committed if each in should_be or each[0] >= last.get(keys.get(each[1]), -1)}
        for offset, value in sorted(committed - should_be):
            yield Anomaly(
                "disobeyed marker", f"{value!r} at {offset} of {log.partition} has no commit marker, and is read"
            )
        for offset, value in sorted(should_be - committed):
            yield Anomaly("disobeyed marker", f"{value!r} at {offset} of {log.partition} is committed, and is not read")


def _committed_by_markers(log: FinalLog) -> set[tuple[int, bytes]]:
    """Returns the records that count: without a transaction, or followed by their producer's commit marker."""
    committed: set[tuple[int, bytes]] = set()
    opened: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
    steps: list[Stored | Marker] = sorted([*log.uncommitted, *log.markers], key=lambda step: step.offset)
    for step in steps:
        if isinstance(step, Marker):
            records = opened.pop(step.producer_id, [])
            committed.update(records if step.is_commit else ())
        elif step.is_transactional:
            opened[step.producer_id].append((step.offset, step.value))
        else:
            committed.add((step.offset, step.value))
    return committed


def _observations(history: TransactionHistory) -> Iterator[tuple[str, Partition, int, bytes]]:
    """Yields each statement to a client about what is at an offset: who was told, where, and the value."""
    for send, producer, _ in history.sends():
        if send.outcome is Outcome.OK and send.offset is not None:
            yield f"the acknowledgement to {producer}", send.partition, send.offset, send.value
    for reader in history.readers:
        for poll in reader.polls():
            for offset, value in poll.records:
                yield reader.name, poll.partition, offset, value
    for log in history.final_logs:
        for record in log.committed:
            yield "the final read_committed log", log.partition, record.offset, record.value
        for stored in log.uncommitted:
            yield "the final log", log.partition, stored.offset, stored.value
