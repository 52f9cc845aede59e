"""Clusters that lose the leader of a partition: acknowledged records stay, and another replica leads."""

import pytest
import trio
from clusters import ClusterOfSpus, cluster_of

from tailrace.broker.upkeep.high_watermark_checkpoint import CHECKPOINT_SECONDS
from tailrace.protocol.batches.record_batch import iterate
from tailrace.protocol.batches.records import read_records
from tailrace.protocol.error_codes import ErrorCode


async def produced(cluster: ClusterOfSpus, by: int, value: bytes) -> int:
    """Produces with retries, as a client does; returns the leader."""
    for _ in range(300):
        leader, _ = (await cluster.leaders(by, "t"))[0]
        if leader in cluster.spus and await cluster.produce(leader, "t", 0, value) == ErrorCode.NONE:
            return leader
        await trio.sleep(0.1)
    raise AssertionError("nobody leads")


async def elected(cluster: ClusterOfSpus) -> int:
    for _ in range(300):
        leader, _ = (await cluster.leaders(min(cluster.spus), "t"))[0]
        if leader in cluster.spus:
            return leader
        await trio.sleep(0.1)
    raise AssertionError("nobody leads")


async def values(cluster: ClusterOfSpus, leader: int) -> list[bytes]:
    """Returns the values of all records, as a consumer reads them, without control batches."""
    found: list[bytes] = []
    offset = 0
    while (answer := await cluster.fetched(leader, "t", 0, offset)).records:
        data = bytes(answer.records)
        for position, header in iterate(data):
            offset = header.next_offset
            if not header.is_control:
                batch = data[position : position + header.size]
                found += [record.value or b"" for record in read_records(batch)]
    return found


async def test_the_successor_of_a_killed_leader_has_all_records(autojump_clock: trio.testing.MockClock) -> None:
    async with cluster_of(1, 2, 3) as cluster:
        assert await cluster.create(1, "t", 1, 3) == ErrorCode.NONE
        first = await produced(cluster, 1, b"a")
        await cluster.kill_spu(first)
        left = min(cluster.spus)
        second = await produced(cluster, left, b"b")
        assert second != first
        assert await values(cluster, second) == [b"a", b"b"]
        await cluster.start_spu(first)
        await trio.sleep(5)
        await cluster.kill_spu(second)
        third = await produced(cluster, min(cluster.spus), b"c")
        assert await values(cluster, third) == [b"a", b"b", b"c"]


