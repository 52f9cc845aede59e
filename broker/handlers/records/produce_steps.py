"""The steps of a produce request to one partition: checks, duplicates, sequence gaps, append, acknowledgement.

`produce` and `produce_shortcut` take these steps in the same order:

1. `find_writable` finds the leading replica. With acks=all it also checks `min.insync.replicas`.
2. `check_batch` checks the batch, and makes it what the topic's config wants. For a heavy batch, `produce` then takes
   the steps of `check_heavy_batch`, and step 1 again.
3. `append_batch` appends it, or recognises a batch that an idempotent producer repeats. `append_together` appends
   several batches with one write; only `produce_shortcut` has several.
4. `end_to_await` says whether the response has to wait, and for which log offset.
5. `wait_until_acknowledged` waits for that offset. `refuse_appended` makes the response if it never comes.

Each step raises KafkaError to refuse the batch. `produce` turns the error into the response; `produce_shortcut` hands
the request to `produce`, which then refuses it.

The rules about acknowledgement have these places:

- Before an append, acks=all needs `min.insync.replicas` live replicas: `find_writable`.
- After an append, a record is committed as the replication policy says, which also counts `min.insync.replicas`:
  `broker/replication/policy.py`. `Replica` keeps the result as its high watermark.
- A response may leave when the awaited offset is committed (acks=all) or synced (acks=1): `end_to_await` at once, and
  `Replica.on_advanced` for those that wait.
"""

from collections.abc import Generator, Sequence
from uuid import UUID

import trio

from tailrace.broker.replicas.acknowledgements import AcknowledgementWaiter
from tailrace.broker.replicas.replica import IsolatedError, Replica
from tailrace.broker.transactions.markers.verifications import Verification
from tailrace.protocol.batches.produced_batch import admit, admit_in_steps
from tailrace.protocol.batches.record_batch import (
    LOG_OVERHEAD,
    TRANSACTIONAL,
    BatchHeader,
    read_header,
    stamp_append_time,
    stamp_as,
    write_header,
)
from tailrace.protocol.batches.records import NO_TIMESTAMP
from tailrace.protocol.codec.primitives import Buffer
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
)
from tailrace.server.request_context import RequestContext
from tailrace.storage.producers.producer_state import AppendedBatch, ProducerStates

from .leader_hints import endpoint_of, leader_elsewhere
from .record_host import ProduceHost
from .refused_batches import BEHIND_SECONDS_MAX

LEADERS_FROM = 10
TOPIC_IDS_FROM = 13
ACKS_ALL = -1
NO_OFFSET = -1


def find_writable(host: ProduceHost, topic: str | UUID, partition: int, acks: int) -> Replica:
    """Returns the replica that takes what producers send for the partition. Raises KafkaError."""
    replica = host.replicas.leading(topic, partition)
    if replica.is_internal:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{replica.topic} is written by brokers alone")
    if replica.is_merging:
        raise replica.not_leader()  # not yet: the client retries
    if host.isolation.is_isolated(replica):
        raise replica.isolated_error()
    if acks == ACKS_ALL:
        live, wanted = replica.live_count, replica.replicas_min
        if live < wanted:
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, f"{live} live replicas; min.insync.replicas is {wanted}")
    return replica


def check_batch(
    replica: Replica, records: Buffer | None, api_version: int, transactional_id: str | None, now_ms: int
) -> tuple[Buffer, BatchHeader]:
    """Returns the batch that was sent for one partition, checked, with its header.

    Raises KafkaError, and HeavyBatchError if the batch has to be checked by `check_heavy_batch`.
    """
    batch, header = admit(records, replica.settings.produce, api_version=api_version, now_ms=now_ms)
    if header.attributes & TRANSACTIONAL:
        _check_ids(header, transactional_id)
    return batch, header


def check_heavy_batch(
    replica: Replica, records: Buffer, header: BatchHeader, transactional_id: str | None, now_ms: int
) -> Generator[None, None, tuple[Buffer, BatchHeader]]:
    """Does what `check_batch` does for a batch that takes long. Yields whenever other clients may be served."""
    batch, header = yield from admit_in_steps(records, header, replica.settings.produce, now_ms=now_ms)
    if header.attributes & TRANSACTIONAL:
        _check_ids(header, transactional_id)
    return batch, header


def _check_ids(header: BatchHeader, transactional_id: str | None) -> None:
    """Raises KafkaError if a transactional batch lacks an id."""
    if transactional_id is None:
        raise KafkaError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "a transactional batch needs a transactional id in its request",
        )
    if header.producer_id < 0:
        raise KafkaError(ErrorCode.INVALID_RECORD, "a transactional batch needs a producer id")


