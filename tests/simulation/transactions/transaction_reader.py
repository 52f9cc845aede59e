"""Readers of transactions: they fetch from leaders or followers, and leave out what is aborted, as clients do."""

from collections.abc import Sequence
from random import Random
from typing import Any

import trio
from msgspec import Struct
from simulation.client import WireClient
from simulation.consumer import EARLIEST, FETCH_VERSION, LATEST, LIST_OFFSETS_VERSION, RETRIABLE
from simulation.leaders import Leader, Leaders
from simulation.patient_client import PatientClient, RetryError
from simulation.world import World

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.batches.record_batch import BatchHeader, iterate
from tailrace.protocol.batches.records import read_records
from tailrace.protocol.batches.transaction_markers import is_marker, marker_of
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tailrace.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

from .transaction_history import Marker, Partition, Poll, Position, Reader, Record, Stored

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
WAIT_MS = 200
SIZES = (100, 600, 100_000)


class Response(Struct, frozen=True):
    """What a response says about one partition, before anything is left out."""

    data: bytes
    aborted: Sequence[tuple[int, int]]
    """Producer ids with the first offsets of their aborted transactions, in the order of the response."""
    stable_end: int
    high_watermark: int
    log_start: int

    @property
    def next_offset(self) -> int | None:
        ends = [header.next_offset for _, header in iterate(self.data)]
        return ends[-1] if ends else None


def committed_of(response: Response, start: int) -> list[Record]:
    """Returns the records that a client with read_committed gives to its program."""
    rest = sorted(response.aborted, key=lambda each: each[1])
    aborting: set[int] = set()
    found: list[Record] = []
    for position, header in iterate(response.data):
        while rest and rest[0][1] <= header.last_offset:
            aborting.add(rest.pop(0)[0])
        if header.is_control:
            marker = marker_of(header, response.data, position)
            if marker is not None and not marker.is_commit:
                aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            found += _records(response.data, position, header, start)
    return found


def uncommitted_of(response: Response, start: int) -> list[Record]:
    return [
        record
        for position, header in iterate(response.data)
        if not header.is_control
        for record in _records(response.data, position, header, start)
    ]


def stored_of(response: Response, start: int) -> tuple[list[Stored], list[Marker]]:
    """Returns all records and markers of the response."""
    stored: list[Stored] = []
    markers: list[Marker] = []
    for position, header in iterate(response.data):
        if header.base_offset < start:
            continue
        if is_marker(header):
            marker = marker_of(header, response.data, position)
            assert marker is not None, f"the marker at {header.base_offset} has no content"
            markers.append(Marker(header.base_offset, header.producer_id, marker.is_commit))
        elif not header.is_control:
            stored += [
                Stored(record.offset, record.value, header.producer_id, header.is_transactional)
                for record in _records(response.data, position, header, start)
            ]
    return stored, markers


def _records(data: bytes, position: int, header: BatchHeader, start: int) -> list[Record]:
    batch = data[position : position + header.size]
    return [Record(each.offset, each.value or b"") for each in read_records(batch) if each.offset >= start]


