"""The way of one produced batch to two replicas, station by station."""

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


async def test_nothing_is_said_where_nobody_watches(autojump_clock: object) -> None:
    with capture_logs() as logs:
        async with cluster_of(1, 2) as cluster:
            await cluster.create(1, "orders", 1, 2)
            await trio.sleep(5)
            assert not {log["event"] for log in logs} & set(STATIONS)
