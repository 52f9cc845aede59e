"""Puts a replica together: clients of brokers and of the Streaming Controller (SC), membership and producer."""

from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager, closing, suppress

import trio
from msgspec import Struct

from tailrace.client.log_client import LogClient
from tailrace.client.plain_login import Credentials
from tailrace.client.record_producer import RecordProducer
from tailrace.client.sc_client import SC, ScClient
from tailrace.client.server_connection import RefusedError, UnreachableError, unless_refused
from tailrace.client.spu_client import BOOTSTRAP, SpuClient
from tailrace.client.transactions.transactional_producer import TransactionalProducer
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.network import Address, Network
from tailrace.runtime.seams import Seams
from tailrace.trigger.config.trigger_config import TriggerConfig
from tailrace.trigger.membership.member import MembershipConfig
from tailrace.trigger.pool.workers import Workers
from tailrace.trigger.work import Shard

from .group_offsets import GroupOffsets
from .lone_membership import LoneMembership
from .membership_task import Membership
from .output_sender import OutputSender
from .replica_metrics import ReplicaMetrics
from .shard_task import ShardParts
from .side_topics import SideTopics
from .state_store import ScStateStore
from .transactional_output import TransactionalOutput, timeout_seconds, transactional_id
from .trigger_replica import Replica, ReplicaMembership, ReplicaName


class ReplicaServers(Struct, frozen=True):
    """The servers with which a replica works."""

    sc: Sequence[Address] = ()
    """The public addresses of the SC and its standbys; empty for a replica that shares its shards with no other."""
    brokers: Sequence[Address] = ()
    """Bootstrap addresses; empty for the brokers that the SC knows."""

    def spu_client(self, network: Network, config: TriggerConfig) -> SpuClient:
        """Returns a client of the brokers, with the access key of the trigger."""
        credentials = (
            None if config.access_key is None else Credentials(config.access_user or config.name, config.access_key)
        )
        addresses, role = (self.brokers, BOOTSTRAP) if self.brokers else (self.sc, SC)
        return SpuClient(network, addresses, role, credentials)


@asynccontextmanager
async def replica_of(
    name: ReplicaName,
    config: TriggerConfig,
    workers: Workers,
    servers: ReplicaServers,
    seams: Seams,
    logger: FilteringBoundLogger,
) -> AsyncIterator[Replica]:
    """Yields a replica that can be run; the producer of its output runs until the end."""
    metrics = ReplicaMetrics()
    clock, chance = seams.wall_clock, seams.chance
    with ExitStack() as stack:
        spus = stack.enter_context(closing(servers.spu_client(seams.network, config)))
        with suppress(UnreachableError, RefusedError):
            await spus.metadata()  # the clients that are made from it know the brokers even if the SC is away
        reporter = stack.enter_context(closing(ScClient(seams.network, servers.sc)))
        offsets = stack.enter_context(closing(GroupOffsets(spus.another(), config.group, name.member_id)))
        side_topics = stack.enter_context(closing(SideTopics(spus.another(), config.topic, logger)))
        producer = RecordProducer(spus, clock, chance)
        sender = OutputSender(producer, side_topics, config, metrics, chance, logger)

        def new_output(shard: Shard, logger: FilteringBoundLogger) -> TransactionalOutput:
            of_shard = TransactionalProducer(
                spus, transactional_id(config.group, shard), clock, chance, timeout_seconds=timeout_seconds(config)
            )
            return TransactionalOutput(shard, of_shard, offsets, side_topics, config, metrics, chance, logger)

        parts = ShardParts(
            config, spus, offsets, workers, sender, new_output, side_topics, metrics, clock, chance, logger
        )

        def join(owner: Replica) -> ReplicaMembership:
            if not servers.sc:
                return LoneMembership(lambda: _count_shards(spus, config.topic), owner, logger)
            store = ScStateStore(seams.network, servers.sc, config.topic, config.group)
            stack.callback(store.close)
            return Membership(_membership(name, config), store, owner, clock, chance, logger)

        async def report(text: str) -> None:
            try:
                await reporter.report_trigger(name.trigger, name.member_id, text)
            except (UnreachableError, trio.Cancelled):
                reporter.close()  # a late response must not be taken for the next one
                raise

        async with trio.open_nursery() as nursery:
            nursery.start_soon(producer.run)
            yield Replica(name, parts, join, report if servers.sc else None)
            nursery.cancel_scope.cancel()


async def check_topic(
    servers: ReplicaServers, network: Network, config: TriggerConfig, logger: FilteringBoundLogger
) -> int:
    """Returns the number of shards of the topic, so that a start by hand fails at once if something is wrong.

    Raises RefusedError and UnreachableError.
    """
    with closing(servers.spu_client(network, config)) as spus:
        if config.access_key is not None:
            await spus.metadata()
            if not spus.asks_for_credentials:
                logger.warning("access_key_not_needed")
        if not servers.sc:
            return await _count_shards(spus, config.topic)
    with closing(ScClient(network, servers.sc)) as sc:
        return (await sc.read_stream_state(config.topic, config.group)).shards


def _membership(name: ReplicaName, config: TriggerConfig) -> MembershipConfig:
    return MembershipConfig(
        member_id=name.member_id,
        replicas=config.replicas,
        session_timeout=config.session_timeout,
        heartbeat_interval=config.heartbeat_interval,
    )


async def _count_shards(spus: SpuClient, topic: str) -> int:
    return len(unless_refused((await LogClient(spus).partitions([topic]))[topic]))
