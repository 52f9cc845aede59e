"""The requests of one process of a transactional producer, in either version of the protocol, retried as clients do."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from random import Random
from typing import Any, TypeVar

import trio
from msgspec import Struct
from simulation.client import WireClient
from simulation.leaders import Leaders
from simulation.moments import Moments
from simulation.patient_client import PatientClient, RetryError
from simulation.world import World, spu_address

from tailrace.cluster.coordinators import TRANSACTIONS_TOPIC, partition_of
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tailrace.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from tailrace.protocol.messages.end_txn import EndTxnRequest
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tailrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

from .transaction_history import (
    Ending,
    Outcome,
    Partition,
    Producer,
    Send,
    SentOffsets,
    Transaction,
    TransactionHistory,
)
from .transaction_scenario import TransactionScenario

T = TypeVar("T")
GROUP_KEYS, TRANSACTION_KEYS = 0, 1
ADD_PARTITIONS_VERSION = 3
ADD_OFFSETS_VERSION = 3
PATIENCE_SECONDS = 4.0
"""How long a producer retries a request before it gives up its transaction."""
END_PATIENCE_SECONDS = 8.0
"""How long a producer retries a request that no other one can replace."""
ELSEWHERE = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NETWORK_EXCEPTION,
        # A leader that does not know yet that it is deposed may lack newer records.
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    }
)
"""Errors after which another SPU, or the same one a little later, can serve the request."""
FENCED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING})
WRONG_STATE = frozenset({ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE})
REMOVED = frozenset({ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS})
"""Errors for a member that its group has removed, or that has to join again."""


class FencedError(Exception):
    """The producer cannot go on, because another one has taken its place or its transaction was aborted."""


class AbortableError(Exception):
    """The transaction cannot be committed any more."""


class GaveUpError(Exception):
    """A request got no useful response for too long."""


class Protocol(Struct, frozen=True):
    """The versions of requests that belong together."""

    name: str
    init_producer_id: int
    produce: int
    end_txn: int
    txn_offset_commit: int
    adds_partitions: bool
    """Whether the client adds partitions to the transaction itself."""


FIRST = Protocol("TV1", 4, 9, 3, 3, True)
SECOND = Protocol("TV2", 5, 12, 5, 5, False)


class Batch(Struct, eq=False):
    sends: list[Send]
    data: bytes
    is_clean: bool = True
    """Whether every attempt so far was refused before it had an effect, or there was none."""


class TransactionClient:
    def __init__(
        self,
        world: World,
        name: str,
        transactional_id: str,
        protocol: Protocol,
        timeout_seconds: float,
        history: TransactionHistory,
        moments: Moments,
        chance: Random,
        strays: trio.Nursery,
        *,
        scenario: TransactionScenario,
    ) -> None:
        self.client = PatientClient(world, name, chance)
        self.name = name
        self.transactional_id = transactional_id
        self.protocol = protocol
        self.chance = chance
        self.producer: Producer | None = None
        """This process, since its last InitProducerId."""
        self.needs_new_epoch = False
        """Whether records may still arrive that the producer has given up, so that it needs another epoch."""
        self._world = world
        self._timeout_seconds = timeout_seconds
        self._history = history
        self._moments = moments
        self._strays = strays
        self._scenario = scenario
        self._producer_id, self._epoch = -1, -1
        self._sequences: dict[Partition, int] = {}
        self._added: set[Partition | str] = set()
        """The partitions and groups that were added to the transaction."""
        self._connections: dict[tuple[int, bool], WireClient] = {}
        """The connections by SPU, for records and for everything else."""
        self._coordinators: dict[tuple[int, str], int] = {}
        self._leaders: dict[Partition, Leaders] = {}
        self._leading: dict[Partition, int] = {}
        self._inits = 0

    # connections

    def close(self) -> None:
        """Ends all connections, as if the process were killed."""
        for each in self._connections.values():
            each.connection.close()
        self._connections.clear()

    async def connected(self, spu: int, *, for_records: bool = False) -> WireClient:
        key = spu, for_records
        if key not in self._connections:
            self._connections[key] = await self.client.connect(spu_address(spu))
        return self._connections[key]

    @contextmanager
    def using(self, spu: int, *, for_records: bool = False) -> Iterator[None]:
        """Drops the connection if the attempt fails, because responses may still be under way."""
        is_done = False
        try:
            yield
            is_done = True
        finally:
            if not is_done:
                self._drop(spu, for_records)

    def _drop(self, spu: int, for_records: bool) -> None:
        connected = self._connections.pop((spu, for_records), None)
        if connected is None:
            return
        if self.protocol.adds_partitions and not for_records:
            connected.connection.reset()  # type: ignore[attr-defined]  # what was sent must not arrive unwatched
        connected.connection.close()

    async def persist(self, attempt: Callable[[], Awaitable[T]], seconds: float) -> T:
        """Makes attempts until one succeeds. Raises GaveUpError."""
        until = trio.current_time() + seconds
        while True:
            async with self.client.trying():
                return await attempt()
            if trio.current_time() > until:
                raise GaveUpError(self.client.last_reason)

    async def coordinator(self, kind: int, key: str) -> int:
        if (kind, key) not in self._coordinators:
            spu = self.client.any_spu()
            with self.using(spu):
                request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
                response = await self.client.ask(await self.connected(spu), ApiKey.FIND_COORDINATOR, 4, request)
            check(response.coordinators[0].error_code, self.name)
            self._coordinators[kind, key] = response.coordinators[0].node_id
        return self._coordinators[kind, key]

    async def ask_coordinator(
        self, kind: int, key: str, api: ApiKey, version: int, request: object, *, more_seconds: float = 0.0
    ) -> Any:
        """Asks once; the next attempt finds the coordinator again if this one fails."""
        spu = await self.coordinator(kind, key)
        is_done = False
        try:
            with self.using(spu):
                connected = await self.connected(spu)
                response = await self.client.ask(connected, api, version, request, more_seconds=more_seconds)
            is_done = True
        finally:
            if not is_done:
                self._coordinators.pop((kind, key), None)
        return response

    def check(self, code: int, kind: int, key: str) -> None:
        """Raises RetryError if another coordinator, or this one later, can serve the request."""
        if code in ELSEWHERE:
            self._coordinators.pop((kind, key), None)
            raise RetryError(ErrorCode(code).name)
        if code == ErrorCode.CONCURRENT_TRANSACTIONS:
            raise RetryError(ErrorCode(code).name)

    async def _ask(self, api: ApiKey, version: int, request: object) -> Any:
        return await self.ask_coordinator(TRANSACTION_KEYS, self.transactional_id, api, version, request)

    def _check(self, code: int) -> None:
        self.check(code, TRANSACTION_KEYS, self.transactional_id)

    async def leader(self, partition: Partition) -> int:
        if partition not in self._leading:
            leaders = self._leaders.setdefault(partition, Leaders(self.client, partition.topic, partition.number))
            self._leading[partition] = (await leaders.find()).spu
        return self._leading[partition]

    # InitProducerId

    async def init(self) -> None:
        """Gets a producer id, or the next epoch of the one that this process has. Raises FencedError."""
        self._inits += 1
        producer = Producer(f"{self.name}.{self._inits}", self.transactional_id, init_began=trio.current_time())
        self._history.producers.append(producer)
        self._moments.reach("init")
        is_watched = True

        async def attempt() -> None:
            nonlocal is_watched
            await self.coordinator(TRANSACTION_KEYS, self.transactional_id)
            was_watched, is_watched = is_watched, False
            request = InitProducerIdRequest(
                self.transactional_id, int(self._timeout_seconds * 1000), self._producer_id, self._epoch
            )
            response = await self._ask(ApiKey.INIT_PRODUCER_ID, self.protocol.init_producer_id, request)
            is_watched = was_watched
            self._check(response.error_code)
            if response.error_code in FENCED:
                raise FencedError(ErrorCode(response.error_code).name)
            check(response.error_code, self.name)
            self._use(response.producer_id, response.producer_epoch)

        await self.persist(attempt, END_PATIENCE_SECONDS)
        producer.init_ended = trio.current_time()
        if is_watched:
            producer.init_is_over = producer.init_ended
        self.producer, self.needs_new_epoch = producer, False

    def _use(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self._producer_id, self._epoch):
            self._producer_id, self._epoch = producer_id, epoch
            self._sequences.clear()

    def begin(self) -> Transaction:
        """Begins a transaction, which no server knows yet."""
        assert self.producer is not None
        now = trio.current_time()
        transaction = Transaction(
            self.producer, now, now + (0.0 if self._scenario.clocks_jump else self._timeout_seconds)
        )
        self.producer.transactions.append(transaction)
        self._added.clear()
        return transaction

    # records

    async def add(self, partitions: Iterable[Partition]) -> None:
        """Adds partitions to the transaction, unless the leaders do that."""
        new = sorted(set(partitions) - self._added)
        if not new or not self.protocol.adds_partitions:
            return
        self._moments.reach("add")

        async def attempt() -> None:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=self._producer_id,
                v3_and_below_producer_epoch=self._epoch,
                v3_and_below_topics=[AddPartitionsToTxnTopic(each.topic, [each.number]) for each in new],
            )
            response = await self._ask(ApiKey.ADD_PARTITIONS_TO_TXN, ADD_PARTITIONS_VERSION, request)
            for topic in response.results_by_topic_v3_and_below:
                for each in topic.results_by_partition:
                    self._check(each.partition_error_code)
                    self._check_open(each.partition_error_code)
            self._added.update(new)

        await self._persist_in_transaction(attempt)

    async def send(self, transaction: Transaction, partition: Partition, batches: list[list[Send]]) -> None:
        """Sends batches to one partition, and again until all are acknowledged.

        Raises AbortableError if the transaction cannot be committed.
        """
        for sends in batches:
            transaction.sends += sends
        pending = [self._batch(partition, sends) for sends in batches]
        await self.add([partition])
        self._moments.reach("send")
        if self.chance.random() < self._scenario.strays / 2:
            await self._give_up(partition, pending[0])

        async def attempt() -> None:
            leader = await self.leader(partition)
            is_done = False
            try:
                with self.using(leader, for_records=True):
                    connected = await self.connected(leader, for_records=True)
                    for batch in pending:
                        request = self._produce_request(partition, batch)
                        with trio.fail_after(1.0):
                            await connected.send(connected.encode(ApiKey.PRODUCE, self.protocol.produce, request))
                    for batch in list(pending):
                        was_clean, batch.is_clean = batch.is_clean, False
                        response = await self.client.answer(connected, more_seconds=1.0)
                        self._on_produced(response.responses[0].partition_responses[0], batch, was_clean)
                        pending.remove(batch)
                is_done = True
            finally:
                if not is_done:
                    self._leading.pop(partition, None)
                    for batch in pending:
                        batch.is_clean = False

        try:
            await self._persist_in_transaction(attempt)
        except AbortableError:
            self.needs_new_epoch = True
            raise
        self._moments.reach("sent", (self._producer_id, partition))

    async def _give_up(self, partition: Partition, batch: Batch) -> None:
        """Gives a batch up, as after its delivery timeout. It arrives nevertheless, later, perhaps after the abort."""
        async with self.client.trying():
            leader = await self.leader(partition)
            with self.using(leader, for_records=True):
                connected = await self.connected(leader, for_records=True)
            del self._connections[leader, True]
            self._strays.start_soon(self._stray_batch, connected, self._produce_request(partition, batch))
        self.needs_new_epoch = True
        raise AbortableError("a batch was given up")

    async def _stray_batch(self, connected: WireClient, request: ProduceRequest) -> None:
        await trio.sleep(self.chance.choice((0.02, 0.2, 1.0)) * self.chance.random())
        async with self.client.trying():
            await self.client.ask(connected, ApiKey.PRODUCE, self.protocol.produce, request)
        connected.connection.close()

    def _batch(self, partition: Partition, sends: list[Send]) -> Batch:
        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = sequence + len(sends)
        now_ms = self._world.clock_of_clients.now_ms()
        data = build_batch(
            [Record(number, now_ms, each.key, each.value) for number, each in enumerate(sends)],
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        return Batch(sends, bytes(data))

    def _produce_request(self, partition: Partition, batch: Batch) -> ProduceRequest:
        data = PartitionProduceData(partition.number, batch.data)
        topic = TopicProduceData(partition.topic, partition_data=[data])
        return ProduceRequest(self.transactional_id, acks=-1, timeout_ms=1000, topic_data=[topic])

    def _on_produced(self, answered: Any, batch: Batch, was_clean: bool) -> None:
        code, offset = answered.error_code, answered.base_offset
        if code in ELSEWHERE or code == ErrorCode.CONCURRENT_TRANSACTIONS:
            raise RetryError(f"{ErrorCode(code).name}: {answered.error_message}")
        if code in FENCED | WRONG_STATE or code == ErrorCode.UNKNOWN_PRODUCER_ID:
            for send in batch.sends:
                send.outcome, send.ended = Outcome.FAILED if was_clean else Outcome.UNKNOWN, trio.current_time()
            raise AbortableError(ErrorCode(code).name)
        is_repeated = code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER
        check(ErrorCode.NONE if is_repeated else code, self.name)
        for number, send in enumerate(batch.sends):
            send.outcome, send.ended = Outcome.OK, trio.current_time()
            send.offset = None if is_repeated or offset < 0 else offset + number

    # offsets

    async def send_offsets(
        self,
        transaction: Transaction,
        group: str,
        offsets: Mapping[Partition, int],
        *,
        generation: int = -1,
        member_id: str = "",
    ) -> None:
        """Commits offsets of a group in the transaction. Raises AbortableError."""
        sent = SentOffsets(group, dict(offsets))
        transaction.offsets.append(sent)
        self._moments.reach("send offsets")
        if self.protocol.adds_partitions and group not in self._added:
            await self._persist_in_transaction(lambda: self._add_group(group))
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for partition, offset in offsets.items():
            topics.setdefault(partition.topic, []).append(TxnOffsetCommitRequestPartition(partition.number, offset))

        async def attempt() -> None:
            request = TxnOffsetCommitRequest(
                self.transactional_id,
                group,
                self._producer_id,
                self._epoch,
                generation,
                member_id,
                topics=[TxnOffsetCommitRequestTopic(*each) for each in topics.items()],
            )
            version = self.protocol.txn_offset_commit
            response = await self.ask_coordinator(GROUP_KEYS, group, ApiKey.TXN_OFFSET_COMMIT, version, request)
            for topic in response.topics:
                for each in topic.partitions:
                    self.check(each.error_code, GROUP_KEYS, group)
                    if each.error_code in REMOVED:
                        raise AbortableError(ErrorCode(each.error_code).name)
                    self._check_open(each.error_code)

        await self._persist_in_transaction(attempt)
        sent.outcome = Outcome.OK

    async def _add_group(self, group: str) -> None:
        request = AddOffsetsToTxnRequest(self.transactional_id, self._producer_id, self._epoch, group)
        response = await self._ask(ApiKey.ADD_OFFSETS_TO_TXN, ADD_OFFSETS_VERSION, request)
        self._check(response.error_code)
        self._check_open(response.error_code)
        self._added.add(group)

    # the end

    async def end(self, transaction: Transaction, *, is_commit: bool) -> None:
        """Ends the transaction. Raises FencedError if it cannot, and GaveUpError if the outcome stays unknown."""
        ending = Ending(is_commit, trio.current_time())
        transaction.endings.append(ending)
        self._moments.reach("end")
        is_clean = True

        async def attempt() -> None:
            nonlocal is_clean
            request = EndTxnRequest(self.transactional_id, self._producer_id, self._epoch, is_commit)
            if self.chance.random() < self._scenario.strays:
                await self._let_stray(request)
            was_clean, is_clean = is_clean, False
            response = await self._ask(ApiKey.END_TXN, self.protocol.end_txn, request)
            code = response.error_code
            if code == ErrorCode.CONCURRENT_TRANSACTIONS:
                is_clean = was_clean
            self._check(code)
            if code in FENCED | WRONG_STATE:
                ending.outcome = Outcome.FAILED if was_clean else Outcome.UNKNOWN
                ending.ended = trio.current_time()
                raise FencedError(ErrorCode(code).name)
            check(code, self.name)
            if self.protocol.end_txn >= SECOND.end_txn:
                self._use(response.producer_id, response.producer_epoch)
            ending.outcome, ending.ended = Outcome.OK, trio.current_time()

        await self.persist(attempt, END_PATIENCE_SECONDS)
        self._moments.reach("ended")

    async def _let_stray(self, request: EndTxnRequest) -> None:
        """Sends the request over the connection that it had, later, as if the network had kept it for so long."""
        spu = await self.coordinator(TRANSACTION_KEYS, self.transactional_id)
        with self.using(spu):
            connected = await self.connected(spu)
        del self._connections[spu, False]
        self._strays.start_soon(self._stray, spu, connected, request, self._tenure_of(spu))

    async def _stray(self, spu: int, connected: WireClient, request: EndTxnRequest, tenure: object) -> None:
        await trio.sleep(self.chance.choice((0.02, 0.2, 1.0)) * self.chance.random())
        # Another coordinator of TV1 has seen no connections, so that nothing guards it: see docs/transactions.md.
        is_blocked = self._world.internet.link(self.name, f"spu-{spu}").blocked_by
        if not self.protocol.adds_partitions or (not is_blocked and self._tenure_of(spu) == tenure is not None):
            async with self.client.trying():
                await self.client.ask(connected, ApiKey.END_TXN, self.protocol.end_txn, request)
        connected.connection.close()

    def _tenure_of(self, spu: int) -> object:
        """Identifies the coordinator on an SPU, which a real client could not do; None if there is none."""
        number = partition_of(self.transactional_id, self._scenario.coordinators)
        server = self._world.running_spus().get(spu)
        for replica in () if server is None else server.replicas:
            is_it = (replica.topic, replica.partition) == (TRANSACTIONS_TOPIC, number)
            if is_it and replica.is_leader:
                return id(server), replica.spec.epoch
        return None

    # errors

    async def _persist_in_transaction(self, attempt: Callable[[], Awaitable[None]]) -> None:
        try:
            await self.persist(attempt, PATIENCE_SECONDS)
        except GaveUpError as error:
            raise AbortableError(f"gave up: {error}") from None

    def _check_open(self, code: int) -> None:
        """Raises an error if the producer has no transaction to work in."""
        if code in FENCED:
            raise FencedError(ErrorCode(code).name)
        if code in WRONG_STATE:
            raise AbortableError(ErrorCode(code).name)
        check(code, self.name)


def check(code: int, name: str) -> None:
    if code in ELSEWHERE:
        raise RetryError(ErrorCode(code).name)
    assert code == ErrorCode.NONE, f"{name} does not expect {ErrorCode(code).name}"