def append_batch(
    host: ProduceHost,
    replica: Replica,
    topic: str | UUID,
    batch: Buffer,
    header: BatchHeader,
    acks: int,
    now_ms: int,
    confirmed: Verification | None = None,
) -> tuple[int, int, int | None]:
    """Appends a checked batch, unless the log has it already. Raises KafkaError.

    `topic` is the name or the id by which the client names the topic. `confirmed` is the confirmation of the
    coordinator for a batch that opens its transaction in this partition. Returns the base offset and the append time
    for the response, and the result of `end_to_await`.
    """
    rules, log = replica.settings.produce, replica.log
    append_time_ms = now_ms if rules.append_time else NO_TIMESTAMP
    if header.producer_id >= 0 and (stored := _stored_before(host, replica, topic, header, confirmed)) is not None:
        base_offset = stored.base_offset
        end = stored.last_offset + 1
        if rules.append_time:
            append_time_ms = replica.batch_time(base_offset) or now_ms
    else:
        metrics = host.metrics
        if metrics.produced_bytes >= host.storage_limit.produced_bytes_max or log.is_overgrown:
            _check_room(host, replica)
        sent = header
        if rules.append_time:
            stamp_append_time(batch, 0, header.size, now_ms)
            header = read_header(batch)
        base_offset = header.base_offset = log.log_end
        header.leader_epoch = replica.spec.epoch
        stamp_as(batch, header)
        try:
            replica.append(batch, header)
        except KafkaError:
            sent.base_offset = 0
            write_header(batch, sent)  # the request may be handled once more, and must be what was sent
            raise
        end = log.log_end
        metrics.produced_batches += 1
        metrics.produced_bytes += header.batch_length + LOG_OVERHEAD
        host.on_appended(replica)
    return base_offset, append_time_ms, end_to_await(replica, acks, end)


def append_together(
    host: ProduceHost, replica: Replica, topic: str | UUID, batches: Sequence[Buffer], headers: Sequence[BatchHeader]
) -> bool:
    """Appends small checked batches with one write, in a topic whose batches get no append time.

    The batches of an idempotent producer follow each other without a gap, so that what is right for the first is right
    for all. Afterwards the headers have the offsets, and the batches are as they were: only the log's copies have
    offsets. Returns False if the batches have to be appended one by one. Raises KafkaError if none could be appended.
    """
    first = headers[0]
    if first.producer_id >= 0 and (
        host.refused_batches or _stored_before(host, replica, topic, first, None) is not None
    ):
        return False
    _check_room(host, replica)
    offset, epoch = replica.log.log_end, replica.spec.epoch
    data = bytearray().join(batches)
    position = 0
    for header in headers:
        header.base_offset, header.leader_epoch = offset, epoch
        stamp_as(data, header, position)
        offset += header.last_offset_delta + 1
        position += header.batch_length + LOG_OVERHEAD
    if not replica.append_together(data, headers):
        return False
    host.metrics.produced_batches += len(headers)
    host.metrics.produced_bytes += position
    host.on_appended(replica)
    return True


def end_to_await(replica: Replica, acks: int, end: int) -> int | None:
    """Returns `end` if the response to a batch that ends there has to wait for it, and None if it may leave at once."""
    if acks == ACKS_ALL:
        waits = replica.high_watermark < end
    else:
        waits = acks != 0 and replica.syncs_before_acknowledging and replica.log.synced_end < end
    return end if waits else None


def wait_until_acknowledged(replica: Replica, end: int, acks: int, waiter: AcknowledgementWaiter) -> None:
    """Has the waiter called when the log up to `end` is committed, or with acks=1 synced on this SPU.

    A producer that asks for acks=1 does not wait for followers: they may be offline.
    """
    wait = replica.wait_until_committed if acks == ACKS_ALL else replica.wait_until_synced
    wait(end, waiter)


def timed_out() -> KafkaError:
    return KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the replicas did not acknowledge in time")


def refuse_appended(
    host: ProduceHost,
    context: RequestContext,
    response: ProduceResponse,
    replica: Replica,
    answer: PartitionProduceResponse,
    error: KafkaError,
) -> None:
    """Makes the answer, which is part of the response, an error: the appended batch is not known to be committed."""
    answer.error_code = error.code
    answer.error_message = error.message or None
    answer.base_offset = NO_OFFSET
    hint_at_leader(host, context, response, answer, replica.spec.topic_id, error)


