"""Writes to transactions in the log of a replica, as producers and coordinators do."""

from tailrace.broker.replicas.replica import Replica
from tailrace.protocol.batches.record_batch import read_header
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.protocol.batches.transaction_markers import marker_batch

TIME_MS = 1_700_000_000_000


def write_data(replica: Replica, producer_id: int, *values: bytes, timestamp: int = TIME_MS) -> int:
    """Appends records, in a transaction unless the producer is -1. Returns the offset of the first one."""
    base, producers = replica.log.log_end, replica.log.producers
    is_transactional = producer_id >= 0
    batch = build_batch(
        [Record(base + each, timestamp, None, value) for each, value in enumerate(values)],
        base_offset=base,
        leader_epoch=replica.spec.epoch,
        producer_id=producer_id,
        producer_epoch=0 if is_transactional else -1,
        base_sequence=(producers.expected(producer_id, 0) or 0) if is_transactional else -1,
        is_transactional=is_transactional,
    )
    replica.append(batch, read_header(batch))
    return base


def write_marker(replica: Replica, producer_id: int, *, is_commit: bool = False) -> int:
    """Appends a marker, and returns its offset."""
    base = replica.log.log_end
    batch = marker_batch(
        base, replica.spec.epoch, producer_id, 0, is_commit=is_commit, coordinator_epoch=1, now_ms=TIME_MS
    )
    replica.append(batch, read_header(batch))
    return base
