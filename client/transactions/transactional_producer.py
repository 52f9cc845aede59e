"""Writes records and the offsets of a group in transactions, under one transactional id. One task uses it.

    await producer.initialize()                       fences earlier producers, and aborts what they left open
    refused = await producer.send(records)            begins the transaction if none is open
    await producer.commit(group, offsets, metadata)

`TransactionProgress` decides. This object asks coordinators and leaders, and asks again with the same batches while
they cannot be reached, move or load. So `send` and `commit` end with success or with the loss of the transaction.

It speaks the first generation of Kafka's protocol (TV1): the client adds partitions to its transaction itself, and all
transactions after one `initialize` have the same epoch, unless a coordinator did not respond to a request. All brokers
with transactions understand that.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import trio

from tailrace.client.group_client import NO_METADATA
from tailrace.client.log_client import ACKS_OF_ALL, LogClient, ProducerName, why_unusable
from tailrace.client.log_facts import Partition, by_topic
from tailrace.client.outgoing_line import Waiting, record_bytes
from tailrace.client.outgoing_records import Outgoing
from tailrace.client.partition_chooser import partition_of_key
from tailrace.client.record_producer import NEW_TOPIC_SECONDS_MAX, TOPIC_AGE_SECONDS_MAX
from tailrace.client.server_connection import (
    RefusedError,
    UnreachableError,
    error_name,
    reason_of,
    refusal,
    unless_refused,
)
from tailrace.client.spu_client import PAUSE_SECONDS_MIN, SILENCE_SECONDS_MAX, TRANSIENT, SpuClient
from tailrace.protocol.batches.compression import Compression
from tailrace.protocol.batches.records import Record
from tailrace.protocol.codec.primitives import Buffer
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tailrace.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from tailrace.protocol.messages.end_txn import EndTxnRequest
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tailrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tailrace.runtime.backoff import spread_pause_seconds
from tailrace.runtime.chance import Chance
from tailrace.runtime.wall_clock import WallClock

from .known_places import Key, KnownPlaces
from .transaction_errors import TransactionLostError, lost_by
from .transaction_progress import Phase, TransactionProgress

TIMEOUT_SECONDS = 60.0
"""How long a transaction may take before its coordinator aborts it."""
ABORT_SECONDS_MAX = 5.0
"""How long `abort` waits for a coordinator. After that, the transaction ends at its timeout."""
MARKERS_PAUSE_SECONDS = 0.02
"""How soon to ask again while the markers of the previous transaction are being written."""
MARKERS_PAUSES_MAX = 50

INITIALIZE_MAX = 4
ADD_PARTITIONS_MAX = 3
ADD_OFFSETS_MAX = 3
COMMIT_OFFSETS_MAX = 3
END_MAX = 3
"""The last versions before those that tell clients of TRANSACTION_ABORTABLE, with which TV2 began."""

T = TypeVar("T")


class TransactionalProducer:
    """The producer of one transactional id."""

    def __init__(
        self,
        spus: SpuClient,
        transactional_id: str,
        wall_clock: WallClock,
        chance: Chance,
        *,
        compression: Compression = Compression.NONE,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        """Takes a client whose cluster is written to; the producer has connections of its own."""
        self.transactional_id = transactional_id
        self.problem = ""
        """Why a request is being repeated; empty if the last one succeeded."""
        self._wall_clock = wall_clock
        self._chance = chance
        self._timeout_ms = round(timeout_seconds * 1000)
        self._progress = TransactionProgress(compression)
        self._may_be_late = False
        """Whether a coordinator may still get a request that belongs to an earlier transaction of this epoch."""
        self._topics: dict[str, tuple[float, Sequence[int]]] = {}
        """When each topic was looked up, and its partitions."""
        self._connect(spus)

    def _connect(self, spus: SpuClient) -> None:
        self._spus = spus.another()
        self._logs = LogClient(self._spus)
        self._leaders = KnownPlaces(self._logs.leaders)
        self._coordinators = KnownPlaces(self._spus.transaction_coordinators)
        self._groups = KnownPlaces(self._spus.coordinators)

    @property
    def is_open(self) -> bool:
        """Whether a transaction is open."""
        return self._progress.is_open

    @property
    def is_lost(self) -> bool:
        """Whether the producer must be initialized, for the first time or because its transaction was lost."""
        return self._progress.phase is Phase.LOST

    def close(self) -> None:
        """Closes the connections. An open transaction stays open until its timeout."""
        self._spus.close()

    # the steps

    async def initialize(self) -> None:
        """Fences earlier producers with the transactional id. Returns when what they left open is aborted everywhere.

        It connects anew: a coordinator of Tailrace takes a request of a connection that is older than that of another
        producer for a delayed one. Raises UnreachableError and RefusedError.
        """
        self._progress.lose()
        self._spus.close()
        self._connect(self._spus)
        request = InitProducerIdRequest(self.transactional_id, self._timeout_ms)
        response = await self._ask_coordinator(request, INITIALIZE_MAX)
        self._on_initialized(response)

    def _on_initialized(self, response: InitProducerIdResponse) -> None:
        self._progress.on_initialized(ProducerName(response.producer_id, response.producer_epoch))
        self._may_be_late = False

    async def _renew(self) -> None:
        """Gets a new epoch before a transaction if a request of an earlier one may still arrive.

        Otherwise a late commit of an older offset could become part of the new transaction. The coordinator refuses
        this if another producer has the transactional id, so it fences no one.
        """
        if self._may_be_late and not self.is_open:
            name = self._progress.name
            request = InitProducerIdRequest(self.transactional_id, self._timeout_ms, name.id, name.epoch)
            self._on_initialized(await self._patiently(partial(self._ask_coordinator, request, INITIALIZE_MAX)))

    async def send(self, records: Iterable[Outgoing]) -> dict[int, RefusedError]:
        """Adds records to the transaction. Returns why records were refused, by their positions, when all are answered.

        Raises TransactionLostError. The transaction is lost as well if the call is cancelled.
        """
        receipt = _Receipt()
        with self._losing():
            await self._renew()
            await self._add_all(records, receipt)
            while self._progress.has_records:
                await self._add_partitions()
                await self._append()
        return receipt.refused

    async def commit(
        self, group: str, offsets: Mapping[Partition, int], metadata: Mapping[Partition, str] = NO_METADATA
    ) -> None:
        """Commits the transaction, and with it the next offset of each partition in a group.

        If no transaction is open, one is opened for the offsets. `metadata` is a text that the coordinator keeps with
        an offset. Raises TransactionLostError. The transaction is lost as well if the call is cancelled.
        """
        with self._losing():
            await self._renew()
            if offsets:
                await self._add_group(group)
                await self._commit_offsets(group, offsets, metadata)
            if self.is_open:
                await self._patiently(lambda: self._end(is_commit=True))
            self._progress.on_ended()

    async def abort(self) -> None:
        """Aborts the open transaction if the coordinator can be reached soon. The producer must be initialized then."""
        try:
            if self.is_open:
                with trio.move_on_after(ABORT_SECONDS_MAX, shield=True):
                    await self._end(is_commit=False)
        except (UnreachableError, RefusedError):
            pass  # the next producer with the id aborts it, or the timeout does
        finally:
            self._progress.lose()

    @contextmanager
    def _losing(self) -> Iterator[None]:
        """Loses the transaction if anything inside fails or is cancelled."""
        if self.is_lost:
            raise TransactionLostError("the producer must be initialized")
        try:
            yield
        except RefusedError as refused:
            self._progress.lose()
            raise lost_by(refused) from refused
        except BaseException:
            self._progress.lose()
            raise

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Asks until there is an answer that is not transient. Raises RefusedError."""
        failures = 0
        while True:
            try:
                answer = await ask()
            except UnreachableError as error:
                self.problem = str(error)
            except RefusedError as refused:
                if refused.code not in TRANSIENT:
                    raise
                self.problem = reason_of(refused)
            else:
                self.problem = ""
                return answer
            failures += 1
            await trio.sleep(spread_pause_seconds(failures, self._chance))

    # records

    async def _add_all(self, records: Iterable[Outgoing], receipt: "_Receipt") -> None:
        without_key: dict[str, int] = {}
        unusable: dict[str, RefusedError] = {}
        for number, each in enumerate(records):
            try:
                if each.topic in unusable:  # otherwise each record would wait for its topic
                    raise unusable[each.topic]
                numbers = await self._partitions(each.topic)
            except RefusedError as refused:
                unusable[each.topic] = refused
                receipt.on_refused(number, refused)
                continue
            if each.partition is not None:
                chosen = each.partition
            elif each.key is not None:
                chosen = numbers[partition_of_key(each.key, len(numbers))]
            else:
                if each.topic not in without_key:
                    without_key[each.topic] = self._chance.choice(numbers)
                chosen = without_key[each.topic]
            partition = Partition(each.topic, chosen)
            if chosen not in numbers:
                self._topics.pop(each.topic, None)  # it may have been added since the topic was looked up
                nowhere = f"there is no partition {partition}"
                receipt.on_refused(number, RefusedError(nowhere, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
                continue
            timestamp = self._wall_clock.now_ms() if each.timestamp_ms is None else each.timestamp_ms
            record = Record(0, timestamp, each.key, each.value, list(each.headers))
            size = record_bytes(each.key, each.value, each.headers)
            self._progress.add(partition, Waiting(record, size, receipt, number))

    async def _partitions(self, topic: str) -> Sequence[int]:
        """Returns the partitions of a topic. Raises RefusedError if it does not exist."""
        looked_up_at, numbers = self._topics.get(topic, (0.0, ()))
        if numbers and trio.current_time() - looked_up_at <= TOPIC_AGE_SECONDS_MAX:
            return numbers
        unknown_until = trio.current_time() + NEW_TOPIC_SECONDS_MAX
        while True:
            try:
                numbers = await self._patiently(lambda: self._look_up(topic))
            except RefusedError as refused:
                self._topics.pop(topic, None)
                if refused.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or trio.current_time() >= unknown_until:
                    raise
                await trio.sleep(PAUSE_SECONDS_MIN)
            else:
                self._topics[topic] = trio.current_time(), numbers
                return numbers

    async def _look_up(self, topic: str) -> Sequence[int]:
        found = unless_refused((await self._logs.partitions([topic]))[topic])
        if not found:
            raise why_unusable(topic, ErrorCode.LEADER_NOT_AVAILABLE)
        return [each.number for each in found]

    # leaders

    async def _append(self) -> None:
        """Sends one batch of each partition that has records, until at least one is answered."""
        batches = self._progress.batches()
        if batches:
            await self._patiently(lambda: self._append_once(batches))

    async def _append_once(self, batches: Mapping[Partition, Buffer]) -> None:
        """Raises UnreachableError and RefusedError if no batch was appended or refused, and TransactionLostError."""

        async def ask(spu_id: int, wanted: Sequence[Partition]) -> dict[Partition, int | RefusedError | None]:
            with self._checking(self._leaders, wanted):
                answers = await self._logs.append_at(
                    spu_id,
                    {each: batches[each] for each in wanted},
                    ACKS_OF_ALL,
                    SILENCE_SECONDS_MAX,
                    self.transactional_id,
                )
            self._leaders.forget(each for each, answer in answers.items() if isinstance(answer, RefusedError))
            return answers

        answers = await self._spus.ask_each(batches, self._leaders.place, ask)
        are_answered = {self._progress.on_answer(each, answer) for each, answer in answers.items()}
        if True not in are_answered:
            raise next(each for each in answers.values() if isinstance(each, RefusedError))

    # coordinators

    async def _add_partitions(self) -> None:
        """Adds partitions to the transaction before their first batch."""
        while wanted := self._progress.to_add:
            topics = [AddPartitionsToTxnTopic(*each) for each in by_topic(wanted)]
            name = self._progress.name
            request = AddPartitionsToTxnRequest([], self.transactional_id, name.id, name.epoch, topics)
            response = await self._patiently(partial(self._ask_coordinator, request, ADD_PARTITIONS_MAX, _not_added))
            for partition, code in _codes_of(response):
                if not code:
                    self._progress.on_added(partition)
                elif code != ErrorCode.OPERATION_NOT_ATTEMPTED:  # another one was refused, so it is asked for again
                    self._progress.on_not_added(partition, _refused(code))

    async def _add_group(self, group: str) -> None:
        if not self._progress.has_group(group):
            name = self._progress.name
            request = AddOffsetsToTxnRequest(self.transactional_id, name.id, name.epoch, group)
            await self._patiently(partial(self._ask_coordinator, request, ADD_OFFSETS_MAX))
            self._progress.on_group_added(group)

    async def _commit_offsets(
        self, group: str, offsets: Mapping[Partition, int], metadata: Mapping[Partition, str]
    ) -> None:
        def asked(partition: Partition) -> TxnOffsetCommitRequestPartition:
            text = metadata.get(partition, "")
            return TxnOffsetCommitRequestPartition(partition.number, offsets[partition], committed_metadata=text)

        topics = [
            TxnOffsetCommitRequestTopic(topic, [asked(Partition(topic, each)) for each in numbers])
            for topic, numbers in by_topic(offsets)
        ]
        name = self._progress.name
        request = TxnOffsetCommitRequest(self.transactional_id, group, name.id, name.epoch, topics=topics)
        await self._patiently(partial(self._ask, self._groups, group, request, COMMIT_OFFSETS_MAX, _not_committed))

    async def _end(self, *, is_commit: bool) -> None:
        name = self._progress.name
        await self._ask_coordinator(EndTxnRequest(self.transactional_id, name.id, name.epoch, is_commit), END_MAX)

    async def _ask_coordinator(
        self, request: Any, version_max: int, refusal_of: Callable[[Any], RefusedError | None] = refusal
    ) -> Any:
        """Asks the coordinator of the transactional id. Raises UnreachableError and RefusedError."""
        return await self._ask(self._coordinators, self.transactional_id, request, version_max, refusal_of)

    async def _ask(
        self,
        places: KnownPlaces[str],
        key: str,
        request: Any,
        version_max: int,
        refusal_of: Callable[[Any], RefusedError | None],
    ) -> Any:
        """Asks a coordinator. Raises UnreachableError and RefusedError."""

        async def ask(spu_id: int, keys: Sequence[str]) -> dict[str, Any]:
            for _ in range(MARKERS_PAUSES_MAX):
                try:
                    with self._checking(places, keys):
                        response = await self._spus.ask(spu_id, request, version_max)
                except UnreachableError:
                    self._may_be_late = True
                    raise
                refused = refusal_of(response)
                if refused is None:
                    return dict.fromkeys(keys, response)
                if refused.code != ErrorCode.CONCURRENT_TRANSACTIONS:
                    places.forget(keys)
                    break
                await trio.sleep(MARKERS_PAUSE_SECONDS)
            return dict.fromkeys(keys, refused)

        return unless_refused((await self._spus.ask_each([key], places.place, ask))[key])

    @contextmanager
    def _checking(self, places: KnownPlaces[Key], keys: Iterable[Key]) -> Iterator[None]:
        """Forgets the place of keys if its SPU does not respond."""
        try:
            yield
        except UnreachableError:
            places.forget(keys)
            raise


class _Receipt:
    """Keeps which records were refused."""

    def __init__(self) -> None:
        self.refused: dict[int, RefusedError] = {}

    def on_appended(self) -> None:
        """Does nothing: a record that is not refused is in the transaction."""

    def on_refused(self, number: int, error: RefusedError | UnreachableError) -> None:
        """Keeps why a record is refused."""
        assert isinstance(error, RefusedError), "records are sent again while a leader cannot be reached"
        self.refused[number] = error


def _refused(code: int) -> RefusedError:
    return RefusedError(error_name(code), code)


def _codes_of(response: AddPartitionsToTxnResponse) -> Iterator[tuple[Partition, int]]:
    for topic in response.results_by_topic_v3_and_below:
        for each in topic.results_by_partition:
            yield Partition(topic.name, each.partition_index), each.partition_error_code


def _not_added(response: AddPartitionsToTxnResponse) -> RefusedError | None:
    """Returns the transient error for which all partitions must be added again, if there is one."""
    return next((_refused(code) for _, code in _codes_of(response) if code in TRANSIENT), None)


def _not_committed(response: TxnOffsetCommitResponse) -> RefusedError | None:
    """Returns the first error of a partition."""
    return next(filter(None, (refusal(each) for topic in response.topics for each in topic.partitions)), None)
