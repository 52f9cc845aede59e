"""ListOffsets on a whole SPU: special times, real times, and errors."""

import pytest
import trio
from msgspec.structs import replace
from simulation.client import WireClient
from spus import RunningSpu, batch, beyond_time, led_elsewhere, running_spu
from structlog.testing import capture_logs
from transacting import write_data, write_marker

from tailrace.broker.handlers.records.fetch import READ_COMMITTED
from tailrace.broker.handlers.records.list_offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
)
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.batches.records import Record
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import DEBUGGING_REPLICA, Epoch
from tailrace.protocol.messages.api_versions import ApiVersionsRequest
from tailrace.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

NEWEST = 11
FIRST_TIME = 1_700_000_000_000


async def ask(
    running: RunningSpu, *partitions: ListOffsetsPartition, version: int = NEWEST, replica: int = -1, isolation: int = 0
) -> list[ListOffsetsPartitionResponse]:
    client = await running.client()
    topics = [ListOffsetsTopic(name="t", partitions=list(partitions))]
    request = ListOffsetsRequest(replica_id=replica, isolation_level=isolation, topics=topics)
    response = await client.request(ApiKey.LIST_OFFSETS, version, request)
    found: list[ListOffsetsPartitionResponse] = response.topics[0].partitions
    return found


async def fill(running: RunningSpu) -> None:
    """Appends the offsets 0 to 4, with 0, 1 and 2 in one batch. The third record is the newest."""
    await running.create("t")
    await produce(
        running,
        batch(b"a", b"b", b"c", timestamp=FIRST_TIME + 1000),
        batch(b"d", timestamp=FIRST_TIME),
        batch(b"e", timestamp=FIRST_TIME + 500),
    )


async def produce(running: RunningSpu, *batches: bytes) -> None:
    client = await running.client()
    for records in batches:
        data = [TopicProduceData(name="t", partition_data=[PartitionProduceData(0, records)])]
        await client.request(ApiKey.PRODUCE, 9, ProduceRequest(acks=1, timeout_ms=1000, topic_data=data))


@pytest.mark.parametrize(
    ("time", "timestamp", "offset"),
    [
        (LATEST, -1, 5),
        (EARLIEST, -1, 0),
        (EARLIEST_LOCAL, -1, 0),
        (EARLIEST_PENDING_UPLOAD, -1, -1),
        (LATEST_TIERED, -1, -1),
        (MAX_TIMESTAMP, FIRST_TIME + 1002, 2),
        (0, FIRST_TIME + 1000, 0),
        (FIRST_TIME + 1001, FIRST_TIME + 1001, 1),
        (FIRST_TIME + 1002, FIRST_TIME + 1002, 2),
        (FIRST_TIME + 1003, -1, -1),
    ],
)
async def test_each_time_has_its_offset(autojump_clock: object, time: int, timestamp: int, offset: int) -> None:
    async with running_spu() as running:
        await fill(running)
        (found,) = await ask(running, ListOffsetsPartition(partition_index=0, timestamp=time))
        assert (found.error_code, found.timestamp, found.offset) == (0, timestamp, offset)
        assert found.leader_epoch == (0 if offset >= 0 else -1)


@pytest.mark.parametrize(
    ("partition", "error"),
    [
        (ListOffsetsPartition(partition_index=9, timestamp=LATEST), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ListOffsetsPartition(partition_index=-1, timestamp=LATEST), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ListOffsetsPartition(partition_index=0, timestamp=-7), ErrorCode.UNSUPPORTED_VERSION),
        (
            ListOffsetsPartition(partition_index=0, timestamp=LATEST, current_leader_epoch=7),
            ErrorCode.UNKNOWN_LEADER_EPOCH,
        ),
    ],
    ids=["no such partition", "negative partition", "unknown special time", "future epoch"],
)
async def test_refused_resources_say_why(
    autojump_clock: object, partition: ListOffsetsPartition, error: ErrorCode
) -> None:
    async with running_spu() as running:
        await fill(running)
        (found,) = await ask(running, partition)
        assert found.error_code == error