async def test_after_an_unclean_election_all_replicas_match_the_new_leader(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with cluster_of(1, 2) as cluster:
        await cluster.create(1, "t", 1, 2, unclean_leader_election_enable="true")
        first = await produced(cluster, 1, b"a")
        other = 3 - first
        await cluster.kill_spu(other)
        for number in range(5):
            await produced(cluster, first, b"lost %d" % number)
        await cluster.kill_spu(first)
        await cluster.start_spu(other)
        await produced(cluster, other, b"b")
        kept = await values(cluster, other)
        assert (kept[0], kept[-1]) == (b"a", b"b")
        assert not any(value.startswith(b"lost") for value in kept)
        await cluster.start_spu(first)
        await trio.sleep(15)
        await cluster.kill_spu(other)
        await produced(cluster, first, b"c")
        assert await values(cluster, first) == [*kept, b"c"]


async def test_a_replica_with_more_than_the_live_replicas_takes_the_new_leaders_log(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with cluster_of(1, 2, 3) as cluster:
        await cluster.create(1, "t", 1, 3, flush_ms=str(2**63 - 1), min_insync_replicas="2")
        for number in range(5):
            first = await produced(cluster, 1, b"lost %d" % number)
        away, other = {1, 2, 3} - {first}
        await trio.sleep(6)
        await cluster.stop_spu(away)  # it knows that all five are committed
        await trio.sleep(10)
        for spu in (first, other):
            files = cluster.files[spu]
            await cluster.kill_spu(spu)
            cluster.files[spu] = files.crash("synced")
        for spu in (first, other, away):
            await cluster.start_spu(spu)
        await produced(cluster, away, b"kept")
        await trio.sleep(30)
        second = await produced(cluster, away, b"kept, too")
        await cluster.kill_spu(second)
        await produced(cluster, min(cluster.spus), b"last")
        await cluster.start_spu(second)
        await trio.sleep(30)
        leader, _ = (await cluster.leaders(1, "t"))[0]
        assert await values(cluster, leader) == [b"kept", b"kept, too", b"last"]
        logs = [spu.spu.replicas.find("t", 0).log for spu in cluster.spus.values()]
        assert len({(log.log_end, tuple(header.crc for header, _ in log.headers(0, log.log_end))) for log in logs}) == 1


@pytest.mark.parametrize("on_the_disk", [0, 2])
async def test_a_saved_high_watermark_of_a_lost_end_does_not_apply_to_its_replacement(
    autojump_clock: trio.testing.MockClock, on_the_disk: int
) -> None:
    """Even if it stops soon again, nothing is committed that the other live replica never had."""
    async with cluster_of(1, 2) as cluster:
        await cluster.create(1, "t", 1, 2, flush_ms=str(2**63 - 1), min_insync_replicas="2")
        for number in range(5):
            first = await produced(cluster, 1, b"%d" % number)
            if number == on_the_disk - 1:
                for spu in cluster.spus.values():
                    await spu.spu.replicas.find("t", 0).log.sync()
        kept = (await values(cluster, first))[:on_the_disk]
        await trio.sleep(CHECKPOINT_SECONDS + 1)
        for spu in (1, 2):
            files = cluster.files[spu]
            await cluster.kill_spu(spu)
            cluster.files[spu] = files.crash("synced")
        for spu in (1, 2):
            await cluster.start_spu(spu)
        leader = await elected(cluster)
        assert await values(cluster, leader) == kept
        await cluster.kill_spu(3 - leader)
        for number in range(5):
            assert await cluster.produce(leader, "t", 0, b"alone %d" % number, acks=1) == ErrorCode.NONE
        await cluster.kill_spu(leader)
        await cluster.start_spu(leader)
        await trio.sleep(10)
        assert await values(cluster, leader) == kept


async def test_there_is_no_leader_if_the_only_copy_is_on_a_failed_disk(autojump_clock: trio.testing.MockClock) -> None:
    async with cluster_of(1, 2) as cluster:
        await cluster.create(1, "t", 1, 1, flush_messages="1")
        first = await produced(cluster, 1, b"a")
        files = cluster.files[first]
        files.syncs_fail = True
        assert await cluster.produce(first, "t", 0, b"b") == ErrorCode.KAFKA_STORAGE_ERROR
        files.syncs_fail = False
        await trio.sleep(1)
        (topic,) = (await cluster.metadata(3 - first, "t")).topics
        assert (topic.partitions[0].leader_id, topic.partitions[0].error_code) == (-1, ErrorCode.LEADER_NOT_AVAILABLE)
        await cluster.kill_spu(first)
        await cluster.start_spu(first)
        assert await produced(cluster, first, b"c") == first
        kept = await values(cluster, first)
        assert (kept[0], kept[-1]) == (b"a", b"c")


@pytest.mark.parametrize("consistency", ["committed", "uncommitted"])
async def test_only_uncommitted_reads_see_records_that_may_be_lost(
    autojump_clock: trio.testing.MockClock, consistency: str
) -> None:
    async with cluster_of(1, 2, 3) as cluster:
        await cluster.create(1, "t", 1, 3, min_insync_replicas="2", consumer_consistency=consistency)
        leader = await produced(cluster, 1, b"a")
        others = {1, 2, 3} - {leader}
        await trio.sleep(1)
        for other in others:
            await cluster.kill_spu(other)
        assert await cluster.produce(leader, "t", 0, b"lost", acks=1) == ErrorCode.NONE
        seen = await values(cluster, leader)
        assert seen == ([b"a", b"lost"] if consistency == "uncommitted" else [b"a"])
        await cluster.kill_spu(leader)
        for other in others:
            await cluster.start_spu(other)
        after = await produced(cluster, min(others), b"b")
        assert await values(cluster, after) == [b"a", b"b"]


async def test_a_log_that_does_not_open_because_of_flipped_bits_is_repaired(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with cluster_of(1, 2, 3) as cluster:
        await cluster.create(1, "t", 1, 3, min_insync_replicas="2", internal_segment_bytes="300")
        first = await produced(cluster, 1, b"0")
        damaged, other = {1, 2, 3} - {first}
        for number in range(1, 20):
            await produced(cluster, first, b"%d" % number)
        files = cluster.files[damaged]
        await cluster.kill_spu(damaged)  # before it has written down that anything is committed
        directory = (
            cluster.spus[first].spu.replicas.find("t", 0).log.directory.replace(f"spu-{first}", f"spu-{damaged}")
        )
        sealed = sorted(name for name in files.list(directory) if name.endswith(".log"))[1]
        files.open(f"{directory}/{sealed}").write_at(8, b"\x80")  # no batch has such a length
        await cluster.start_spu(damaged)
        await trio.sleep(10)
        assert cluster.spus[damaged].spu.replicas.damaged == {}
        await cluster.kill_spu(other)
        await trio.sleep(10)
        await produced(cluster, first, b"20")
        await cluster.kill_spu(first)
        await cluster.start_spu(other)
        assert await produced(cluster, other, b"21") == damaged
        assert await values(cluster, damaged) == [b"%d" % number for number in range(22)]


async def test_a_replica_that_lost_acknowledged_records_to_flipped_bits_does_not_lead_alone(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with cluster_of(1, 2, 3) as cluster:
        await cluster.create(1, "t", 1, 3)
        first = await produced(cluster, 1, b"0")
        damaged, other = {1, 2, 3} - {first}
        for number in range(1, 5):
            await produced(cluster, first, b"%d" % number)
        directory = cluster.spus[first].spu.replicas.find("t", 0).log.directory
        for spu in (damaged, first, other):
            await cluster.kill_spu(spu)
        files, path = cluster.files[damaged], directory.replace(f"spu-{first}", f"spu-{damaged}")
        (name,) = (name for name in files.list(path) if name.endswith(".log"))
        file = files.open(f"{path}/{name}")
        file.write_at(file.size() // 2, bytes([file.read_at(file.size() // 2, 1)[0] ^ 1]))
        await cluster.start_spu(damaged)
        await trio.sleep(30)
        assert (await cluster.leaders(damaged, "t"))[0][0] == -1
        await cluster.start_spu(other)
        await trio.sleep(30)
        assert await values(cluster, await produced(cluster, other, b"5")) == [b"%d" % number for number in range(6)]
        await cluster.kill_spu(other)
        assert await values(cluster, await produced(cluster, damaged, b"6")) == [b"%d" % number for number in range(7)]
