"""Produce, versions 3–13: batches are checked, stamped with offset and epoch in place, and appended as they came.

- acks=0 has no response. An error then closes the connection, which is all that a client can learn. acks=1 is
  acknowledged when the leader has the batch, acks=all when it is committed. With flush.messages=1 both wait for the
  disk: acks=1 for the leader's, acks=all for the disks of all replicas that commit.
- A batch that an idempotent producer repeats gets the offset and the append time that it got first. A batch behind one
  that was just refused for now is refused with the same error, not for the gap before it.
- If the SPU's storage is full, the error is KAFKA_STORAGE_ERROR, and clients retry until there is room.
- The topics in which brokers store groups take nothing from clients: INVALID_TOPIC_EXCEPTION.
- v8: if some records are at fault, the response names them. Clients can then tell the senders of the other records that
  theirs were right.
- v10: a client that asked the wrong SPU learns which SPU leads, and its address. v13 names topics by id.
- A transactional batch that opens its transaction in a partition waits until the transaction's coordinator has
  confirmed it. `transactional_batches` says which errors that may cause. If a producer's transaction is open, a batch
  outside of it gets INVALID_TXN_STATE. A transactional batch in a request without a transactional id gets
  TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
- A batch that takes long to check is checked in steps, and other clients are served in between. A request of many
  partitions is handled in steps after a few milliseconds. Leadership and sequences are judged when a batch is appended.

`produce_shortcut` handles the usual requests of a producer in the same steps, which `produce_steps` has.
"""

from collections.abc import Callable, Coroutine, Generator
from uuid import UUID

import trio

from tailrace.broker.replicas.replica import Replica
from tailrace.protocol.batches.produced_batch import HeavyBatchError, RecordsRefusedError
from tailrace.protocol.batches.record_batch import BatchHeader
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tailrace.server.fairness.crowd import BUSY_SECONDS
from tailrace.server.request_context import RequestContext

from .produce_steps import (
    ACKS_ALL,
    NO_OFFSET,
    TOPIC_IDS_FROM,
    append_batch,
    check_batch,
    check_heavy_batch,
    find_writable,
    hint_at_leader,
    refuse_appended,
    timed_out,
    wait_until_acknowledged,
)
from .record_host import ProduceHost, TransactionalProduceHost
from .transactional_batches import Confirmations

_KNOWN_ACKS = (0, 1, ACKS_ALL)
_NO_ERROR = int(ErrorCode.NONE)