def hint_at_leader(
    host: ProduceHost,
    context: RequestContext,
    response: ProduceResponse,
    answer: PartitionProduceResponse,
    topic: str | UUID,
    error: KafkaError,
) -> None:
    """Adds the leader to a response that says NOT_LEADER_OR_FOLLOWER, if this SPU knows the leader (v10 and later)."""
    if isinstance(error, IsolatedError):
        context.close_after = error.message
    if answer.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER or context.api_version < LEADERS_FROM:
        return
    found = leader_elsewhere(host, topic, answer.index)
    if found is None:
        return
    answer.current_leader = LeaderIdAndEpoch(found.leader, found.epoch)
    if all(node.node_id != found.leader for node in response.node_endpoints):
        endpoint = endpoint_of(host, found.leader, context.listener)
        if endpoint is not None:
            response.node_endpoints.append(NodeEndpoint(*endpoint))


# batches of idempotent producers


def _stored_before(
    host: ProduceHost, replica: Replica, topic: str | UUID, header: BatchHeader, confirmed: Verification | None
) -> AppendedBatch | None:
    """Returns what the log knows of the batch if it has stored it already. Raises KafkaError if the batch must wait for
    earlier ones, or does not belong there at all."""
    log, producers = replica.log, replica.log.producers
    was_refused = bool(host.refused_batches) and host.refused_batches.check(
        topic, replica.partition, header, producers, trio.current_time()
    )
    if header.base_sequence > 0 and not producers.knows(header.producer_id):
        # In an empty log, the earlier batches are still on their way, or they went to another topic of this name. In
        # the latter case only this batch is sent again.
        if (log.log_end == 0 and not was_refused) or _may_lack_earlier_batches(replica, header):
            raise _too_early(header)
        if confirmed is not None and confirmed.raises_epochs:
            raise _not_first(header)
        stored = None
    else:
        try:
            stored = producers.check(header)
        except KafkaError as error:
            if not host.is_sure_to_lead(replica):
                raise replica.not_leader() from None  # another leader may have stored what seems to be missing
            if error.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and _may_lack_earlier_batches(replica, header):
                raise _too_early(header) from None
            raise
    if header.attributes & TRANSACTIONAL and stored is None:
        _check_transaction(replica, header, confirmed)
    return stored


def is_in_transaction(producers: ProducerStates, header: BatchHeader) -> bool:
    """Returns whether the log knows that the producer's transaction is open in the epoch of the batch."""
    producer_id = header.producer_id
    return producers.open_transaction(producer_id) is not None and producers.epoch(producer_id) == header.producer_epoch


def _check_transaction(replica: Replica, header: BatchHeader, confirmed: Verification | None) -> None:
    """Raises KafkaError unless the batch belongs to an open transaction, or may open it in this partition."""
    if is_in_transaction(replica.log.producers, header):
        return
    if confirmed is None:
        # The coordinator was asked about other partitions only: while it was, this one changed in such a way that it
        # has to be asked now. The producer sends the batch again.
        raise KafkaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition changed while the coordinator was asked about others"
        )
    if not confirmed.still_holds_for(replica):
        raise replica.not_leader()
    if confirmed.is_void:
        raise KafkaError(
            ErrorCode.INVALID_TXN_STATE, f"producer {header.producer_id} has no transaction with this partition"
        )


def _not_first(header: BatchHeader) -> KafkaError:
    """Returns the error for a batch that would open a transaction although earlier batches of it are missing."""
    return KafkaError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer {header.producer_id} begins a transaction at sequence {header.base_sequence}, not at 0",
    )


def _may_lack_earlier_batches(replica: Replica, header: BatchHeader) -> bool:
    """Whether this leader was elected a moment ago, and has nothing from the producer since. The producer sends again
    what an earlier leader refused, but librdkafka may send what follows that first: its threads do not wait for each
    other."""
    if trio.current_time() >= replica.taken_over_at + BEHIND_SECONDS_MAX:
        return False
    newest = replica.log.producers.newest(header.producer_id)
    return (0 if newest is None else newest.base_offset) < replica.taken_over_end


def _too_early(header: BatchHeader) -> KafkaError:
    """Makes the producer send again, in order, this batch and all earlier ones without a response."""
    return KafkaError(
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        f"batches that producer {header.producer_id} sent before sequence {header.base_sequence} may still arrive",
    )


# room


def _check_room(host: ProduceHost, replica: Replica) -> None:
    """Raises KafkaError if the SPU's storage is full, or the log has too much that is not committed."""
    if host.metrics.produced_bytes >= host.storage_limit.produced_bytes_max:
        host.storage_limit.check_room()
    if replica.log.waits_to_roll:
        raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "two segments are not committed, and there can be no third")
