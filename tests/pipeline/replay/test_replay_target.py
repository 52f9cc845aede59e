import pytest
from grouped_spu import grouped_spu
from spus import ADDRESS

from tailrace.client.server_connection import RefusedError
from tailrace.client.spu_client import BOOTSTRAP, SpuClient
from tailrace.pipeline.replay.replay_line import ReplayError
from tailrace.pipeline.replay.replay_target import Target, TargetClient, check_retention, check_target


async def test_a_topic_is_described_with_its_ends(autojump_clock: object) -> None:
    async with grouped_spu() as spu:
        await spu.running.create("copy", 2)
        await spu.produce("copy", 1, 5)
        client = TargetClient(SpuClient(spu.network, [ADDRESS], BOOTSTRAP))
        target = await client.target("copy")
        assert (target.topic, target.partitions) == ("copy", 2)
        assert target.topic_id != "00000000-0000-0000-0000-000000000000"
        assert target.configs["message.timestamp.type"] == "CreateTime"
        assert target.retention_ms == 7 * 86_400_000
        assert await client.log_ends("copy", [0, 1]) == {0: 0, 1: 5}
        assert (await client.producer_name()).id >= 0
        with pytest.raises(RefusedError, match="there is no topic 'missing'"):
            await client.target("missing")


def test_a_target_needs_enough_partitions_and_keeps_times() -> None:
    check_target(Target("copy", "id", 2, {}), "orders", [0, 1])
    with pytest.raises(ReplayError, match="copy has 2 partitions, and orders/5 needs 6: add some with"):
        check_target(Target("copy", "id", 2, {}), "orders", [0, 5])
    with pytest.raises(ReplayError, match="copy replaces the times of records"):
        check_target(Target("copy", "id", 2, {"message.timestamp.type": "LogAppendTime"}), "orders", [0])


def test_records_that_would_be_deleted_at_once_are_refused() -> None:
    target = Target("copy", "id", 2, {"cleanup.policy": "delete", "retention.ms": str(2 * 86_400_000)})
    check_retention(target, 1_000_000_000, 1_000_000_000 + 86_400_000)
    with pytest.raises(ReplayError, match="copy deletes records that are older than 2 days, and the first record is"):
        check_retention(target, 1_000_000_000, 1_000_000_000 + 3 * 86_400_000)
    for configs in ({"cleanup.policy": "compact", "retention.ms": "1"}, {"retention.ms": "-1"}):
        check_retention(Target("copy", "id", 2, configs), 0, 10**12)
