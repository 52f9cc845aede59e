"""Clusters with shelves: how clients read, search and delete records that the replicas do not have."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio
from clusters import FETCH_VERSION, PRODUCE_VERSION, ClusterOfSpus, cluster_of
from simulation.client import WireClient
from spus import batch, newest
from transacting import write_data, write_marker

from tailrace.broker.handlers.records.fetch import READ_COMMITTED
from tailrace.broker.replicas.replica import Replica
from tailrace.cluster.shelf_lookup import shelved_end
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.batches.record_batch import iterate
from tailrace.protocol.batches.transaction_markers import marker_of
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tailrace.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from tailrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from tailrace.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

RECORDS = 40
ROUND_SECONDS = 5.0
"""After this time, a leader has handled its shelves, and others have the new specs."""
BEGINNING_MS = 1_700_000_000_000
CONFIGS = {
    "internal.segment.bytes": "1",
    "remote.storage.enable": "true",
    "local.retention.bytes": "0",
    "retention.ms": "-1",
}


class Shelved:
    """A partition of 40 records, of which the replicas' logs have only the last ones."""

    def __init__(self, cluster: ClusterOfSpus, leader: int, client: WireClient) -> None:
        self.cluster = cluster
        self.leader = leader
        self.client = client

    @property
    def replica(self) -> Replica:
        found: Replica | None = self.cluster.spus[self.leader].spu.replicas.find("t", 0)
        assert found is not None
        return found

    async def produce(self, number: int) -> None:
        records = batch(b"%d" % number, timestamp=BEGINNING_MS + 1000 * number)
        data = [TopicProduceData("t", partition_data=[PartitionProduceData(0, records)])]
        request = ProduceRequest(acks=-1, timeout_ms=5000, topic_data=data)
        response = await self.client.request(ApiKey.PRODUCE, PRODUCE_VERSION, request)
        assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE

    async def look_at_shelves(self) -> None:
        """Runs a round at once."""
        self.cluster.spus[self.leader].spu.offloading.begin_round()
        await trio.sleep(ROUND_SECONDS)

    async def fetch(
        self, offset: int, *, bytes_max: int = 300, client: WireClient | None = None, isolation: int = 0
    ) -> PartitionData:
        wanted = FetchPartition(0, fetch_offset=offset, partition_max_bytes=bytes_max)
        topics = [FetchTopic(topic="t", partitions=[wanted])]
        request = FetchRequest(
            max_wait_ms=1000, min_bytes=1, max_bytes=1 << 20, isolation_level=isolation, topics=topics
        )
        response = await (client or self.client).request(ApiKey.FETCH, FETCH_VERSION, request)
        found: PartitionData = response.responses[0].partitions[0]
        return found

    async def offsets_from(self, offset: int) -> list[int]:
        """Returns the base offsets of all batches up to the end."""
        found: list[int] = []
        while offset < RECORDS:
            data = await self.fetch(offset)
            assert data.error_code == ErrorCode.NONE
            assert data.log_start_offset == self.replica.earliest
            found += bases(data)
            offset = found[-1] + 1
        return found

    async def committed_from(self, offset: int) -> list[int]:
        """Returns the offsets that a reader of committed transactions sees, by the rules of Kafka's clients."""
        found: list[int] = []
        while bases(data := await self.fetch(offset, isolation=READ_COMMITTED)):
            assert data.aborted_transactions is not None
            waiting = [(each.first_offset, each.producer_id) for each in data.aborted_transactions]
            assert waiting == sorted(waiting)
            aborted: set[int] = set()
            for position, header in iterate(bytes(data.records or b"")):
                while waiting and waiting[0][0] <= header.last_offset:
                    aborted.add(waiting.pop(0)[1])
                marker = marker_of(header, bytes(data.records or b""), position)
                if marker is not None:
                    aborted.discard(header.producer_id)
                elif not (header.is_transactional and header.producer_id in aborted):
                    found.append(header.base_offset)
                offset = header.next_offset
        return found

    async def listed(self, timestamp: int) -> tuple[int, int, int]:
        """Returns the error code, the offset and its timestamp."""
        topic = ListOffsetsTopic("t", [ListOffsetsPartition(0, timestamp=timestamp)])
        response = await self.client.request(ApiKey.LIST_OFFSETS, 11, ListOffsetsRequest(-1, topics=[topic]))
        (answer,) = response.topics[0].partitions
        return answer.error_code, answer.offset, answer.timestamp

    async def delete_before(self, offset: int) -> tuple[int, int]:
        """Returns the error code and the low watermark."""
        topic = DeleteRecordsTopic("t", [DeleteRecordsPartition(0, offset)])
        request = DeleteRecordsRequest([topic], timeout_ms=20_000)
        response = await self.client.request(ApiKey.DELETE_RECORDS, newest(ApiKey.DELETE_RECORDS), request)
        (answer,) = response.topics[0].partitions
        return answer.error_code, answer.low_watermark


