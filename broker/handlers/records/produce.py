"""Produce, versions 3–13: batches are checked, stamped with offset and epoch in place, and appended as they came.

- acks=0 has no response; an error then closes the connection, which is all a client can be told. acks=1 is answered
  once the leader has the batch, acks=all once it is committed. With flush.messages=1 both wait for the disk: acks=1 for
  the leader's, acks=all for those of all who commit.
- An idempotent producer's repeated batch is answered with the offset and the time it got at first. One that follows a
  batch which was just refused for now is refused like that one, not for the gap before it.
- An SPU whose storage is full takes nothing more: KAFKA_STORAGE_ERROR, which clients try again until there is room.
- Topics in which brokers keep what they coordinate take nothing from clients: INVALID_TOPIC_EXCEPTION.
- v8: if some records are at fault, they are named; clients tell whoever sent the others that it was not theirs.
- v10: who asked the wrong SPU is told who leads, and where that is. v13 names topics by id.
- Transactional batches are refused until transactions are served.
"""

from collections.abc import Callable, Sequence
from uuid import UUID

import trio

from tailrace.broker.replicas.acknowledgements import AcknowledgementWaiter
from tailrace.broker.replicas.replica import IsolatedError, Replica
from tailrace.protocol.batches.produced_batch import RecordsRefusedError, admit
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
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tailrace.server.request_context import RequestContext
from tailrace.storage.producers.producer_state import AppendedBatch

from .leader_hints import endpoint_of, leader_elsewhere
from .record_host import ProduceHost
from .refused_batches import BEHIND_SECONDS_MAX

LEADERS_FROM = 10
TOPIC_IDS_FROM = 13
ALL = -1
NO_OFFSET = -1
_KNOWN_ACKS = (0, 1, ALL)
_NO_ERROR = int(ErrorCode.NONE)


def handle(host: ProduceHost, context: RequestContext, request: ProduceRequest) -> ProduceResponse | None:
    acks = request.acks
    by_id = context.api_version >= TOPIC_IDS_FROM
    topics: list[TopicProduceResponse] = []
    response = ProduceResponse(topics)
    pending: PendingProduce | None = None
    error: str | None = None
    for topic in request.topic_data:
        name: str | UUID = topic.topic_id if by_id else topic.name
        partitions: list[PartitionProduceResponse] = []
        for data in topic.partition_data:
            try:
                if acks not in _KNOWN_ACKS:
                    raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={acks}")
                replica = writable(host, name, data.index, acks)
                base_offset, append_time_ms, awaited = append(
                    host, replica, name, data.records, context.api_version, acks
                )
                answer = PartitionProduceResponse(
                    data.index, _NO_ERROR, base_offset, append_time_ms, replica.log.log_start
                )
            except KafkaError as reason:
                error = str(reason)  # with itself it would keep the request until garbage is collected
                answer = PartitionProduceResponse(
                    index=data.index,
                    error_code=reason.code,
                    base_offset=NO_OFFSET,
                    record_errors=_refused_records(reason),
                    error_message=reason.message or None,
                )
                host.metrics.produce_errors += 1
                host.refused_batches.on_refused(name, data.index, data.records, reason, trio.current_time())
                _send_on(host, context, response, answer, name, reason)
            else:
                if awaited is not None:
                    if pending is None:
                        pending = PendingProduce(host, context, response, acks)
                    pending.wait_for(replica, awaited, answer)
            partitions.append(answer)
        topics.append(TopicProduceResponse(topic.name, topic.topic_id, partitions))
    if acks == 0:
        context.respond_nothing(close=f"a record sent with acks=0 was refused: {error}" if error else None)
        return None
    if pending is not None:
        pending.start(request.timeout_ms)
        return None
    return response


def writable(host: ProduceHost, topic: str | UUID, partition: int, acks: int) -> Replica:
    """The replica that takes what producers send for the partition. Raises KafkaError."""
    replica = host.replicas.leading(topic, partition)
    if replica.is_internal:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{replica.topic} is written by brokers alone")
    if replica.is_merging:
        raise replica.not_leader()  # not yet: the client tries again
    if host.isolation.is_cut_off(replica):
        raise replica.isolated_error()
    if acks == ALL:
        live, wanted = replica.live_count, replica.replicas_min
        if live < wanted:
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, f"{live} live replicas; min.insync.replicas is {wanted}")
    return replica


