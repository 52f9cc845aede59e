"""An idempotent producer without transactions, beside those with transactions."""

import trio
from simulation.determinism import random_of
from simulation.leaders import Leaders
from simulation.patient_client import PatientClient, RetryError
from simulation.world import World

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

from .transaction_client import ELSEWHERE, check
from .transaction_history import Outcome, Partition, Producer, Send, TransactionHistory
from .transaction_scenario import key_of

INIT_PRODUCER_ID_VERSION = 4
PRODUCE_VERSION = 9


class PlainWriter:
    def __init__(
        self, world: World, name: str, partition: Partition, history: TransactionHistory, *, is_compacted: bool
    ) -> None:
        self.name = name
        self.is_done = False
        self._client = PatientClient(world, name, random_of(world.seed, name))
        self._leaders = Leaders(self._client, partition.topic, partition.number)
        self._partition = partition
        self._world = world
        self._is_settling = trio.Event()
        self._producer = Producer(name)
        self._producer_id = -1
        self._is_compacted = is_compacted
        history.producers.append(self._producer)

    @property
    def last_reason(self) -> str:
        return self._client.last_reason

    def settle(self) -> None:
        """Makes it end after its next record."""
        self._is_settling.set()

    async def run(self) -> None:
        while self._producer_id < 0:
            async with self._client.trying(), self._client.connected(self._client.any_spu()) as connected:
                request = InitProducerIdRequest(transactional_id=None)
                response = await self._client.ask(connected, ApiKey.INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSION, request)
                check(response.error_code, self.name)
                self._producer_id = response.producer_id
        while not self._is_settling.is_set():
            with trio.move_on_after(self._client.chance.uniform(0.1, 1.0)):
                await self._is_settling.wait()
            await self._write()
        self.is_done = True

    async def _write(self) -> None:
        number = len(self._producer.sends)
        value = b"%s/%d" % (self.name.encode(), number)
        send = Send(self._partition, value, trio.current_time(), key=key_of(value) if self._is_compacted else None)
        self._producer.sends.append(send)
        record = Record(0, self._world.clock_of_clients.now_ms(), send.key, send.value)
        batch = build_batch([record], producer_id=self._producer_id, producer_epoch=0, base_sequence=number)
        data = PartitionProduceData(self._partition.number, bytes(batch))
        request = ProduceRequest(
            acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(self._partition.topic, partition_data=[data])]
        )
        while send.outcome is not Outcome.OK:
            async with self._client.trying():
                leader = await self._leaders.find()
                async with self._client.connected(leader.spu) as connected:
                    response = await self._client.ask(connected, ApiKey.PRODUCE, PRODUCE_VERSION, request)
                answered = response.responses[0].partition_responses[0]
                code, offset = answered.error_code, answered.base_offset
                if code in ELSEWHERE:
                    raise RetryError(ErrorCode(code).name)
                if code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                    code, offset = ErrorCode.NONE, -1
                check(code, self.name)
                send.outcome, send.ended = Outcome.OK, trio.current_time()
                send.offset = offset if offset >= 0 else None