@pytest.mark.parametrize("time", [LATEST, MAX_TIMESTAMP, FIRST_TIME + 1003])
async def test_records_of_the_earlier_leader_must_be_committed_first(autojump_clock: object, time: int) -> None:
    async with running_spu() as running:
        await fill(running)
        running.spu.replicas.leading("t", 0).is_recovering = True
        partition = ListOffsetsPartition(partition_index=0, timestamp=time)
        assert (await ask(running, partition))[0].error_code == ErrorCode.OFFSET_NOT_AVAILABLE
        if time != MAX_TIMESTAMP:
            assert (await ask(running, partition, version=4))[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE


@pytest.mark.parametrize(("time", "offset"), [(EARLIEST, 0), (FIRST_TIME + 1001, 1)])
async def test_offsets_that_do_not_depend_on_recovery_are_returned(
    autojump_clock: object, time: int, offset: int
) -> None:
    async with running_spu() as running:
        await fill(running)
        running.spu.replicas.leading("t", 0).is_recovering = True
        (found,) = await ask(running, ListOffsetsPartition(partition_index=0, timestamp=time))
        assert (found.error_code, found.offset) == (0, offset)


@pytest.mark.parametrize("time", [LATEST, EARLIEST])
async def test_a_follower_responds_only_to_debugging_clients(autojump_clock: object, time: int) -> None:
    async with running_spu() as running:
        await fill(running)
        led_elsewhere(running.spu.replicas.leading("t", 0))
        partition = ListOffsetsPartition(partition_index=0, timestamp=time)
        assert (await ask(running, partition))[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        (found,) = await ask(running, partition, replica=DEBUGGING_REPLICA)
        assert (found.error_code, found.offset) == (0, 5 if time == LATEST else 0)


async def test_the_latest_offset_for_debugging_clients_is_the_log_end(autojump_clock: object) -> None:
    async with running_spu() as running:
        await fill(running)
        replica = running.spu.replicas.leading("t", 0)
        replica.high_watermark, replica.is_recovering = 3, True
        partition = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
        assert (await ask(running, partition))[0].error_code == ErrorCode.OFFSET_NOT_AVAILABLE
        (found,) = await ask(running, partition, replica=DEBUGGING_REPLICA)
        assert (found.error_code, found.offset) == (0, 5)


async def test_an_earlier_version_does_not_know_a_special_time_of_a_later_one(autojump_clock: object) -> None:
    async with running_spu() as running:
        await fill(running)
        (found,) = await ask(running, ListOffsetsPartition(partition_index=0, timestamp=MAX_TIMESTAMP), version=6)
        assert found.error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(("time", "version"), [(MAX_TIMESTAMP, 6), (LATEST_TIERED, 8), (-7, NEWEST)])
@pytest.mark.parametrize("led_by", [1, 2])
async def test_an_unknown_time_is_refused_whether_the_spu_leads_or_not(
    autojump_clock: object, time: int, version: int, led_by: int
) -> None:
    async with running_spu() as running:
        await fill(running)
        led_elsewhere(running.spu.replicas.leading("t", 0), led_by)
        partitions = [ListOffsetsPartition(number, timestamp=time) for number in (0, 9)]
        answers = await ask(running, *partitions, version=version)
        assert [each.error_code for each in answers] == [ErrorCode.UNSUPPORTED_VERSION] * 2


@pytest.mark.parametrize("time", [EARLIEST, EARLIEST_LOCAL, LATEST])
async def test_the_epoch_of_an_empty_log_is_the_leaders(autojump_clock: object, time: int) -> None:
    async with running_spu() as running:
        await running.create("t")
        replica = running.spu.replicas.leading("t", 0)
        replica.use_spec(replace(replica.spec, epoch=Epoch(7)))
        (found,) = await ask(running, ListOffsetsPartition(0, timestamp=time))
        assert (found.error_code, found.offset, found.leader_epoch) == (0, 0, 7)


async def test_a_partition_that_is_named_twice_is_refused(autojump_clock: object) -> None:
    async with running_spu() as running:
        await fill(running)
        twice = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
        assert [each.error_code for each in await ask(running, twice, twice)] == [ErrorCode.INVALID_REQUEST] * 2


@pytest.mark.parametrize("time", [FIRST_TIME, MAX_TIMESTAMP])
async def test_a_disk_that_cannot_be_read_takes_the_replica_offline(autojump_clock: object, time: int) -> None:
    async with running_spu() as running:
        await fill(running)
        with capture_logs() as logs:
            running.world.files.reads_fail = True
            (found,) = await ask(running, ListOffsetsPartition(partition_index=0, timestamp=time))
            running.world.files.reads_fail = False
        assert found.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        (told,) = [each for each in logs if each["event"] == "replica_went_offline"]
        assert (told["topic"], told["partition"], told["reason"].split(":")[0]) == ("t", 0, "read failed")
        (found,) = await ask(running, ListOffsetsPartition(partition_index=0, timestamp=LATEST))
        assert found.error_code == ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_time_beyond_64_bits_is_skipped(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t")
        beyond = Record(1, FIRST_TIME + 2**63, None, b"b")
        await produce(running, beyond_time(FIRST_TIME + 1, Record(0, FIRST_TIME, None, b"a"), beyond))
        await produce(running, batch(b"c", timestamp=FIRST_TIME + 2))
        (answer,) = await ask(running, ListOffsetsPartition(0, timestamp=FIRST_TIME + 1))
        assert (answer.error_code, answer.timestamp, answer.offset) == (0, FIRST_TIME + 2, 2)


@pytest.mark.parametrize("time", [0, MAX_TIMESTAMP])
async def test_other_tasks_run_while_a_time_is_searched_in_many_partitions(autojump_clock: object, time: int) -> None:
    async with running_spu() as running:
        await running.create("t", 30)
        first, other = await running.client(), await running.client()
        many = [ListOffsetsPartition(partition_index=each, timestamp=time) for each in range(30)]
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=many)])
        answered: list[object] = []

        async def wait_for(client: WireClient) -> None:
            await client.response()
            answered.append(client)

        await first.send(first.encode(ApiKey.LIST_OFFSETS, NEWEST, request))
        await other.send(other.encode(ApiKey.API_VERSIONS, 0, ApiVersionsRequest()))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait_for, first)
            nursery.start_soon(wait_for, other)
        assert answered == [other, first]


@pytest.mark.parametrize(
    ("time", "uncommitted", "committed"),
    [(LATEST, 3, 1), (EARLIEST, 0, 0), (FIRST_TIME, 0, 0), (FIRST_TIME + 1, 1, -1), (MAX_TIMESTAMP, 2, 0)],
)
async def test_a_committed_reader_finds_nothing_beyond_the_last_stable_offset(
    autojump_clock: object, time: int, uncommitted: int, committed: int
) -> None:
    async with running_spu() as running:
        replica = running.replica((await running.create("t")).name)
        write_data(replica, -1, b"a", timestamp=FIRST_TIME)
        write_data(replica, 7, b"b", timestamp=FIRST_TIME + 1)
        write_data(replica, -1, b"c", timestamp=FIRST_TIME + 2)
        asked = ListOffsetsPartition(timestamp=time)
        assert [each.offset for each in await ask(running, asked)] == [uncommitted]
        assert [each.offset for each in await ask(running, asked, isolation=READ_COMMITTED)] == [committed]
        marker = write_marker(replica, 7)
        (latest,) = await ask(running, ListOffsetsPartition(timestamp=LATEST), isolation=READ_COMMITTED)
        assert latest.offset == marker + 1