def _refused_records(error: KafkaError) -> list[BatchIndexAndErrorMessage]:
    refused = error.refused if isinstance(error, RecordsRefusedError) else ()
    return [BatchIndexAndErrorMessage(number, why) for number, why in refused]


def _send_on(
    host: ProduceHost,
    context: RequestContext,
    response: ProduceResponse,
    answer: PartitionProduceResponse,
    topic: str | UUID,
    error: KafkaError,
) -> None:
    """To the leader, if this one knows who that is."""
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


def refuse(
    host: ProduceHost,
    context: RequestContext,
    response: ProduceResponse,
    replica: Replica,
    answer: PartitionProduceResponse,
    error: KafkaError,
) -> None:
    """What was appended is not known to be committed: makes that of an answer in the response."""
    answer.error_code = error.code
    answer.error_message = error.message or None
    answer.base_offset = NO_OFFSET
    _send_on(host, context, response, answer, replica.spec.topic_id, error)


def not_in_time() -> KafkaError:
    return KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the replicas did not acknowledge in time")


def _not_yet(header: BatchHeader) -> KafkaError:
    """The producer sends it again, and all that came before it and has no answer, in order."""
    return KafkaError(
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        f"what producer {header.producer_id} sent before sequence {header.base_sequence} may be yet to come",
    )


def _earlier(host: ProduceHost, replica: Replica, topic: str | UUID, header: BatchHeader) -> AppendedBatch | None:
    """The same batch, if it was stored before."""
    log, producers = replica.log, replica.log.producers
    comes_again = bool(host.refused_batches) and host.refused_batches.check(
        topic, replica.partition, header, producers, trio.current_time()
    )
    if header.base_sequence != 0 and producers.newest(header.producer_id) is None:
        # Where nothing was ever written, what came before is still on its way, or was written to another topic of this
        # name: then only this batch comes again.
        if (log.log_end == 0 and not comes_again) or _may_miss_some(replica, header):
            raise _not_yet(header)
        return None
    try:
        return producers.check(header)
    except KafkaError as error:
        if not host.is_sure_to_lead(replica):
            raise replica.not_leader() from None  # another leader may have stored what seems to be missing
        if error.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and _may_miss_some(replica, header):
            raise _not_yet(header) from None
        raise


def _may_miss_some(replica: Replica, header: BatchHeader) -> bool:
    """Whether this leader began a moment ago, and has nothing of the producer yet: what an earlier leader refused comes
    again, but librdkafka may send what follows it first (its threads do not wait for each other)."""
    if trio.current_time() >= replica.taken_over_at + BEHIND_SECONDS_MAX:
        return False
    newest = replica.log.producers.newest(header.producer_id)
    return (0 if newest is None else newest.base_offset) < replica.taken_over_end


def append(
    host: ProduceHost, replica: Replica, topic: str | UUID, records: Buffer | None, api_version: int, acks: int
) -> tuple[int, int, int | None]:
    """Appends what one partition was sent; the topic is named as the client does it. Raises KafkaError.

    Returns base offset and append time, which belong in the answer, and the offset for `wait_until_acknowledged`; None
    when the answer need not wait.
    """
    now_ms = host.wall_clock.now_ms()
    batch, header = admitted(replica, records, api_version, now_ms)
    return append_admitted(host, replica, topic, batch, header, acks, now_ms)


def admitted(replica: Replica, records: Buffer | None, api_version: int, now_ms: int) -> tuple[Buffer, BatchHeader]:
    """The batch that one partition was sent, checked. Raises KafkaError."""
    batch, header = admit(records, replica.settings.produce, api_version=api_version, now_ms=now_ms)
    if header.attributes & TRANSACTIONAL:
        raise KafkaError(ErrorCode.INVALID_TXN_STATE, "transactions are not served yet")
    return batch, header


