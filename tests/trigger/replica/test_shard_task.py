"""Tests the task of one shard: what it reports while the shard cannot be claimed."""

import structlog
import trio
from scripted_brokers import ScriptedBroker, scripted_brokers
from spus import SteadyClock
from structlog.testing import capture_logs
from trigger_replicas import Handled, InProcessWorkers, config

from tailrace.client.record_producer import RecordProducer
from tailrace.client.spu_client import BOOTSTRAP, SpuClient
from tailrace.cluster.stream_state.replica_report import ShardState
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.offset_fetch import OffsetFetchResponse, OffsetFetchResponseGroup
from tailrace.runtime.chance import RandomChance
from tailrace.trigger.replica.group_offsets import GroupOffsets
from tailrace.trigger.replica.output_sender import OutputSender
from tailrace.trigger.replica.replica_metrics import ReplicaMetrics, ShardGauges
from tailrace.trigger.replica.shard_task import ShardParts, ShardTask
from tailrace.trigger.replica.side_topics import SideTopics
from tailrace.trigger.work import Shard


class _Owner:
    def may_hand_out(self, now: float) -> bool:
        return True

    async def raise_epoch(self, above: int) -> None:
        raise AssertionError("nothing is fenced")


async def test_a_shard_that_cannot_be_claimed_says_why_and_can_be_drained(autojump_clock: object) -> None:
    def script(_: ScriptedBroker, __: object) -> OffsetFetchResponse:
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        return OffsetFetchResponse(groups=[OffsetFetchResponseGroup("billing", error_code=code)])

    async with scripted_brokers(script, 1) as cluster:
        settings, metrics, chance = config(), ReplicaMetrics(), RandomChance(1)
        logger, clock = structlog.get_logger(), SteadyClock()
        spus = SpuClient(cluster.network, cluster.bootstrap, BOOTSTRAP)
        topics = SideTopics(spus.another(), "orders", logger)
        parts = ShardParts(
            settings,
            spus,
            GroupOffsets(spus.another(), "billing", "replica1"),
            InProcessWorkers(Handled()),
            OutputSender(RecordProducer(spus, clock, chance), topics, settings, metrics, chance, logger),
            topics,
            metrics,
            clock,
            chance,
            logger,
        )
        task = ShardTask(Shard("orders", 0), 4, parts, _Owner())
        with capture_logs() as logged:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(task.run)
                await trio.sleep(30)
                report = task.report(clock.now_ms())
                assert (report.state, report.epoch, report.marked) == (ShardState.CLAIMING, 4, -1)
                assert report.error == "GROUP_AUTHORIZATION_FAILED"
                assert task.gauges(clock.now_ms()) == ShardGauges(0, 0.0)
                task.drain()
        assert (task.is_drained, task.mark) == (True, -1)
        assert [each["event"] for each in logged] == ["shard_not_claimed"]
