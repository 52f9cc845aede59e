"""The transactions that this SPU coordinates, by the partitions of `__transaction_state` it leads, and those of others.

Brokers of data ask the coordinator of a transaction when a producer first writes to a partition. The coordinator is
often another SPU.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import trio

from tailrace.broker.coordination.coordination import Coordination
from tailrace.broker.coordination.coordination_context import CoordinationContext
from tailrace.broker.coordination.coordinator_output import Waiter
from tailrace.broker.coordination.moment import Moment
from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.broker.transactions.common.client_of_transactions import Client
from tailrace.broker.transactions.common.producer_id_needed import ProducerIdNeededError
from tailrace.cluster.coordinators import TRANSACTIONS_TOPIC, partition_of
from tailrace.cluster.specs import NO_LEADER, TopicPartition
from tailrace.protocol.apis import API_TABLE, Api, ApiKey
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import ProducerId, SpuId
from tailrace.runtime.backoff import doubled_pause_seconds
from tailrace.runtime.chance import Chance

if TYPE_CHECKING:
    from tailrace.broker.coordination.coordinator_kind import CoordinatorKind
    from tailrace.broker.transactions.coordinator.transaction_coordinator import TransactionCoordinator
    from tailrace.broker.transactions.markers.verifications import PartitionQuestion

    from .partition_adding import Added, Adding

    MayPass: TypeAlias = Callable[[Iterable[ErrorCode]], bool]
    CallWithId: TypeAlias = Callable[[TransactionCoordinator, Waiter, ProducerId | None, Moment], None]

SendToSpu: TypeAlias = Callable[[SpuId, Api, Callable[[int], Any], float], Awaitable[tuple[int, Any]]]
"""Sends a request to another SPU. The arguments are the SPU, the API, a function that makes the request in the version
that it gets, and how many seconds to wait. The result is the version and the response. Raises OSError."""
VERSION_AT_HOME = 5
"""The version of AddPartitionsToTxn that a request to the coordinator on this SPU stands for."""
ADD_SECONDS_MAX = 8.0
"""How long the coordinator of a transaction is asked to add partitions; a coordinator waits 5 s for markers."""
PAUSE_SECONDS_MIN = 0.005
PAUSE_SECONDS_MAX = 0.1


class TransactionCoordination(Coordination["TransactionCoordinator"]):
    def __init__(
        self,
        replicas: ReplicaRegistry,
        context: CoordinationContext,
        kind: "CoordinatorKind[TransactionCoordinator]",
        own_id: SpuId,
        send_to: SendToSpu,
        next_producer_id: Callable[[], Awaitable[ProducerId]],
        chance: Chance,
        verifies: Callable[[], bool],
    ) -> None:
        """`verifies` says whether partitions that a producer has added itself are verified."""
        super().__init__(replicas, context, kind)
        self._verifies = verifies
        self._asking_again = trio.Lock()
        """Held by one request that asks with its producer id, so that other clients are served before the next one."""
        self._own_id = own_id
        self._send_to = send_to
        self._next_producer_id = next_producer_id
        self._chance = chance

    def coordinators(self) -> "Iterator[TransactionCoordinator]":
        """Yields the coordinators that are loaded."""
        return (partition.coordinator for partition in self.loaded())

    def ask_with_id(self, transactional_id: str, waiter: Waiter, call: "CallWithId", held_bytes: int) -> None:
        """Calls `call` with the coordinator of the transactional id, and again with a producer id if it needs one."""

        def ask(spare_id: ProducerId | None, asking: Waiter) -> None:
            def call_coordinator(coordinator: "TransactionCoordinator", moment: Moment) -> None:
                call(coordinator, asking, spare_id, moment)

            self.ask(transactional_id, asking, call_coordinator, held_bytes)

        async def ask_again() -> None:
            try:
                spare_id = await self._next_producer_id()
            except KafkaError as error:
                waiter.refuse(error)
            else:
                async with self._asking_again:
                    ask(spare_id, waiter)
                    self._context.end_turn()

        ask(None, _UnlessIdNeeded(waiter, lambda: self._context.nursery.start_soon(ask_again)))

    async def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: frozenset[TopicPartition],
        *,
        verify_only: bool,
    ) -> "Added":
        """Adds partitions to a transaction, or verifies that they were added. Asks the coordinator wherever it is.

        Waits while the coordinator moves or finishes the transaction before. Returns the code of each partition. Raises
        KafkaError if the coordinator could not be asked.
        """
        return await self.ask_to_add(
            transactional_id, producer_id, producer_epoch, partitions, verify_only=verify_only
        ).wait()

    def ask_to_add(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: frozenset[TopicPartition],
        *,
        verify_only: bool,
    ) -> "PartitionQuestion":
        """Does what `add_partitions` does. A coordinator on this SPU usually responds before this returns.

        What calls this ends its turn afterwards.
        """
        from .partition_adding import Adding, may_pass  # when the first transactional batch arrives

        question = _Question(
            self, Adding(transactional_id, producer_id, producer_epoch, partitions, verify_only), may_pass
        )
        if verify_only and not self._verifies():
            question.added = dict.fromkeys(partitions, ErrorCode.NONE)
        else:
            question.ask_here()
        return question

    def is_coordinated_here(self, transactional_id: str) -> bool:
        """Whether this SPU coordinates the transactional id, as far as it knows."""
        try:
            return self._leader_for(transactional_id) == self._own_id
        except KafkaError:
            return False

    async def add(self, adding: "Adding", asked: "_WaitingTask | None", may_pass: "MayPass") -> "Added":
        """Asks until there is a response that does not pass. `asked` waits for the first response, if this SPU has been
        asked already."""
        failures, give_up_at = 0, trio.current_time() + ADD_SECONDS_MAX
        if asked is not None:
            self._context.end_turn()
        while True:
            try:
                left = give_up_at - trio.current_time()
                result: Added | KafkaError
                result = await (self._add_once(adding, left) if asked is None else asked.wait(left))
            except KafkaError as error:
                result = error
            asked = None
            codes = (result.code,) if isinstance(result, KafkaError) else result.values()
            failures += 1
            pause = doubled_pause_seconds(failures, self._chance.fraction(), PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX)
            if not may_pass(codes) or trio.current_time() + pause >= give_up_at:
                break
            await trio.sleep(pause)
        if isinstance(result, KafkaError):
            raise result
        return result

    async def _add_once(self, adding: "Adding", seconds: float) -> "Added":
        leader = self._leader_for(adding.transactional_id)
        if leader == self._own_id:
            waiter = self.ask_here(adding)
            self._context.end_turn()
            added: Added = await waiter.wait(seconds)
            return added
        try:
            _, response = await self._send_to(leader, API_TABLE[ApiKey.ADD_PARTITIONS_TO_TXN], adding.request, seconds)
        except OSError as error:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error
        return adding.result(response)

    def ask_here(self, adding: "Adding") -> "_WaitingTask":
        """Asks the coordinator on this SPU."""
        waiter = _WaitingTask()
        self.add_at_coordinator(adding, None, VERSION_AT_HOME, waiter)
        return waiter

    def add_at_coordinator(self, adding: "Adding", client: Client | None, version: int, waiter: Waiter) -> None:
        """Asks the coordinator on this SPU. The waiter gets the codes of the partitions.

        `client` is None if an SPU asks for its producer, in a `version` of AddPartitionsToTxn for SPUs.
        """

        def call(coordinator: "TransactionCoordinator", moment: Moment) -> None:
            coordinator.add_partitions(
                adding.transactional_id,
                adding.producer_id,
                adding.producer_epoch,
                adding.partitions,
                verify_only=adding.verify_only,
                version=version,
                client=client,
                waiter=waiter,
                moment=moment,
            )

        # Another SPU asks again soon, so that requests for other transactions do not wait behind this one.
        held_bytes = None if client is None else adding.size_bytes
        self.ask(adding.transactional_id, waiter, call, held_bytes)

    def _leader_for(self, transactional_id: str) -> SpuId:
        topic = self._context.cluster.topics.get(TRANSACTIONS_TOPIC)
        if topic is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"there is no topic {TRANSACTIONS_TOPIC}")
        leader = topic.partitions[partition_of(transactional_id, len(topic.partitions))].leader
        if leader == NO_LEADER:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the transactional id has no coordinator now")
        return leader


class _UnlessIdNeeded:
    """Waits for the response to a request that may turn out to need a producer id."""

    __slots__ = ("_on_id_needed", "_waiter")

    def __init__(self, waiter: Waiter, on_id_needed: Callable[[], None]) -> None:
        self._waiter = waiter
        self._on_id_needed = on_id_needed

    def respond(self, response: Any) -> None:
        self._waiter.respond(response)

    def refuse(self, error: KafkaError) -> None:
        if isinstance(error, ProducerIdNeededError):
            self._on_id_needed()
        else:
            self._waiter.refuse(error)


class _WaitingTask:
    """Lets a task wait for the answer of a coordinator on this SPU."""

    def __init__(self) -> None:
        self._answered = trio.Event()
        self.answer: Any = None
        """The response or the refusal; None before."""

    def respond(self, response: Any) -> None:
        self.answer = response
        self._answered.set()

    refuse = respond

    async def wait(self, seconds: float) -> Any:
        # A connection completes what it has begun even while the SPU stops, and then nothing responds any more.
        with trio.move_on_after(seconds):
            await self._answered.wait()
        if self.answer is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator on this SPU did not respond in time")
        if isinstance(self.answer, KafkaError):
            raise self.answer
        return self.answer


class _Question:
    """Partitions that a coordinator is asked to add or to verify."""

    def __init__(self, coordination: TransactionCoordination, adding: "Adding", may_pass: "MayPass") -> None:
        self._coordination = coordination
        self._adding = adding
        self._may_pass = may_pass
        self._asked: _WaitingTask | None = None
        self.added: Added | None = None

    def ask_here(self) -> None:
        """Asks the coordinator if it is on this SPU. Keeps its response, unless that is a reason to ask again."""
        if self._coordination.is_coordinated_here(self._adding.transactional_id):
            self._asked = self._coordination.ask_here(self._adding)
            answer = self._asked.answer
            if answer is not None and not isinstance(answer, KafkaError) and not self._may_pass(answer.values()):
                self.added = answer

    async def wait(self) -> "Added":
        if self.added is not None:
            return self.added
        asked, self._asked = self._asked, None
        return await self._coordination.add(self._adding, asked, self._may_pass)