def bases(data: PartitionData) -> list[int]:
    """Returns the offsets of the fetched batches."""
    assert data.records is not None
    return [header.base_offset for _, header in iterate(bytes(data.records))]


@asynccontextmanager
async def shelved() -> AsyncIterator[Shelved]:
    async with cluster_of(1, 2, 3, 4, 5) as cluster:
        assert await cluster.create(1, "t", 1, 2, **CONFIGS) == ErrorCode.NONE
        ((leader, _),) = (await cluster.leaders(1, "t")).values()
        partition = Shelved(cluster, leader, await cluster.client_of(leader))
        for number in range(RECORDS):
            await partition.produce(number)
        await partition.look_at_shelves()
        assert partition.replica.log.log_start == RECORDS - 1
        assert len(partition.replica.spec.shelves) == 3
        yield partition


async def test_a_consumer_reads_through_shelves_into_the_log(autojump_clock: object) -> None:
    async with shelved() as partition:
        assert await partition.offsets_from(0) == list(range(RECORDS))
        assert await partition.offsets_from(17) == list(range(17, RECORDS))


async def test_a_leader_reads_only_committed_records_from_shelves(autojump_clock: object) -> None:
    """A new leader may not know yet that everything on the shelves is committed (found by seed 81001301)."""
    async with shelved() as partition:
        partition.replica.high_watermark = 5
        for offset, found in (4, [4]), (5, []):
            data = await partition.fetch(offset)
            assert (data.error_code, data.high_watermark, bases(data)) == (ErrorCode.NONE, 5, found)


async def test_times_are_found_on_shelves_and_in_the_log(autojump_clock: object) -> None:
    async with shelved() as partition:
        for number in (0, 15, 16, 38, 39):
            time_ms = BEGINNING_MS + 1000 * number
            assert await partition.listed(time_ms - 500) == (ErrorCode.NONE, number, time_ms)
        assert await partition.listed(BEGINNING_MS + 1000 * RECORDS) == (ErrorCode.NONE, -1, -1)
        earliest, latest, newest_ms, earliest_local, latest_tiered, pending = -2, -1, -3, -4, -5, -6
        assert (await partition.listed(earliest))[:2] == (ErrorCode.NONE, 0)
        assert (await partition.listed(latest))[:2] == (ErrorCode.NONE, RECORDS)
        assert (await partition.listed(newest_ms))[:2] == (ErrorCode.NONE, RECORDS - 1)
        assert (await partition.listed(earliest_local))[:2] == (ErrorCode.NONE, RECORDS - 1)
        assert (await partition.listed(latest_tiered))[:2] == (ErrorCode.NONE, RECORDS - 2)
        assert (await partition.listed(pending))[:2] == (ErrorCode.NONE, RECORDS - 1)


async def test_the_newest_record_may_be_on_a_shelf(autojump_clock: object) -> None:
    async with shelved() as partition:
        await partition.produce(-100)  # an old one is appended last
        await partition.look_at_shelves()
        assert partition.replica.log.log_start == RECORDS
        assert await partition.listed(-3) == (ErrorCode.NONE, RECORDS - 1, BEGINNING_MS + 1000 * (RECORDS - 1))


