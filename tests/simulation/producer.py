"""A producer in a simulation: it sends batches with acks=all again and again until they are acknowledged.

An idempotent producer has several batches in flight, and after any error resends all of them in order. A plain producer
has only one in flight, because otherwise it could not keep the order.
"""

from random import Random
from typing import NamedTuple

import trio

from tailrace.broker.replicas.replica import Replica
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

from .client import WireClient
from .history import UNKNOWN_OFFSET, PartitionHistory, Sent
from .leaders import Leaders
from .patient_client import PatientClient, RetryError
from .world import World

PRODUCE_VERSION = 9
INIT_PRODUCER_ID_VERSION = 4
IN_FLIGHT_MAX = 5
ALL, LEADER_ALONE = -1, 1
"""The values of acks: all in-sync replicas, or only the leader."""
RECORDS_MAX = 4
RETRIABLE = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NETWORK_EXCEPTION,
        # A leader that does not know yet that it is deposed may lack newer records.
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    }
)


class _Batch(NamedTuple):
    values: tuple[bytes, ...]
    data: bytes


class Producer:
    def __init__(
        self,
        world: World,
        name: str,
        topic: str,
        history: PartitionHistory,
        chance: Random,
        *,
        batches: int,
        pause_seconds: float,
        is_idempotent: bool,
        keys: int,
        acks: int = ALL,
    ) -> None:
        """Makes a producer of records with `keys` different keys, or without keys if it is 0."""
        self.client = PatientClient(world, name, chance)
        self._leaders = Leaders(self.client, topic, history.partition)
        self.name = name
        self._clock = world.clock_of_clients
        self._world = world
        self._history = history
        self._chance = chance
        self._batches_left = batches
        self._pause_seconds = pause_seconds
        self._is_idempotent = is_idempotent
        self._keys = keys
        self._acks = acks
        self._producer_id = -1
        self._count = 0
        self._pending: list[_Batch] = []
        self._acknowledged_end = 0

    @property
    def is_done(self) -> bool:
        return not self._batches_left and not self._pending

    async def run(self) -> None:
        """Produces until everything is acknowledged."""
        while self._is_idempotent and self._producer_id < 0:
            async with self.client.trying():
                await self._take_producer_id()
        while not self.is_done:
            async with self.client.trying():
                leader = await self._leaders.find()
                async with self.client.connected(leader.spu) as client:
                    await self._produce(client, leader.spu)

    async def _take_producer_id(self) -> None:
        leader = await self._leaders.find()  # any SPU can assign an id
        async with self.client.connected(leader.spu) as client:
            request = InitProducerIdRequest(transactional_id=None)
            response = await self.client.ask(client, ApiKey.INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSION, request)
            if response.error_code:
                raise RetryError(ErrorCode(response.error_code).name)
            self._producer_id = response.producer_id

    async def _produce(self, client: WireClient, spu: int) -> None:
        while not self.is_done:
            if not self._pending:
                if self._chance.random() < 0.5:
                    await trio.sleep(self._pause_seconds * 4 * self._chance.random())
                self._make_batches()
            epoch = self._epoch_on(spu)
            for batch in self._pending:
                with trio.fail_after(1.0):
                    await client.send(client.encode(ApiKey.PRODUCE, PRODUCE_VERSION, self._request(batch)))
            while self._pending:
                self._on_response(await self.client.answer(client), spu, epoch)

    def _make_batches(self) -> None:
        most = min(self._batches_left, IN_FLIGHT_MAX if self._is_idempotent else 1)
        for _ in range(self._chance.randint(1, most)):
            self._pending.append(self._batch(self._chance.randint(1, RECORDS_MAX)))
            self._batches_left -= 1

    def _batch(self, count: int) -> _Batch:
        first = self._count
        self._count += count
        values = tuple(b"%s/%d" % (self.name.encode(), number) for number in range(first, first + count))
        keys = [b"%d" % self._chance.randrange(self._keys) if self._keys else None for _ in values]
        for number, (key, value) in enumerate(zip(keys, values, strict=True), first):
            self._history.on_sent(value, Sent(self.name, number, self._is_idempotent, key, self._acks != ALL))
        now_ms = self._clock.now_ms()
        data = build_batch(
            [Record(offset, now_ms, key, value) for offset, (key, value) in enumerate(zip(keys, values, strict=True))],
            producer_id=self._producer_id,
            producer_epoch=0 if self._is_idempotent else -1,
            base_sequence=first if self._is_idempotent else -1,
        )
        return _Batch(values, bytes(data))

    def _request(self, batch: _Batch) -> ProduceRequest:
        data = PartitionProduceData(self._leaders.partition, batch.data)
        topic = TopicProduceData(self._leaders.topic, partition_data=[data])
        return ProduceRequest(acks=self._acks, timeout_ms=1000, topic_data=[topic])

    def _epoch_on(self, spu: int) -> int:
        """Returns the epoch in which the SPU leads, or led last, which a real client could not know."""
        return max((each.spec.epoch for each in self._replicas_on(spu)), default=-1)

    def _replicas_on(self, spu: int) -> list[Replica]:
        """Returns the SPU's replicas of the partition that this producer writes to."""
        server = self._world.running_spus().get(spu)
        found = [] if server is None else [each for each in server.replicas if each.topic == self._leaders.topic]
        return [each for each in found if each.partition == self._leaders.partition]

    def _on_response(self, response: object, spu: int, epoch: int) -> None:
        answered = response.responses[0].partition_responses[0]  # type: ignore[attr-defined]
        code, offset = answered.error_code, answered.base_offset
        if code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            code, offset = ErrorCode.NONE, UNKNOWN_OFFSET
        if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and self._may_be_forgotten(spu):
            self._batches_left = 0
            self._pending.clear()
            return
        if code in RETRIABLE:
            raise RetryError(f"{ErrorCode(code).name}: {answered.error_message}")
        assert code == ErrorCode.NONE, f"{self.name} does not expect {ErrorCode(code).name}: {answered.error_message}"
        values = self._pending.pop(0).values
        for number, value in enumerate(values if self._acks == ALL else ()):
            self._history.on_acknowledged(value, offset + number if offset != UNKNOWN_OFFSET else offset, epoch)
            self._acknowledged_end = max(self._acknowledged_end, offset + number + 1)

    def _may_be_forgotten(self, spu: int) -> bool:
        """Whether records without an acknowledgement may have been deleted already.

        A leader that never had them then knows at most what followed them. No log can help in that case, in Kafka
        neither: a real client would continue with another producer id.
        """
        return any(each.log.log_start > self._acknowledged_end for each in self._replicas_on(spu))
