"""A consumer in a simulation, which reads, checks for truncation (KIP-320), and reports what it sees."""

from random import Random
from typing import Any, NamedTuple

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.batches.control_batches import ControlKind, bridge_epoch, control_kind
from tailrace.protocol.batches.record_batch import crc_of, iterate
from tailrace.protocol.batches.records import read_records
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tailrace.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tailrace.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

from .client import WireClient
from .flips import flipped_bytes
from .history import PartitionHistory, Read
from .leaders import Leader, Leaders
from .patient_client import PatientClient, RetryError
from .world import World

FETCH_VERSION = 12
LIST_OFFSETS_VERSION = 6
OFFSET_FOR_LEADER_EPOCH_VERSION = 4
LATEST = -1
EARLIEST = -2
UNKNOWN_END = 1 << 62
WAIT_MS = 250
RETRIABLE = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)


class Position(NamedTuple):
    offset: int
    epoch: int
    """The epoch of the last batch that was read before the offset."""


BEGINNING = Position(0, -1)


class Consumer:
    def __init__(
        self,
        world: World,
        name: str,
        topic: str,
        history: PartitionHistory,
        chance: Random,
        *,
        host: str | None = None,
        start: Position = BEGINNING,
        reads_anywhere: bool = False,
    ) -> None:
        """Makes a consumer; with `reads_anywhere`, it reads from any replica, as a client does that has one nearby
        (KIP-392)."""
        self.client = PatientClient(world, host or name, chance)
        self._leaders = Leaders(self.client, topic, history.partition, start.epoch)
        self.name = name
        self.records: list[Read] = []
        self._history = history
        self._chance = chance
        self._world = world
        self._reads_anywhere = reads_anywhere
        self.position = start
        history.on_started(name, start.offset)
        self._validated_epoch = -1
        """The leader epoch in which the position was last validated."""

    async def run(self) -> None:
        """Reads until it is cancelled."""
        while True:
            async with self.client.trying():
                leader = await self._leaders.find()
                async with self.client.connected(leader.spu) as client:
                    await self._validate(client, leader)
                    if self._chance.random() < 0.5:
                        await self._look_for_end(client, leader)
                    if not self._reads_anywhere:
                        while True:
                            await self._fetch(client, leader, WAIT_MS)
                source = self._chance.choice(leader.replicas)
                async with self.client.connected(source) as client:
                    for _ in range(self._chance.randint(1, 20)):
                        await self._fetch(client, leader, WAIT_MS, source)

    async def read_all(self) -> None:
        """Reads up to the high watermark of the moment at which it gets there."""
        done = False
        while not done:
            async with self.client.trying():
                leader = await self._leaders.find()
                async with self.client.connected(leader.spu) as client:
                    await self._validate(client, leader)
                source = self._chance.choice(leader.replicas) if self._reads_anywhere else leader.spu
                async with self.client.connected(source) as client:
                    while not done:
                        done = await self._fetch(client, leader, 0, source) <= self.position.offset

    async def _validate(self, client: WireClient, leader: Leader) -> None:
        """Asks a new leader where the epoch of the last record ended."""
        if self._validated_epoch == leader.epoch or self.position.epoch < 0:
            self._validated_epoch = leader.epoch
            return
        partition = OffsetForLeaderPartition(self._leaders.partition, leader.epoch, self.position.epoch)
        request = OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic(self._leaders.topic, [partition])])
        response = await self.client.ask(
            client, ApiKey.OFFSET_FOR_LEADER_EPOCH, OFFSET_FOR_LEADER_EPOCH_VERSION, request
        )
        answered = response.topics[0].partitions[0]
        self._check_code(answered.error_code)
        if answered.end_offset < self.position.offset:
            self._on_truncation(
                f"epoch {self.position.epoch}, read to {self.position.offset}, was validated by the leader of epoch"
                f"{leader.epoch} with epoch {answered.leader_epoch} and end {answered.end_offset}",
            )
        self._validated_epoch = leader.epoch

    async def _look_for_end(self, client: WireClient, leader: Leader) -> None:
        log_end = await self._list_offset(client, leader, LATEST)
        self._history.on_log_end(self.name, leader.epoch, log_end)

    async def _look_for_start(self, client: WireClient, leader: Leader) -> None:
        """Moves to the log start, because the next records have been deleted."""
        self.position = Position(await self._list_offset(client, leader, EARLIEST), -1)
        if self._history.is_retained:
            self._history.on_deleting(self.position.offset)
        if self.position.offset > self._history.deleted_end:
            self._history.on_truncation(
                self.name, f"the log starts at {self.position.offset}, beyond what may have been deleted"
            )

    async def _list_offset(self, client: WireClient, leader: Leader, timestamp: int) -> int:
        partition = ListOffsetsPartition(self._leaders.partition, leader.epoch, timestamp)
        request = ListOffsetsRequest(-1, topics=[ListOffsetsTopic(self._leaders.topic, [partition])])
        response = await self.client.ask(client, ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, request)
        answered = response.topics[0].partitions[0]
        self._check_code(answered.error_code)
        offset: int = answered.offset
        return offset

    async def _fetch(self, client: WireClient, leader: Leader, wait_ms: int, source: int | None = None) -> int:
        """Fetches once, and returns the high watermark of the queried replica."""
        is_leader = source in (None, leader.spu)
        asked = leader.spu if source is None else source
        flipped = flipped_bytes(self._world, asked)
        partition = FetchPartition(
            partition=self._leaders.partition,
            current_leader_epoch=leader.epoch,
            fetch_offset=self.position.offset,
            last_fetched_epoch=self.position.epoch,
            partition_max_bytes=self._chance.choice((100, 2000, 100_000)),
        )
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=1_000_000,
            topics=[FetchTopic(topic=self._leaders.topic, partitions=[partition])],
        )
        response = await self.client.ask(client, ApiKey.FETCH, FETCH_VERSION, request)
        self._check_code(response.error_code)
        data = response.responses[0].partitions[0]
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and not is_leader:
            raise RetryError(f"SPU {source} does not have {self.position}, but the leader may")
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if self._history.is_retained:
                self._history.on_deleting(await self._list_offset(client, leader, EARLIEST))
            self._on_truncation(f"{self.position} is out of range")
            await self._look_for_start(client, leader)
            return UNKNOWN_END
        if data.error_code == ErrorCode.CORRUPT_MESSAGE and flipped + flipped_bytes(self._world, asked):
            raise RetryError("the header of the next batch is damaged")
        self._check_code(data.error_code)
        diverging = data.diverging_epoch
        if diverging is not None and diverging.end_offset >= 0:
            self._on_truncation(
                f"at {self.position}, the leader of epoch {leader.epoch} says that "
                f"epoch {diverging.epoch} ended at {diverging.end_offset}",
            )
        if self._history.may_be_lost(leader.epoch):
            raise RetryError(f"records that were committed in epoch {leader.epoch} may be lost")
        flipped += flipped_bytes(self._world, asked)
        if not all(each.is_covered for each in flipped):
            raise RetryError("no checksum shows a consumer that an offset or epoch is corrupt")
        self._take(data, may_be_damaged=bool(flipped))
        if is_leader:
            self._history.on_high_watermark(self.name, leader.epoch, data.high_watermark)
        high_watermark: int = data.high_watermark
        return high_watermark

    def _take(self, data: Any, *, may_be_damaged: bool) -> None:
        records = bytes(data.records or b"")
        found: list[Read] = []
        try:
            batches = list(iterate(records))
        except KafkaError as error:
            assert may_be_damaged, f"{self.name} got {error}"
            raise RetryError(str(error)) from None
        for position, header in batches:
            if crc_of(records, position, header.size) != header.crc:
                assert may_be_damaged, f"{self.name} got a corrupt batch at {header.base_offset}"
                raise RetryError(f"the batch at {header.base_offset} is corrupt")
            assert header.next_offset <= data.high_watermark, f"{self.name} got an uncommitted batch"
            if control_kind(header, records, position) is ControlKind.BRIDGE:
                self._history.on_bridge(self.name, bridge_epoch(records, position), header.base_offset)
            if not header.is_control:
                batch = records[position : position + header.size]
                found += [Read(record.offset, record.value or b"") for record in read_records(batch)]
        found = [each for each in found if each.offset >= self.position.offset]
        if records and not batches:
            assert may_be_damaged, f"{self.name} got no whole batch"
            raise RetryError("the batch is longer than the response")
        if records:
            self.position = Position(header.next_offset, header.leader_epoch)
        self._history.on_read(self.name, found)
        self.records += found

    def _on_truncation(self, sentence: str) -> None:
        """Reports a truncation, unless the next records may have been deleted, because then nobody knows what preceded
        them."""
        if self._history.may_be_lost(self.position.epoch):
            self.position = BEGINNING
            self._history.on_started(self.name, 0)
            raise RetryError(f"starts again: {sentence}")
        if self.position.offset >= self._history.deleted_end:
            self._history.on_truncation(self.name, sentence)
        self.position = Position(self.position.offset, -1)

    def _check_code(self, code: int) -> None:
        if code in RETRIABLE:
            raise RetryError(ErrorCode(code).name)
        assert code == ErrorCode.NONE, f"{self.name} does not expect {ErrorCode(code).name}"
