"""Asks the leaders of partitions about their logs, reads from them, and appends to them.

The result for a refused partition is the refusal; the results for the others are not affected.
"""

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

import trio

from tailrace.protocol.batches.records import Record
from tailrace.protocol.codec.primitives import Buffer
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import DEBUGGING_REPLICA
from tailrace.protocol.internal.describe_spu import DescribeSpuRequest
from tailrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest
from tailrace.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tailrace.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)

from .log_facts import FetchedBatch, LogEnds, Page, Partition, by_topic, first_timestamp, whole_batches
from .server_connection import (
    ClosedError,
    RefusedError,
    UnreachableError,
    answer_of,
    answered,
    error_name,
    refusal,
    unless_refused,
)
from .spu_client import PATIENCE_SECONDS, PAUSE_SECONDS_MIN, SPU, SpuClient
from .transaction_states import ABORTED, AbortedInResponse, EndsBehind

EARLIEST = -2
LATEST = -1

ACKS_OF_ALL = -1
FETCH_WAIT_MS_MAX = 500
"""How long a leader without new records may wait for some."""
FETCHED_BYTES_MAX = 8 * 2**20
"""The largest response of one SPU. One partition may fill an eighth of it. A larger batch is still sent whole."""
PRODUCE_TIMEOUT_MS = 5_000
"""How long a leader may wait for its followers. It must be less than SILENCE_SECONDS_MAX: the leader responds, and is
asked again."""

_NAMED_FETCHES_MAX = 12
_NAMED_PRODUCES_MAX = 12
"""The last versions of Fetch and Produce that name topics; later ones need their ids."""
_TV1_PRODUCES_MAX = 11
"""The last version of Produce whose client adds partitions to its transaction itself."""
_CONSUMER = -1
READ_UNCOMMITTED = 0
READ_COMMITTED = 1
"""The isolation levels of Kafka's protocol."""
_ONE_BATCH = 1
"""The size limit with which a fetch returns a single batch: the first batch is always sent whole."""

Offsets = dict[Partition, int | RefusedError]


class Fetched(NamedTuple):
    """The records of a partition from the requested offset on."""

    records: bytes
    high_watermark: int
    last_stable: int = -1
    """The offset before which no transaction is open; -1 if it is not known."""
    transactions: AbortedInResponse | EndsBehind | None = None
    """Tells how the transactions of the records ended; None if it is not known."""

    @property
    def batches(self) -> Iterator[FetchedBatch]:
        """The complete batches. Raises KafkaError, with a sentence, at a batch that cannot be read."""
        return whole_batches(self.records)

    @property
    def committed(self) -> Iterator[tuple[int, list[Record]]]:
        """The offset after each complete batch, and its records; none if its transaction was aborted.

        Raises KafkaError, with a sentence, at a batch that cannot be read.
        """
        for each in self.batches:
            is_aborted = (
                self.transactions is not None and self.transactions.state_of(each.header, each.marker) == ABORTED
            )
            yield each.header.next_offset, [] if is_aborted else each.records


class ProducerName(NamedTuple):
    """The producer id and epoch, by which leaders recognize batches that are sent again."""

    id: int
    epoch: int