def handle(
    host: TransactionalProduceHost, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | Coroutine[object, object, ProduceResponse | None] | None:
    if request.transactional_id is None:
        return _begin(host, context, request, _produce(host, context, request, None))
    confirmations = Confirmations(request.transactional_id, context.api_version)
    confirmations.look_at(host, request)
    must_wait = confirmations.is_question and not confirmations.ask(host) and confirmations.hold(host, request)
    if must_wait:
        return _produce_confirmed(host, context, request, confirmations)
    reply = None
    try:
        reply = _begin(host, context, request, _produce(host, context, request, confirmations))
    finally:
        if not isinstance(reply, Coroutine):
            confirmations.end(host)
    return _end_after(host, confirmations, reply) if isinstance(reply, Coroutine) else reply


async def _produce_confirmed(
    host: TransactionalProduceHost, context: RequestContext, request: ProduceRequest, confirmations: Confirmations
) -> ProduceResponse | None:
    """Handles a request when the coordinator of its transaction has responded."""
    try:
        await confirmations.wait()
        if context.meter is not None:
            context.meter.resumed()
        reply = _begin(host, context, request, _produce(host, context, request, confirmations))
        if context.meter is not None:
            context.meter.handled()
        return await reply if isinstance(reply, Coroutine) else reply
    finally:
        confirmations.end(host)
        host.end_turn()


async def _end_after(
    host: TransactionalProduceHost,
    confirmations: Confirmations,
    reply: Coroutine[object, object, ProduceResponse | None],
) -> ProduceResponse | None:
    try:
        return await reply
    finally:
        confirmations.end(host)


def _begin(
    host: TransactionalProduceHost,
    context: RequestContext,
    request: ProduceRequest,
    steps: Generator[None, None, ProduceResponse | None],
) -> ProduceResponse | Coroutine[object, object, ProduceResponse | None] | None:
    """Handles a request as far as that goes at once. Returns a coroutine if others have to be served in between."""
    try:
        next(steps)
    except StopIteration as end:
        response: ProduceResponse | None = end.value
        return response
    size = 0
    for topic in request.topic_data:
        for data in topic.partition_data:
            if data.records is not None:
                data.records = bytearray(data.records)  # the next turn overwrites the buffer of this one
                size += len(data.records)
    return host.large_requests.take_steps(steps, size, host.end_turn, context.meter)


def _produce(
    host: TransactionalProduceHost,
    context: RequestContext,
    request: ProduceRequest,
    confirmations: Confirmations | None,
) -> Generator[None, None, ProduceResponse | None]:
    """Handles a request, and yields whenever others have to be served. At the first time the request is copied."""
    acks, transactional_id = request.acks, request.transactional_id
    by_id = context.api_version >= TOPIC_IDS_FROM
    topics: list[TopicProduceResponse] = []
    response = ProduceResponse(topics)
    pending: PendingProduce | None = None
    error: str | None = None
    is_first, in_steps = True, False
    began: float | None = None
    for topic in request.topic_data:
        name: str | UUID = topic.topic_id if by_id else topic.name
        partitions: list[PartitionProduceResponse] = []
        for data in topic.partition_data:
            if is_first:
                is_first = False
            elif began is None:
                began = trio.current_time()
            elif trio.current_time() - began >= BUSY_SECONDS and (in_steps or host.large_requests.has_room):
                in_steps = True
                yield
            try:
                if acks not in _KNOWN_ACKS:
                    raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={acks}")
                confirmed = None if confirmations is None else confirmations.find(name, data.index)
                replica = find_writable(host, name, data.index, acks)
                now_ms = host.wall_clock.now_ms()
                heavy: BatchHeader | None = None
                try:
                    batch, header = check_batch(replica, data.records, context.api_version, transactional_id, now_ms)
                except HeavyBatchError as reason:
                    heavy = reason.header
                if heavy is not None:
                    if not in_steps and not host.large_requests.has_room:
                        raise _too_many_heavy()
                    in_steps = True
                    yield
                    assert data.records is not None
                    batch, header = yield from check_heavy_batch(replica, data.records, heavy, transactional_id, now_ms)
                    replica = find_writable(host, name, data.index, acks)  # it may have changed meanwhile
                    now_ms = host.wall_clock.now_ms()
                base_offset, append_time_ms, awaited = append_batch(
                    host, replica, name, batch, header, acks, now_ms, confirmed
                )
                answer = PartitionProduceResponse(
                    data.index, _NO_ERROR, base_offset, append_time_ms, replica.log.log_start
                )
            except KafkaError as reason:
                error = str(reason)  # the error itself would keep the request until garbage is collected
                answer = PartitionProduceResponse(
                    index=data.index,
                    error_code=reason.code,
                    base_offset=NO_OFFSET,
                    record_errors=_refused_records(reason),
                    error_message=reason.message or None,
                )
                host.metrics.produce_errors += 1
                host.refused_batches.on_refused(name, data.index, data.records, reason, trio.current_time())
                host.refused_producers.on_refused(
                    context, transactional_id, _partition_name(host, name, data.index), data.records, reason
                )
                hint_at_leader(host, context, response, answer, name, reason)
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


def _too_many_heavy() -> KafkaError:
    """Makes the producer send the batch again later."""
    return KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "too many batches wait that take long to check")


def _partition_name(host: TransactionalProduceHost, topic: str | UUID, partition: int) -> str:
    known = None if isinstance(topic, str) else host.cluster.topic_by_id(topic)
    return f"{topic if known is None else known.name}-{partition}"


def _refused_records(error: KafkaError) -> list[BatchIndexAndErrorMessage]:
    refused = error.refused if isinstance(error, RecordsRefusedError) else ()
    return [BatchIndexAndErrorMessage(number, why) for number, why in refused]


class PendingProduce:
    """A produce request that waits until all its partitions are committed, or synced."""

    __slots__ = ("_acks", "_context", "_host", "_is_complete", "_response", "_waiting", "done")

    def __init__(self, host: ProduceHost, context: RequestContext, response: ProduceResponse, acks: int) -> None:
        self._acks = acks
        self._host = host
        self._context = context
        self._response = response
        self._waiting: dict[_PendingPartition, None] = {}
        self._is_complete = False
        """Whether all partitions have been handled. Those that wait may be acknowledged before."""
        self.done = False

    def wait_for(self, replica: Replica, end: int, answer: PartitionProduceResponse) -> None:
        partition = _PendingPartition(self, replica, answer)
        self._waiting[partition] = None
        wait_until_acknowledged(replica, end, self._acks, partition)

    def start(self, timeout_ms: int) -> None:
        """Responds when all partitions are acknowledged. No other partition follows."""
        self._is_complete = True
        if not self._waiting:
            self.done = True
            self._context.respond(self._response)
            return
        self._context.abandon = self._abandon
        self._host.deadlines.add(trio.current_time() + max(timeout_ms, 0) / 1000, self)

    def on_decided(self, partition: "_PendingPartition") -> Callable[[], None] | None:
        """Returns what sends the response, if this was the last partition that it waited for."""
        self._waiting.pop(partition, None)
        if self._waiting or self.done or not self._is_complete:
            return None
        self.done = True
        return self._context.prepare(self._response)

    def on_deadline(self) -> None:
        for partition in self._waiting:
            partition.refuse(timed_out())
        self.done = True
        self._context.respond(self._response)

    def refuse(self, replica: Replica, answer: PartitionProduceResponse, error: KafkaError) -> None:
        refuse_appended(self._host, self._context, self._response, replica, answer, error)

    def _abandon(self) -> None:
        self.done = True


class _PendingPartition:
    """One partition that a produce request waits for."""

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
