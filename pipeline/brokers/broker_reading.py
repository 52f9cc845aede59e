"""Reads ranges of offsets from the leaders of partitions, in pieces with columns.

Only committed records are read: those below the last stable offset, without those of aborted transactions. If a leader
fails, its successor is asked, from the offset after the last piece on. So nothing is read twice or left out.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from itertools import chain
from uuid import UUID

import trio
from msgspec import Struct

from tailrace.client.client_network import client_network
from tailrace.client.log_facts import Partition, by_topic
from tailrace.client.server_connection import RefusedError, UnreachableError, error_name, refusal, unless_refused
from tailrace.client.spu_client import BOOTSTRAP, PASSING, SILENCE_SECONDS_MAX, SpuClient
from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.pipeline.segments.arrow_rows import Source
from tailrace.pipeline.segments.log_pieces import LogBatch, LogPiece, deleted_piece, piece_of, split_by_size
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from tailrace.protocol.messages.fetch import AbortedTransaction, FetchPartition, FetchRequest, FetchTopic, PartitionData
from tailrace.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tailrace.runtime.backoff import spread_pause_seconds
from tailrace.runtime.chance import Chance, RandomChance
from tailrace.runtime.network import Network
from tailrace.runtime.settings import SettingsError, parse_address

from .aborted_batches import read_fetched

REQUIRED = ("trio", "structlog")
"""The packages that tasks need which read from brokers, beside those of every job."""

EARLIEST = -2
LATEST = -1
READ_COMMITTED = 1
FETCHED_BYTES_MAX = 4 * 2**20
"""The largest response. A larger batch is still sent whole."""
PATIENCE_SECONDS = 30.0
"""How long to retry until a partition can be read. An election takes less."""
_WAIT_MS_MAX = 500
_NAMED_FETCHES_MAX = 12
"""The last version of Fetch that names topics; later ones need their ids, which say for certain which topic it is."""
_ANOTHER_TOPIC = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID}
)
_RETRIED = PASSING | {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.KAFKA_STORAGE_ERROR}


class BrokerRange(Struct, frozen=True):
    """Offsets `[start, end)` of a partition, which one task reads."""

    topic: str
    topic_id: UUID
    """The id that the brokers gave; zero from brokers that know no topic ids."""
    partition: int
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


class TopicLayout(Struct, frozen=True):
    """A topic as the brokers describe it."""

    name: str
    id: UUID
    partitions: tuple[int, ...]


class BrokerClient:
    """What jobs ask of brokers."""

    def __init__(self, network: Network, brokers: Sequence[str], chance: Chance) -> None:
        """`brokers`: addresses such as `127.0.0.1:9092`. Raises JobError."""
        try:
            addresses = [parse_address(each, "--bootstrap") for each in brokers]
        except SettingsError as error:
            raise JobError(str(error)) from None
        self.spus = SpuClient(network, addresses, BOOTSTRAP)
        self._chance = chance

    async def topics(self, names: Sequence[str] | None) -> list[TopicLayout]:
        """Returns these topics, or all that are not internal. Raises RefusedError, UnreachableError and JobError."""
        response = await (self.spus.metadata_of_all() if names is None else self.spus.metadata(names))
        found: dict[str, TopicLayout] = {}
        for each in response.topics:
            if each.error_code and names is not None:
                what = "does not exist" if each.error_code in _ANOTHER_TOPIC else error_name(each.error_code)
                raise JobError(f"topic {each.name} {what}: `tailrace topic list` shows the topics")
            if each.name is not None and not each.error_code and (names is not None or not each.is_internal):
                numbers = tuple(sorted(one.partition_index for one in each.partitions))
                found[each.name] = TopicLayout(each.name, each.topic_id, numbers)
        return [found[name] for name in sorted(found)]

    async def offsets_at(self, partitions: Sequence[Partition], timestamp: int) -> dict[Partition, int]:
        """Returns offsets of committed records: of the first at or after a time in ms, or at EARLIEST or LATEST.

        -1 stands for no record. Raises RefusedError and UnreachableError.
        """

        async def ask(spu_id: int, wanted: Sequence[Partition]) -> dict[Partition, int | RefusedError]:
            topics = [
                ListOffsetsTopic(topic, [ListOffsetsPartition(number, timestamp=timestamp) for number in numbers])
                for topic, numbers in by_topic(wanted)
            ]
            request = ListOffsetsRequest(replica_id=-1, isolation_level=READ_COMMITTED, topics=topics)
            response = await self.spus.ask(spu_id, request)
            return {
                Partition(topic.name, each.partition_index): refusal(each) or each.offset
                for topic in response.topics
                for each in topic.partitions
            }

        answers = await self.spus.ask_each(partitions, self._leaders, ask)
        for partition, answer in answers.items():
            if isinstance(answer, RefusedError):
                raise RefusedError(f"{partition}: {answer}", answer.code)
        return {partition: unless_refused(answer) for partition, answer in answers.items()}

    async def sizes(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """Returns the size in bytes of each partition's largest log, as far as the brokers tell. It is an estimate."""
        request = DescribeLogDirsRequest(
            [DescribableLogDirTopic(topic, numbers) for topic, numbers in by_topic(partitions)]
        )
        found: dict[Partition, int] = {}
        for broker in await self.spus.spus() if partitions else ():
            try:
                response = await self.spus.ask(broker, request)
            except (UnreachableError, RefusedError):
                continue
            for topic in (topic for each in response.results for topic in each.topics):
                for one in topic.partitions:
                    partition = Partition(topic.name, one.partition_index)
                    found[partition] = max(found.get(partition, 0), one.partition_size)
        return found

    async def pieces(self, wanted: BrokerRange) -> AsyncGenerator[LogPiece, None]:
        """Yields the range in pieces, in the order of offsets. Raises JobError."""
        reading = _Reading(self, wanted, self._chance)
        while reading.position < wanted.end:
            for piece in await reading.next_pieces():
                yield piece

    async def leader_of(self, partition: Partition) -> int:
        """Returns the id of the leader. Raises RefusedError and UnreachableError."""
        return unless_refused((await self._leaders([partition]))[partition])

    async def _leaders(self, partitions: Sequence[Partition]) -> dict[Partition, int | RefusedError]:
        return {Partition(*each): where for each, where in (await self.spus.leaders(partitions)).items()}

    def close(self) -> None:
        """Closes all connections."""
        self.spus.close()


