"""Responds to ReadStore: the state of a local replica and its batches, committed or not.

A reader asks several stores, without a leader. Everything in a response is from one moment. If the topic requires that
records are synced before they are acknowledged, records that are not synced yet do not count.
"""

from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.internal.read_store import CopySet, ReadStoreRequest, ReadStoreResponse

READ_BYTES_MAX = 1 << 20
"""The limit for one response, whatever the request says. The first batch is returned even if it is larger."""


def read_from_store(replicas: ReplicaRegistry, request: ReadStoreRequest) -> ReadStoreResponse:
    try:
        replica = replicas.reading(request.topic_id, request.partition)
        records = _read(replica, request.offset, request.bytes_max)
    except KafkaError as error:
        return ReadStoreResponse(error.code, error.message)
    except OSError as error:
        return ReadStoreResponse(ErrorCode.KAFKA_STORAGE_ERROR, replica.offline_reason or str(error))
    spec, replication = replica.spec, replica.replication
    return ReadStoreResponse(
        promised=spec.epoch if replication is None else replication.promised,
        in_doubt=not (replica.is_alone if replication is None else replication.is_sure),
        high_watermark=replica.high_watermark,
        log_start=replica.log.log_start,
        log_end=_stored_end(replica),
        policy=replica.settings.replication_policy,
        replicas_min=replica.replicas_min,
        leader=spec.leader,
        epoch=spec.epoch,
        version=spec.version,
        replicas=list(spec.replicas),
        live_replicas=list(spec.live_replicas),
        copy_sets=[CopySet(list(each)) for each in spec.copy_sets],
        records=records,
    )


def _stored_end(replica: Replica) -> int:
    """Returns the offset before which records count as stored.

    Committed records count even if they are not synced here: they are on the disks of enough other stores.
    """
    log = replica.log
    return max(log.synced_end, replica.high_watermark) if replica.syncs_before_acknowledging else log.log_end


def _read(replica: Replica, offset: int, bytes_max: int) -> bytes:
    start, end = max(offset, replica.log.log_start), _stored_end(replica)
    if start >= end:
        return b""
    found = replica.read(start, min(max(0, bytes_max), READ_BYTES_MAX), end, at_least_one=True)
    return b"" if found is None else found.read()
