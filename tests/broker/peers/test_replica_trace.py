"""The way of one produced batch to two replicas, step by step."""

import trio
from clusters import cluster_of
from structlog.testing import capture_logs

STATIONS = (
    "leader_controller_told",
    "follower_controller_told",
    "replica_info_dispatched",
    "replica_info_multicast",
)


async def test_a_produced_batch_passes_all_stations_in_their_order(autojump_clock: object) -> None:
    with capture_logs() as logs:
        async with cluster_of(1, 2, traces=True) as cluster:
            await cluster.create(1, "orders", 1, 2)
            ((leader, _),) = (await cluster.leaders(1, "orders")).values()
            follower = 3 - leader
            await trio.sleep(5)
            before = {log["event"] for log in logs}
            logs.clear()
            assert await cluster.produce(leader, "orders", 0, b"a") == 0
            passed = [(log["spu"], log["event"], log["what"]) for log in logs if log["event"] in STATIONS]
    assert {"specs_dispatched", "live_replicas_updated"} <= before
    assert passed[:7] == [
        (leader, "leader_controller_told", "appended"),
        (leader, "replica_info_multicast", "Append"),
        (follower, "replica_info_dispatched", "Append"),
        (follower, "follower_controller_told", "Append"),
        (follower, "replica_info_multicast", "AppendReply"),
        (leader, "replica_info_dispatched", "AppendReply"),
        (leader, "leader_controller_told", "AppendReply"),
    ]


async def test_specs_of_partitions_go_to_both_kinds_of_controllers_and_news_of_spus_to_leaders(
    autojump_clock: object,
) -> None:
    with capture_logs() as logs:
        async with cluster_of(1, 2, 3, traces=True) as cluster:
            await cluster.create(1, "orders", 1, 3)
            await trio.sleep(5)
            ((leader, _),) = (await cluster.leaders(1, "orders")).values()
            followers = {1, 2, 3} - {leader}
            specs = {(log["spu"], log["event"]) for log in logs if log.get("what") == "PartitionSpec"}
            away = min(followers)
            logs.clear()
            await cluster.kill_spu(away)
            await trio.sleep(5)
            await cluster.start_spu(away)
            await trio.sleep(5)
            told = [(log["spu"], log["event"], log["what"]) for log in logs if "Spu" in log.get("what", "")]
    assert specs == {(leader, "leader_controller_told"), *((spu, "follower_controller_told") for spu in followers)}
    assert told == [(leader, "leader_controller_told", what) for what in ("SpuOffline", "SpuOnline")]


async def test_nothing_is_traced_unless_requested(autojump_clock: object) -> None:
    with capture_logs() as logs:
        async with cluster_of(1, 2) as cluster:
            await cluster.create(1, "orders", 1, 2)
            await trio.sleep(5)
            assert not {log["event"] for log in logs} & set(STATIONS)
