"""What a task of Spark stores output with: a producer of the brokers, or transactions of one shard.

Both are clients of the brokers that the driver has named, with the access key of the trigger.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager

import trio
from msgspec import Struct

from tailrace.client.plain_login import Credentials
from tailrace.client.record_producer import RecordProducer
from tailrace.client.spu_client import BOOTSTRAP, SpuClient
from tailrace.client.transactions.transactional_producer import TransactionalProducer
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.network import Address
from tailrace.runtime.seams import Seams
from tailrace.trigger.config.trigger_config import TriggerConfig
from tailrace.trigger.pool.workers import Workers
from tailrace.trigger.replica.group_offsets import GroupOffsets
from tailrace.trigger.replica.line_runner import Sender
from tailrace.trigger.replica.output_sender import OutputSender
from tailrace.trigger.replica.replica_metrics import ReplicaMetrics
from tailrace.trigger.replica.side_topics import SideTopics
from tailrace.trigger.replica.transactional_output import TransactionalOutput, timeout_seconds, transactional_id
from tailrace.trigger.work import Shard

from .range_work import RangeWork


class RangeParts(Struct, frozen=True):
    """What the handling of ranges needs: workers, counters and seams."""

    config: TriggerConfig
    workers: Workers
    metrics: ReplicaMetrics
    seams: Seams
    logger: FilteringBoundLogger


class BrokerSenders(Struct, frozen=True):
    """What sends output and dead letters to topics, and a client of the brokers."""

    spus: SpuClient
    producer: RecordProducer
    side_topics: SideTopics

    def of(self, parts: RangeParts) -> Sender:
        """Returns a sender that counts in the metrics of these parts."""
        return OutputSender(
            self.producer, self.side_topics, parts.config, parts.metrics, parts.seams.chance, parts.logger
        )


@asynccontextmanager
async def broker_senders(work: RangeWork, parts: RangeParts) -> AsyncIterator[BrokerSenders]:
    """Yields senders while their producer runs."""
    seams = parts.seams
    with ExitStack() as stack:
        spus = stack.enter_context(closing(client_of(work, seams)))
        side_topics = stack.enter_context(closing(SideTopics(spus.another(), parts.config.topic, parts.logger)))
        producer = RecordProducer(spus, seams.wall_clock, seams.chance)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(producer.run)
            yield BrokerSenders(spus, producer, side_topics)
            nursery.cancel_scope.cancel()


class ShardOutputs(Struct, frozen=True):
    """What stores the output of one shard in transactions, together with its mark in a group."""

    shard: Shard
    spus: SpuClient
    producer: TransactionalProducer
    offsets: GroupOffsets
    side_topics: SideTopics
    config: TriggerConfig
    seams: Seams
    logger: FilteringBoundLogger

    def of(self, metrics: ReplicaMetrics) -> TransactionalOutput:
        """Returns a transactional output that counts in these metrics."""
        return TransactionalOutput(
            self.shard,
            self.producer,
            self.offsets,
            self.side_topics,
            self.config,
            metrics,
            self.seams.chance,
            self.logger,
        )


@contextmanager
def outputs_of(work: RangeWork, shard: Shard, group: str, parts: RangeParts) -> Iterator[ShardOutputs]:
    """Yields what stores the output of a shard, as a task uses it."""
    with (
        closing(client_of(work, parts.seams)) as spus,
        shard_outputs(spus, shard, group, work.config, work.member_id, parts.seams, parts.logger) as outputs,
    ):
        yield outputs


@contextmanager
def shard_outputs(
    spus: SpuClient,
    shard: Shard,
    group: str,
    config: TriggerConfig,
    member_id: str,
    seams: Seams,
    logger: FilteringBoundLogger,
) -> Iterator[ShardOutputs]:
    """Yields what stores the output of a shard. The mark is the offset of the shard in the group."""
    with ExitStack() as stack:
        offsets = stack.enter_context(closing(GroupOffsets(spus.another(), group, member_id)))
        side_topics = stack.enter_context(closing(SideTopics(spus.another(), shard.topic, logger)))
        producer = TransactionalProducer(
            spus,
            transactional_id(group, shard),
            seams.wall_clock,
            seams.chance,
            timeout_seconds=timeout_seconds(config),
        )
        stack.enter_context(closing(producer))
        yield ShardOutputs(shard, spus, producer, offsets, side_topics, config, seams, logger)


def client_of(work: RangeWork, seams: Seams) -> SpuClient:
    """Returns a client of the brokers, with the access key of the trigger."""
    config = work.config
    key = config.access_key
    credentials = None if key is None else Credentials(config.access_user or config.name, key)
    return SpuClient(seams.network, [Address(*each) for each in work.brokers], BOOTSTRAP, credentials)
