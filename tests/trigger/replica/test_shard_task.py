"""Tests the task of one shard while the shard cannot be claimed or read."""

from typing import Any

import structlog
import trio
from scripted_brokers import ScriptedBroker, ScriptedBrokers, scripted_brokers
from spus import SteadyClock, batch
from structlog.testing import capture_logs
from trigger_replicas import Handled, InProcessWorkers, config

from tailrace.client.record_producer import RecordProducer
from tailrace.client.spu_client import BOOTSTRAP, SpuClient
from tailrace.cluster.stream_state.replica_report import ShardState
from tailrace.protocol.batches.record_batch import MAGIC_AT
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from tailrace.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tailrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from tailrace.runtime.chance import RandomChance
from tailrace.trigger.replica.group_offsets import GroupOffsets
from tailrace.trigger.replica.output_sender import OutputSender
from tailrace.trigger.replica.replica_metrics import ReplicaMetrics, ShardGauges
from tailrace.trigger.replica.shard_task import ShardParts, ShardTask
from tailrace.trigger.replica.side_topics import SideTopics
from tailrace.trigger.replica.transactional_output import TransactionalOutput
from tailrace.trigger.work import Shard


class _Owner:
    def may_hand_out(self, now: float) -> bool:
        return True

    async def raise_epoch(self, above: int) -> None:
        raise AssertionError("nothing is fenced")


def _no_transactions(shard: Shard, logger: object) -> TransactionalOutput:
    raise AssertionError("output is stored at least once")


def _task(cluster: ScriptedBrokers, workers: InProcessWorkers) -> ShardTask:
    settings, metrics, chance = config(), ReplicaMetrics(), RandomChance(1)
    logger, clock = structlog.get_logger(), SteadyClock()
    spus = SpuClient(cluster.network, cluster.bootstrap, BOOTSTRAP)
    topics = SideTopics(spus.another(), "orders", logger)
    parts = ShardParts(
        settings,
        spus,
        GroupOffsets(spus.another(), "billing", "replica1"),
        workers,
        OutputSender(RecordProducer(spus, clock, chance), topics, settings, metrics, chance, logger),
        _no_transactions,
        topics,
        metrics,
        clock,
        chance,
        logger,
    )
    return ShardTask(Shard("orders", 0), 4, parts, _Owner())


def _group_answer(request: OffsetFetchRequest | OffsetCommitRequest) -> Any:
    """Answers that the offset 0 is committed, or takes a commit."""
    if isinstance(request, OffsetCommitRequest):
        committed = OffsetCommitResponseTopic("orders", partitions=[OffsetCommitResponsePartition(0)])
        return OffsetCommitResponse(topics=[committed])
    offset = OffsetFetchResponsePartitions(0, committed_offset=0)
    topics = [OffsetFetchResponseTopics("orders", partitions=[offset])]
    return OffsetFetchResponse(groups=[OffsetFetchResponseGroup("billing", topics=topics)])


async def test_a_shard_that_cannot_be_claimed_says_why_and_can_be_drained(autojump_clock: object) -> None:
    def script(_: ScriptedBroker, __: object) -> OffsetFetchResponse:
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        return OffsetFetchResponse(groups=[OffsetFetchResponseGroup("billing", error_code=code)])

    async with scripted_brokers(script, 1) as cluster:
        task = _task(cluster, InProcessWorkers(Handled()))
        with capture_logs() as logged:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(task.run)
                await trio.sleep(30)
                report = task.report(0)
                assert (report.state, report.epoch, report.marked) == (ShardState.CLAIMING, 4, -1)
                assert report.error == "GROUP_AUTHORIZATION_FAILED"
                assert task.gauges(0) == ShardGauges(0, 0.0)
                task.drain()
        assert task.mark == -1
        assert [each["event"] for each in logged] == ["shard_not_claimed"]


async def test_a_log_start_that_cannot_be_found_is_looked_for_after_a_pause(autojump_clock: object) -> None:
    def script(_: ScriptedBroker, request: Any) -> Any:
        match request:
            case OffsetFetchRequest() | OffsetCommitRequest():
                return _group_answer(request)
            case FetchRequest():
                lost = PartitionData(0, ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark=-1)
                return FetchResponse(responses=[FetchableTopicResponse("orders", partitions=[lost])])
            case ListOffsetsRequest():
                refused = ListOffsetsPartitionResponse(0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                return ListOffsetsResponse(topics=[ListOffsetsTopicResponse("orders", partitions=[refused])])
        return None

    async with scripted_brokers(script, 1) as cluster:
        cluster.leaders["orders"] = [1]
        task = _task(cluster, InProcessWorkers(Handled()))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(task.run)
            await trio.sleep(9.5)
            assert task.report(0).error == "TOPIC_AUTHORIZATION_FAILED"
            nursery.cancel_scope.cancel()
        assert sum(isinstance(each, FetchRequest) for each in cluster.brokers[1].heard) == 10


async def test_a_batch_that_makes_no_sense_is_read_again(autojump_clock: object) -> None:
    good = batch(b"a", b"b")
    corrupt = bytearray(good)
    corrupt[MAGIC_AT] = 77
    answers = [bytes(corrupt)] * 3 + [good]

    def script(_: ScriptedBroker, request: Any) -> Any:
        match request:
            case OffsetFetchRequest() | OffsetCommitRequest():
                return _group_answer(request)
            case FetchRequest() if answers:
                found = PartitionData(0, high_watermark=2, log_start_offset=0, records=answers.pop(0))
                return FetchResponse(responses=[FetchableTopicResponse("orders", partitions=[found])])
        return None

    async with scripted_brokers(script, 1) as cluster:
        cluster.leaders["orders"] = [1]
        handled = Handled()
        workers = InProcessWorkers(handled)
        workers.set_lease(float("inf"))
        task = _task(cluster, workers)
        with capture_logs() as logged:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(task.run)
                await trio.sleep(1.5)
                report = task.report(0)
                assert (report.state, report.error) == (ShardState.UNREACHABLE, "the batch has the magic 77, not 2")
                await handled.count(2)
                nursery.cancel_scope.cancel()
        assert [each["event"] for each in logged] == ["shard_claimed", "shard_unreadable", "shard_readable_again"]