class TransactionReader:
    """Reads one partition."""

    def __init__(
        self,
        world: World,
        name: str,
        partition: Partition,
        reader: Reader,
        chance: Random,
        *,
        reads_anywhere: bool = False,
        start: int = 0,
        may_skip: bool = False,
    ) -> None:
        """Makes a reader, whose events go to `reader`. With `reads_anywhere`, it reads from any replica (KIP-392).

        With `may_skip`, records may be deleted before it has read them.
        """
        self.client = PatientClient(world, name, chance)
        self.partition = partition
        self.reader = reader
        self.offset = start
        self.is_at_end = False
        """Whether the last response had nothing more for this reader."""
        self._name = name
        self._leaders = Leaders(self.client, partition.topic, partition.number)
        self._chance = chance
        self._reads_anywhere = reads_anywhere
        self._may_skip = may_skip
        reader.events.append(Position(partition, start))

    @property
    def records(self) -> list[Record]:
        """Everything that the reader ever got."""
        return [record for poll in self.reader.polls() for record in poll.records]

    async def run(self) -> None:
        """Reads until it is cancelled, and sometimes from the beginning again."""
        while True:
            async with self.client.trying():
                leader = await self._leaders.find()
                source = self._chance.choice(leader.replicas) if self._reads_anywhere else leader.spu
                async with self.client.connected(source) as connected:
                    for _ in range(self._chance.choice((3, 20))):
                        await self.poll(connected, leader, source, WAIT_MS)
            if self._chance.random() < 0.1:
                self.seek(0)

    def seek(self, offset: int) -> None:
        self.offset = offset
        self.reader.events.append(Position(self.partition, offset))

    async def _skip_deleted(self, leader: Leader) -> bool:
        """Continues at the beginning of the log if that is further on, as consumers do. Returns whether it is."""
        async with self.client.connected(leader.spu) as connected:
            earliest = await self._list(connected, leader, EARLIEST, READ_UNCOMMITTED)
        is_deleted = earliest > self.offset
        if is_deleted:
            self.seek(earliest)
        return is_deleted

    async def read_all(self, source: int | None = None) -> list[Response]:
        """Reads from here to the end that its isolation level lets it see, from one SPU if it is given."""
        responses: list[Response] = []
        is_done = False
        while not is_done:
            async with self.client.trying():
                leader = await self._leaders.find()
                asked = leader.spu if source is None else source
                async with self.client.connected(asked) as connected:
                    while not is_done:
                        response, _ = await self.poll(connected, leader, asked, 0)
                        responses.append(response)
                        is_done = self.is_at_end
        return responses

    async def poll_once(self) -> list[Record]:
        """Connects, fetches once, and returns the records for the program."""
        leader = await self._leaders.find()
        source = self._chance.choice(leader.replicas) if self._reads_anywhere else leader.spu
        async with self.client.connected(source) as connected:
            _, records = await self.poll(connected, leader, source, WAIT_MS)
        return records

    async def poll(
        self, connected: WireClient, leader: Leader, source: int, wait_ms: int
    ) -> tuple[Response, list[Record]]:
        """Fetches once, and returns the response and the records for the program."""
        began, offset = trio.current_time(), self.offset
        response = await self._fetch(connected, leader, source, wait_ms)
        take = committed_of if self.reader.reads_committed else uncommitted_of
        records = take(response, offset)
        next_offset = response.next_offset
        if next_offset is not None:
            self.offset = max(offset, next_offset)
        end = response.stable_end if self.reader.reads_committed else response.high_watermark
        self.is_at_end = self.offset >= end
        poll = Poll(
            self.partition,
            records,
            began,
            trio.current_time(),
            leader.epoch if source == leader.spu else None,
            response.stable_end,
            response.high_watermark,
            response.log_start,
        )
        self.reader.events.append(poll)
        return response, records

    async def _fetch(self, connected: WireClient, leader: Leader, source: int, wait_ms: int) -> Response:
        partition = FetchPartition(
            partition=self.partition.number,
            current_leader_epoch=leader.epoch,
            fetch_offset=self.offset,
            partition_max_bytes=self._chance.choice(SIZES),
        )
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=1_000_000,
            isolation_level=READ_COMMITTED if self.reader.reads_committed else READ_UNCOMMITTED,
            topics=[FetchTopic(topic=self.partition.topic, partitions=[partition])],
        )
        response = await self.client.ask(connected, ApiKey.FETCH, FETCH_VERSION, request)
        check_fetched(response.error_code, self._name)
        data: Any = response.responses[0].partitions[0]
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if self._may_skip and await self._skip_deleted(leader):
                raise RetryError("the next records were deleted")
            if source != leader.spu:
                raise RetryError(f"SPU {source} does not have {self.offset}, but the leader may")
        check_fetched(data.error_code, self._name)
        aborted = [(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()]
        return Response(
            bytes(data.records or b""), aborted, data.last_stable_offset, data.high_watermark, data.log_start_offset
        )

    async def log_end(self, *, reads_committed: bool) -> int:
        """Asks the leader for the end of the log that readers of this isolation level see."""
        while True:
            async with self.client.trying():
                leader = await self._leaders.find()
                async with self.client.connected(leader.spu) as connected:
                    level = READ_COMMITTED if reads_committed else READ_UNCOMMITTED
                    return await self._list(connected, leader, LATEST, level)

    async def _list(self, connected: WireClient, leader: Leader, timestamp: int, level: int) -> int:
        partition = ListOffsetsPartition(self.partition.number, leader.epoch, timestamp)
        request = ListOffsetsRequest(-1, level, [ListOffsetsTopic(self.partition.topic, [partition])])
        response = await self.client.ask(connected, ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, request)
        answered = response.topics[0].partitions[0]
        check_fetched(answered.error_code, self._name)
        offset: int = answered.offset
        return offset


def check_fetched(code: int, name: str) -> None:
    if code in RETRIABLE:
        raise RetryError(ErrorCode(code).name)
    assert code == ErrorCode.NONE, f"{name} does not expect {ErrorCode(code).name}"
