"""Tests the membership of a replica without a Streaming Controller."""

from collections.abc import Collection, Mapping

import structlog
import trio
from structlog.testing import capture_logs
from trio.testing import wait_all_tasks_blocked

from tailrace.client.server_connection import UnreachableError
from tailrace.cluster.stream_state.rebalance_causes import Rebalance
from tailrace.trigger.membership.member_lease import MemberLease
from tailrace.trigger.replica.lone_membership import LOOK_SECONDS, LoneMembership


class _Topic:
    """A topic whose shards can be counted, and the replica that owns them."""

    def __init__(self, shards: int | None) -> None:
        self.shards = shards
        self.told: list[object] = []
        self.membership = LoneMembership(self.count, self, structlog.get_logger())

    async def count(self) -> int:
        await trio.lowlevel.checkpoint()
        if self.shards is None:
            raise UnreachableError("no broker")
        return self.shards

    def on_lease(self, lease: MemberLease) -> None:
        assert lease.handle_until == float("inf")

    def on_gained(self, shards: Mapping[int, int]) -> None:
        self.told.append(dict(shards))

    def on_release(self, shards: Collection[int]) -> None:
        self.told.append(("release", sorted(shards)))

    def on_lost(self, shards: Collection[int]) -> None:
        raise AssertionError("no replica takes shards")

    def on_rebalanced(self, rebalance: Rebalance) -> None:
        raise AssertionError("no replica shares shards")


async def test_it_has_all_shards_also_those_that_come_later(autojump_clock: object) -> None:
    topic = _Topic(2)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(topic.membership.run)
        await wait_all_tasks_blocked()
        topic.shards = 3
        await trio.sleep(LOOK_SECONDS + 1)
        assert topic.told == [{0: 1, 1: 1}, {2: 1}]
        await topic.membership.raise_epoch(8)
        assert topic.membership.shards == {0: 9, 1: 9, 2: 9}
        nursery.start_soon(topic.membership.leave)
        await wait_all_tasks_blocked()
        assert topic.told[-1] == ("release", [0, 1, 2])
        for shard in range(3):
            topic.membership.released(shard)


async def test_it_waits_for_brokers(autojump_clock: object) -> None:
    topic = _Topic(None)
    with capture_logs() as logged:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(topic.membership.run)
            await trio.sleep(10)
            assert topic.membership.waiting_for == "no broker"
            topic.shards = 1
            await trio.sleep(2)
            assert (topic.told, topic.membership.waiting_for) == ([{0: 1}], "")
            nursery.cancel_scope.cancel()
    assert [each["event"] for each in logged] == ["shards_not_found"]