class LogClient:
    """Asks leaders through an `SpuClient`."""

    def __init__(self, spus: SpuClient) -> None:
        self._spus = spus

    async def partitions(self, topics: Sequence[str]) -> dict[str, list[Partition] | RefusedError]:
        """Returns the partitions of each topic."""
        answers: dict[str, list[Partition] | RefusedError] = {each: _no_such_topic(each) for each in topics}
        for each in (await self._spus.metadata(topics)).topics if topics else ():
            if each.name is not None and each.error_code:
                answers[each.name] = why_unusable(each.name, each.error_code)
            elif each.name is not None:
                answers[each.name] = sorted(Partition(each.name, one.partition_index) for one in each.partitions)
        return answers

    async def all_partitions(self) -> dict[str, list[Partition]]:
        """Returns the partitions of all topics, in the order of their names."""
        topics = (await self._spus.metadata_of_all()).topics
        return {
            each.name: sorted(Partition(each.name, one.partition_index) for one in each.partitions)
            for each in sorted(topics, key=lambda each: each.name or "")
            if each.name is not None and not each.error_code
        }

    async def offsets_at(
        self, partitions: Iterable[Partition], timestamp: int, *, uncommitted: bool = False, only_stable: bool = False
    ) -> Offsets:
        """Returns the offset of the first record that is not older than `timestamp`, or -1 if there is none.

        The timestamps EARLIEST and LATEST stand for the log start and the log end. With `only_stable` the log ends at
        its last stable offset.
        """
        isolation = READ_COMMITTED if only_stable else READ_UNCOMMITTED
        replica = DEBUGGING_REPLICA if uncommitted else _CONSUMER

        async def ask(spu_id: int, wanted: Sequence[Partition]) -> Offsets:
            topics = [
                ListOffsetsTopic(topic, [ListOffsetsPartition(number, timestamp=timestamp) for number in numbers])
                for topic, numbers in by_topic(wanted)
            ]
            response = await self._spus.ask(spu_id, ListOffsetsRequest(replica, isolation, topics))
            return {
                Partition(topic.name, each.partition_index): refusal(each) or each.offset
                for topic in response.topics
                for each in topic.partitions
            }

        return await self._spus.ask_each(partitions, self.leaders, ask)

    async def ends(
        self, partitions: Sequence[Partition], *, uncommitted: bool = False, only_stable: bool = False
    ) -> dict[Partition, LogEnds | RefusedError]:
        """Returns the bounds of logs. With `only_stable` they end at their last stable offsets."""
        starts = await self.offsets_at(partitions, EARLIEST)
        ends = await self.offsets_at(partitions, LATEST, uncommitted=uncommitted, only_stable=only_stable)
        found: dict[Partition, LogEnds | RefusedError] = {}
        for partition in partitions:
            start, end = starts[partition], ends[partition]
            if isinstance(start, RefusedError):
                found[partition] = start
            else:
                found[partition] = end if isinstance(end, RefusedError) else LogEnds(start, end)
        return found

    async def timestamps(self, offsets: Mapping[Partition, int]) -> dict[Partition, int | None]:
        """Returns the timestamp of the first record from each offset on; None if none was found.

        Each partition takes a fetch of its own, because in a fetch for several only the first is sure to get a batch.
        """

        async def ask(spu_id: int, wanted: Sequence[Partition]) -> dict[Partition, int | RefusedError | None]:
            return {each: await self._timestamp(spu_id, each, offsets[each]) for each in wanted}

        answers = await self._spus.ask_each(offsets, self.leaders, ask)
        return {each: None if isinstance(found, RefusedError) else found for each, found in answers.items()}

    async def _timestamp(self, spu_id: int, partition: Partition, offset: int) -> int | RefusedError | None:
        wanted = FetchPartition(partition.number, fetch_offset=offset, partition_max_bytes=_ONE_BATCH)
        request = FetchRequest(max_bytes=_ONE_BATCH, topics=[FetchTopic(partition.topic, partitions=[wanted])])
        response = await self._spus.ask(spu_id, request, _NAMED_FETCHES_MAX)
        answers = [each for topic in response.responses for each in topic.partitions]
        refused = refusal(response) or next(filter(None, map(refusal, answers)), None)
        if refused is not None:
            return refused
        return next((first_timestamp(each.records, offset) for each in answers if each.records is not None), None)

    async def fetch(
        self, offsets: Mapping[Partition, int], *, uncommitted: bool = False, only_stable: bool = False
    ) -> dict[Partition, Fetched | RefusedError]:
        """Fetches records from these offsets on; a leader without new records waits a moment for some.

        With `only_stable` the records end at the last stable offset, and those of aborted transactions can be told.
        """

        async def ask(spu_id: int, wanted: Sequence[Partition]) -> dict[Partition, Fetched | RefusedError]:
            topics = [
                FetchTopic(topic, partitions=[_from(offsets[Partition(topic, each)], each) for each in numbers])
                for topic, numbers in by_topic(wanted)
            ]
            request = FetchRequest(
                replica_id=DEBUGGING_REPLICA if uncommitted else _CONSUMER,
                max_wait_ms=FETCH_WAIT_MS_MAX,
                min_bytes=1,
                max_bytes=FETCHED_BYTES_MAX,
                isolation_level=READ_COMMITTED if only_stable else READ_UNCOMMITTED,
                topics=topics,
            )
            response = await self._spus.ask(spu_id, request, _NAMED_FETCHES_MAX)
            refused = refusal(response)
            if refused is not None:
                return dict.fromkeys(wanted, refused)
            return {
                Partition(topic.topic, each.partition_index): _refused_by_leader(each)
                or _fetched(each, only_stable=only_stable)
                for topic in response.responses
                for each in topic.partitions
            }

        return await self._spus.ask_each(offsets, self.leaders, ask)

    async def pages(self, bounds: Mapping[Partition, LogEnds]) -> AsyncGenerator[Page, None]:
        """Reads the committed records between the bounds, one partition after the other. Raises RefusedError.

        The bounds should end at the last stable offset: it waits for no open transaction.
        """
        for partition, log in sorted(bounds.items()):
            offset, patient_until = log.start, trio.current_time() + PATIENCE_SECONDS
            while offset < log.end:
                (answer,) = (await self.fetch({partition: offset}, only_stable=True)).values()
                if isinstance(answer, RefusedError) and answer.code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    offset = max(offset + 1, answered(await self.ends([partition]))[partition].start)
                    continue
                first = offset
                try:
                    for end, records in answer_of(partition, answer).committed:
                        if end > offset:
                            wanted = [each for each in records if offset <= each.offset < log.end]
                            yield Page(partition, offset, min(end, log.end), wanted)
                            offset = end
                except KafkaError as error:
                    raise RefusedError(f"{partition}: {error}", error.code) from error
                if offset > first:
                    patient_until = trio.current_time() + PATIENCE_SECONDS
                elif trio.current_time() > patient_until:
                    raise RefusedError(f"{partition}: the leader sends nothing from offset {offset} on")
                else:
                    await trio.sleep(PAUSE_SECONDS_MIN)

    async def append(
        self, batches: Mapping[Partition, Buffer], acks: int
    ) -> dict[Partition, int | RefusedError | None]:
        """Appends batches, and returns the offset of the first record of each.

        The offset is None if the leader had the batch already and no longer knows its offset. Transient errors are
        retried, so a batch without a producer id may be stored twice.
        """

        async def ask(spu_id: int, wanted: Sequence[Partition]) -> dict[Partition, int | RefusedError | None]:
            return await self.append_at(spu_id, {each: batches[each] for each in wanted}, acks)

        return await self._spus.ask_each(batches, self.leaders, ask)

    async def append_at(
        self,
        spu_id: int,
        batches: Mapping[Partition, Buffer],
        acks: int,
        silence_seconds: float | None = None,
        transactional_id: str | None = None,
    ) -> dict[Partition, int | RefusedError | None]:
        """Appends batches at one SPU, which should lead their partitions, as `append` does, but does not retry.

        `silence_seconds` is how long the SPU may send nothing. Raises UnreachableError and RefusedError.
        """
        topics = [
            TopicProduceData(
                topic,
                partition_data=[PartitionProduceData(number, batches[Partition(topic, number)]) for number in numbers],
            )
            for topic, numbers in by_topic(batches)
        ]
        request = ProduceRequest(transactional_id, acks, PRODUCE_TIMEOUT_MS, topics)
        version_max = _NAMED_PRODUCES_MAX if transactional_id is None else _TV1_PRODUCES_MAX
        response = await self._spus.ask(spu_id, request, version_max, silence_seconds=silence_seconds)
        return {
            Partition(topic.name, each.index): _appended_at(each)
            for topic in response.responses
            for each in topic.partition_responses
        }

    async def producer_name(self) -> ProducerName:
        """Asks an SPU for a new producer id. Raises RefusedError."""

        attempts = count()

        async def anybody(keys: Sequence[str]) -> dict[str, int | RefusedError]:
            spus = await self._spus.spus()
            if not spus:
                raise UnreachableError(f"no SPU is online. {SPU.what_to_do}")
            return dict.fromkeys(keys, spus[next(attempts) % len(spus)])  # another one if the first is silent

        async def ask(spu_id: int, keys: Sequence[str]) -> dict[str, ProducerName | RefusedError]:
            response = await self._spus.ask(spu_id, InitProducerIdRequest(transactional_id=None))
            name = ProducerName(response.producer_id, response.producer_epoch)
            return dict.fromkeys(keys, refusal(response) or name)

        (answer,) = (await self._spus.ask_each(["name"], anybody, ask, prepares=True)).values()
        return unless_refused(answer)

    async def check_shows_uncommitted(self, partitions: Sequence[Partition]) -> None:
        """Checks that the leaders send uncommitted records when asked. Raises RefusedError.

        Apache Kafka accepts such requests, but sends only committed records.
        """

        async def ask(spu_id: int, wanted: Sequence[Partition]) -> dict[Partition, RefusedError | None]:
            try:
                await self._spus.ask(spu_id, DescribeSpuRequest())
            except ClosedError:
                why = f"the leader of {wanted[0]} closed the connection; only SPUs of Tailrace send uncommitted records"
                return dict.fromkeys(wanted, RefusedError(why))
            return dict.fromkeys(wanted, None)

        for answer in (await self._spus.ask_each(partitions, self.leaders, ask)).values():
            unless_refused(answer)

    async def leaders(self, partitions: Sequence[Partition]) -> dict[Partition, int | RefusedError]:
        """Finds the leaders of partitions; a `Place`."""
        return {Partition(*each): where for each, where in (await self._spus.leaders(partitions)).items()}