def each_piece(brokers: Sequence[str], wanted: BrokerRange, handle: Callable[[LogPiece], None]) -> None:
    """Reads a range in a task, and hands over one piece after the other. Raises JobError."""
    trio.run(_each_piece, brokers, wanted, handle)


async def _each_piece(brokers: Sequence[str], wanted: BrokerRange, handle: Callable[[LogPiece], None]) -> None:
    client = BrokerClient(client_network(waits_awake=True), brokers, RandomChance())
    try:
        async with aclosing(client.pieces(wanted)) as pieces:
            async for piece in pieces:
                handle(piece)
    finally:
        client.close()


class _Reading:
    """The reading of one range."""

    def __init__(self, client: BrokerClient, wanted: BrokerRange, chance: Chance) -> None:
        self._client = client
        self._wanted = wanted
        self._chance = chance
        self._partition = Partition(wanted.topic, wanted.partition)
        self._source = Source(wanted.topic, str(wanted.topic_id), wanted.partition, "", 0)
        self._leader: int | None = None
        self.position = wanted.start

    async def next_pieces(self) -> Iterable[LogPiece]:
        """Returns what one response of a leader has. It is decoded piece by piece. Raises JobError, also then."""
        failures = 0
        patient_until = trio.current_time() + PATIENCE_SECONDS
        while True:
            try:
                if found := await self._fetched():
                    return found
                problem = f"its leader has no records from offset {self.position} on"
            except (UnreachableError, RefusedError) as error:
                problem = str(error)
                if isinstance(error, RefusedError) and error.code not in _RETRIED:
                    raise JobError(f"{self._wanted} cannot be read: {problem}") from error
            if trio.current_time() >= patient_until:
                raise JobError(f"{self._wanted} cannot be read: {problem}")
            self._leader = None
            failures += 1
            await trio.sleep(spread_pause_seconds(failures, self._chance))

    async def _fetched(self) -> Iterable[LogPiece]:
        """Fetches once. Returns an empty list if the leader has nothing."""
        found = await self._ask()
        if found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return await self._deleted()
        refused = refusal(found)
        if refused is not None:
            raise refused
        records = found.records or b""
        assert isinstance(records, bytes | memoryview), "decoded records are in memory"
        # The copy outlives the buffer of the connection.
        pieces = self._pieces(bytes(records), found.aborted_transactions or ())
        first = next(pieces, None)
        return [] if first is None else chain([first], pieces)

    def _pieces(self, records: bytes, aborted: Sequence[AbortedTransaction]) -> Iterator[LogPiece]:
        """Yields pieces one after the other, because decompressed records may be large."""
        try:
            for group in split_by_size(read_fetched(records, aborted)):
                if (piece := self._piece(group)) is not None:
                    yield piece
        except KafkaError as error:
            raise JobError(
                f"{self._wanted} cannot be read at offset {self.position}: {error}; `tailrace log verify` shows what "
                "is wrong in a log of Tailrace"
            ) from error

    def _piece(self, group: Sequence[LogBatch]) -> LogPiece | None:
        end = min(group[-1].stored.header.next_offset, self._wanted.end)
        if end <= self.position:
            return None
        piece = piece_of(self._source, group, self.position, end)
        self.position = end
        return piece

    async def _deleted(self) -> list[LogPiece]:
        """Returns the piece that was deleted, up to the log's start."""
        start = (await self._client.offsets_at([self._partition], EARLIEST))[self._partition]
        if start <= self.position:
            return []
        piece = deleted_piece(self.position, min(start, self._wanted.end))
        self.position = piece.end
        return [piece]

    async def _ask(self) -> PartitionData:
        wanted = self._wanted
        if self._leader is None:
            self._leader = await self._client.leader_of(self._partition)
            now = self._client.spus.topic_ids.get(wanted.topic)
            if wanted.topic_id.int and now not in (None, wanted.topic_id):
                raise JobError(f"topic {wanted.topic} was deleted and made again while the job read it: run it again")
        partition = FetchPartition(wanted.partition, fetch_offset=self.position, partition_max_bytes=FETCHED_BYTES_MAX)
        request = FetchRequest(
            max_wait_ms=_WAIT_MS_MAX,
            min_bytes=1,
            max_bytes=FETCHED_BYTES_MAX,
            isolation_level=READ_COMMITTED,
            topics=[FetchTopic(wanted.topic, wanted.topic_id, [partition])],
        )
        version_max = None if wanted.topic_id.int else _NAMED_FETCHES_MAX
        response = await self._client.spus.ask(
            self._leader, request, version_max, _WAIT_MS_MAX / 1000, SILENCE_SECONDS_MAX
        )
        refused = refusal(response)
        if refused is not None:
            raise refused
        found: PartitionData = response.responses[0].partitions[0]
        return found