async def test_an_offline_store_is_skipped_and_without_stores_reads_fail(autojump_clock: object) -> None:
    async with shelved() as partition:
        stores = sorted({spu for shelf in partition.replica.spec.shelves for spu in shelf.stores})
        await partition.cluster.kill_spu(stores[0])
        assert await partition.offsets_from(0) == list(range(RECORDS))
        for store in stores[1:]:
            await partition.cluster.kill_spu(store)
        assert (await partition.fetch(0)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert (await partition.listed(BEGINNING_MS))[0] == ErrorCode.KAFKA_STORAGE_ERROR
        assert await partition.offsets_from(RECORDS - 1) == [RECORDS - 1]
        for store in stores:
            await partition.cluster.start_spu(store)
        assert await partition.offsets_from(0) == list(range(RECORDS))


async def test_a_follower_does_not_read_through(autojump_clock: object) -> None:
    async with shelved() as partition:
        (follower,) = set(partition.replica.spec.replicas) - {partition.leader}
        client = await partition.cluster.client_of(follower)
        assert (await partition.fetch(0, client=client)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_records_on_a_shelf_are_deleted_when_the_response_says_so(autojump_clock: object) -> None:
    async with shelved() as partition:
        assert await partition.delete_before(20) == (ErrorCode.NONE, 20)
        assert (await partition.listed(-2))[:2] == (ErrorCode.NONE, 20)
        assert (await partition.fetch(19)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert await partition.offsets_from(20) == list(range(20, RECORDS))
        assert await partition.listed(BEGINNING_MS) == (ErrorCode.NONE, 20, BEGINNING_MS + 20_000)
        assert await partition.delete_before(RECORDS) == (ErrorCode.NONE, RECORDS)
        await partition.look_at_shelves()
        assert (await partition.listed(-2))[:2] == (ErrorCode.NONE, RECORDS)
        assert shelved_end(partition.replica.spec) in (0, RECORDS)


async def test_the_next_leader_reads_the_same_shelves(autojump_clock: object) -> None:
    async with shelved() as partition:
        (follower,) = set(partition.replica.spec.replicas) - {partition.leader}
        await partition.cluster.kill_spu(partition.leader)
        await trio.sleep(20)
        partition.leader, partition.client = follower, await partition.cluster.client_of(follower)
        found = await partition.offsets_from(0)
        assert found[: RECORDS - 1] == list(range(RECORDS - 1))


async def test_a_leader_that_is_also_a_store_reads_its_own_copy(autojump_clock: object) -> None:
    async with shelved() as partition:
        first, second = partition.replica.spec.shelves[-1].stores
        wanted = ReassignablePartition(0, [first, second])
        request = AlterPartitionReassignmentsRequest(5000, True, [ReassignableTopic("t", [wanted])])
        api = ApiKey.ALTER_PARTITION_REASSIGNMENTS
        response = await partition.client.request(api, newest(api), request)
        assert response.responses[0].partitions[0].error_code == ErrorCode.NONE
        await trio.sleep(30)
        partition.leader, partition.client = first, await partition.cluster.client_of(first)
        assert partition.replica.is_leader
        assert await partition.offsets_from(0) == list(range(RECORDS))
        last = partition.replica.spec.shelves[-1]
        await partition.cluster.kill_spu(second)
        found = await partition.fetch(last.base)
        assert bases(found)[0] == last.base, "from the only store that is left"


async def test_a_batch_larger_than_the_limit_is_returned(autojump_clock: object) -> None:
    async with shelved() as partition:
        assert bases(await partition.fetch(3, bytes_max=1)) == [3]


async def test_room_for_records_on_shelves_is_reserved_in_the_response(autojump_clock: object) -> None:
    async with shelved() as partition:
        assert await partition.cluster.create(1, "u", 5, 1) == ErrorCode.NONE
        leaders = await partition.cluster.leaders(1, "u")
        (other,) = (number for number, (leader, _) in leaders.items() if leader == partition.leader)
        for _ in range(4):
            assert await partition.cluster.produce(partition.leader, "u", other, b"x") == ErrorCode.NONE
        wanted = (("t", 0), ("u", other))
        topics = [FetchTopic(topic, partitions=[FetchPartition(number)]) for topic, number in wanted]
        for each in topics:
            each.partitions[0].partition_max_bytes = 300
        request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=300, topics=topics)
        response = await partition.client.request(ApiKey.FETCH, FETCH_VERSION, request)
        shelf, log = (topic.partitions[0] for topic in response.responses)
        assert bases(shelf) == [0]
        assert bases(log) == [0], "one that does not fit, as long as nobody knows what comes from a shelf"


async def test_a_committed_reader_skips_aborted_records_on_shelves_and_in_the_log(autojump_clock: object) -> None:
    async with cluster_of(1, 2, 3, 4, 5) as cluster:
        assert await cluster.create(1, "t", 1, 2, **CONFIGS) == ErrorCode.NONE
        ((leader, _),) = (await cluster.leaders(1, "t")).values()
        partition = Shelved(cluster, leader, await cluster.client_of(leader))
        aborted, markers = [], []
        for number in range(RECORDS):
            replica = partition.replica
            if number % 5 == 0:
                aborted.append(write_data(replica, 7, b"aborted"))
                write_data(replica, 8, b"committed")
            if number in (20, RECORDS - 1):  # behind the first shelf, and in the log
                markers.append(write_marker(replica, 7))
                markers.append(write_marker(replica, 8, is_commit=True))
            await partition.produce(number)
            if number == 10:
                await partition.look_at_shelves()
                assert partition.replica.spec.shelves == (), "a shelf has no transaction that is open"
        write_data(partition.replica, 9, b"open")
        await partition.produce(RECORDS)
        for _ in range(3):
            await partition.look_at_shelves()
        log = partition.replica.log
        assert len(partition.replica.spec.shelves) > 2
        assert markers[0] < log.log_start
        expected = [offset for offset in range(log.log_end - 2) if offset not in (*aborted, *markers)]
        assert await partition.committed_from(0) == expected
        for start in (1, 17, markers[0], log.log_start):
            assert await partition.committed_from(start) == [offset for offset in expected if offset >= start]