def append_admitted(
    host: ProduceHost, replica: Replica, topic: str | UUID, batch: Buffer, header: BatchHeader, acks: int, now_ms: int
) -> tuple[int, int, int | None]:
    """As `append`, what was admitted at that time."""
    rules, log = replica.settings.produce, replica.log
    append_time_ms = now_ms if rules.append_time else NO_TIMESTAMP
    if header.producer_id >= 0 and (earlier := _earlier(host, replica, topic, header)) is not None:
        base_offset = earlier.base_offset
        end = earlier.last_offset + 1
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
            write_header(batch, sent)  # it may be looked at once more, and must be what was sent
            raise
        end = log.log_end
        metrics.produced_batches += 1
        metrics.produced_bytes += header.batch_length + LOG_OVERHEAD
        host.on_appended(replica)
    return base_offset, append_time_ms, awaited_end(replica, acks, end)


def awaited_end(replica: Replica, acks: int, end: int) -> int | None:
    """The offset for `wait_until_acknowledged`, for what ends there; None when the answer need not wait."""
    if acks == ALL:
        waits = replica.high_watermark < end
    else:
        waits = acks != 0 and replica.syncs_before_acknowledging and replica.log.synced_end < end
    return end if waits else None


def append_together(
    host: ProduceHost, replica: Replica, topic: str | UUID, batches: Sequence[Buffer], headers: Sequence[BatchHeader]
) -> bool:
    """Appends small batches that were admitted, with one write, where brokers give no append times. If they are of an
    idempotent producer, each goes on where the one before it ends: then what is right for the first is for all.

    Their offsets are in the headers then, and the batches are as they were: only the log has them with offsets. False:
    they have to be appended one by one. Raises KafkaError when nothing could be appended.
    """
    first = headers[0]
    if first.producer_id >= 0 and (host.refused_batches or _earlier(host, replica, topic, first) is not None):
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


def _check_room(host: ProduceHost, replica: Replica) -> None:
    """For more in that log. Raises KafkaError."""
    if host.metrics.produced_bytes >= host.storage_limit.produced_bytes_max:
        host.storage_limit.check_room()
    if replica.log.waits_to_roll:
        raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "two segments are not committed, and there can be no third")


def wait_until_acknowledged(replica: Replica, end: int, acks: int, waiter: AcknowledgementWaiter) -> None:
    """Who asks the leader alone does not wait for others: they may be away."""
    wait = replica.wait_until_committed if acks == ALL else replica.wait_until_synced
    wait(end, waiter)


class PendingProduce:
    """A produce request of which some partitions are not committed yet, or not on the disk."""

    __slots__ = ("_acks", "_context", "_host", "_response", "_waiting", "done")

    def __init__(self, host: ProduceHost, context: RequestContext, response: ProduceResponse, acks: int) -> None:
        self._acks = acks
        self._host = host
        self._context = context
        self._response = response
        self._waiting: dict[_PendingPartition, None] = {}
        self.done = False

    def wait_for(self, replica: Replica, end: int, answer: PartitionProduceResponse) -> None:
        partition = _PendingPartition(self, replica, answer)
        self._waiting[partition] = None
        wait_until_acknowledged(replica, end, self._acks, partition)

    def start(self, timeout_ms: int) -> None:
        self._context.abandon = self._abandon
        self._host.deadlines.add(trio.current_time() + max(timeout_ms, 0) / 1000, self)

    def on_decided(self, partition: "_PendingPartition") -> Callable[[], None] | None:
        """What sends the answer, if this was the last partition."""
        self._waiting.pop(partition, None)
        if self._waiting or self.done:
            return None
        self.done = True
        return self._context.prepare(self._response)

    def on_deadline(self) -> None:
        for partition in self._waiting:
            partition.refuse(not_in_time())
        self.done = True
        self._context.respond(self._response)

    def refuse(self, replica: Replica, answer: PartitionProduceResponse, error: KafkaError) -> None:
        refuse(self._host, self._context, self._response, replica, answer, error)

    def _abandon(self) -> None:
        self.done = True


class _PendingPartition:
    __slots__ = ("_answer", "_replica", "_request")

    def __init__(self, request: PendingProduce, replica: Replica, answer: PartitionProduceResponse) -> None:
        self._request = request
        self._replica = replica
        self._answer = answer

    @property
    def done(self) -> bool:
        return self._request.done

    def on_acknowledged(self) -> Callable[[], None] | None:
        return self._request.on_decided(self)

    def on_refused(self, error: KafkaError) -> None:
        self.refuse(error)
        send = self._request.on_decided(self)
        if send is not None:
            send()

    def refuse(self, error: KafkaError) -> None:
        self._request.refuse(self._replica, self._answer, error)