def _fetched(answer: Any, *, only_stable: bool) -> Fetched:
    aborted = None
    if only_stable:
        found = answer.aborted_transactions or ()
        aborted = AbortedInResponse([(each.producer_id, each.first_offset) for each in found])
    return Fetched(bytes(answer.records or b""), answer.high_watermark, answer.last_stable_offset, aborted)


def _from(offset: int, number: int) -> FetchPartition:
    return FetchPartition(number, fetch_offset=offset, partition_max_bytes=FETCHED_BYTES_MAX // 8)


def _appended_at(answer: PartitionProduceResponse) -> int | RefusedError | None:
    if answer.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
        return None
    return _refused_by_leader(answer) or answer.base_offset


def _refused_by_leader(answer: PartitionData | PartitionProduceResponse) -> RefusedError | None:
    """Returns the refusal of a leader; a leader that does not know the partition yet counts as transient."""
    refused = refusal(answer)
    if refused is not None and refused.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return RefusedError("the leader does not have the partition yet", ErrorCode.LEADER_NOT_AVAILABLE)
    return refused


def why_unusable(topic: str, error: int) -> RefusedError:
    """Returns the reason why a server gives no partitions of a topic."""
    match error:
        case ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return _no_such_topic(topic)
        case ErrorCode.INVALID_REPLICATION_FACTOR:
            why = f"it waits for more SPUs, and `tailrace topic describe {topic}` says how many it needs"
        case ErrorCode.INVALID_REPLICA_ASSIGNMENT | ErrorCode.INVALID_PARTITIONS:
            why = f"its spec is impossible, and `tailrace topic describe {topic}` says why"
        case _:
            return RefusedError(f"{topic}: {error_name(error)}", error)
    return RefusedError(f"topic {topic} exists, but has no replicas yet: {why}", error)


def _no_such_topic(topic: str) -> RefusedError:
    return RefusedError(f"there is no topic {topic}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
