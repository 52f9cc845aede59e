"""A spec dispatcher on simulated files, and specs for it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pytest
import structlog
import trio
import trio.testing
from replicating import replication_on
from simulation.files import SimulatedFiles
from spus import SteadyClock, batch

from tailrace.broker.controller_link.held_specs import HeldSpecs, HeldTopic
from tailrace.broker.controller_link.live_replica_reporter import LiveReplicaReporter
from tailrace.broker.controller_link.spec_dispatcher import SpecDispatcher
from tailrace.broker.replicas.deadlines import Deadlines
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.broker.spu_counters import BrokerMetrics
from tailrace.broker.upkeep.closed_replicas import ClosedReplicas
from tailrace.broker.upkeep.flusher import Flusher
from tailrace.broker.upkeep.parking import Parking, Storage
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.specs import PartitionSpec
from tailrace.protocol.batches.record_batch import read_header, stamp
from tailrace.protocol.ids import Epoch, SpuId, TopicId
from tailrace.storage.directory.checkpoints import (
    ReplicaKey,
    load_high_watermarks,
)
from tailrace.storage.directory.promises import Promises

HERE, ELSEWHERE = SpuId(1), SpuId(2)
TOPIC, OTHER = TopicId(int=1), TopicId(int=2)


def held_topic(
    topic_id: TopicId = TOPIC,
    name: str = "t",
    partitions: Sequence[int] = (0,),
    *,
    epoch: int = 0,
    leader: SpuId = HERE,
    live: tuple[SpuId, ...] = (HERE,),
    configs: Mapping[str, str] | None = None,
) -> HeldTopic:
    replicas = (HERE,) if (leader, live) == (HERE, (HERE,)) else (HERE, ELSEWHERE)
    specs = tuple(PartitionSpec(topic_id, name, number, leader, Epoch(epoch), replicas, live) for number in partitions)
    return HeldTopic(topic_id, name, configs or {}, specs)


def full(*topics: HeldTopic, **configs: str) -> HeldSpecs:
    return HeldSpecs(True, topics, default_configs={name.replace("_", "."): value for name, value in configs.items()})


@dataclass
class DispatcherSpu:
    """A dispatcher and its surroundings. Another object with the same files is a restart."""

    nursery: trio.Nursery
    files: SimulatedFiles = field(default_factory=SimulatedFiles)
    clean: bool = True
    """Whether the previous process closed all logs."""

    def __post_init__(self) -> None:
        logger = structlog.get_logger()
        self.closed = ClosedReplicas()
        self.closed.clean = {(topic_id, number) for topic_id in (TOPIC, OTHER) for number in range(3) if self.clean}
        self.replicas = ReplicaRegistry(HERE, Cluster())
        self.metrics = BrokerMetrics()
        self.broker_configs = BrokerConfigs({})
        self.files.make_directories("/data")
        self.promises = Promises(self.files, "/data")
        self.closed.high_watermarks = load_high_watermarks(self.files, "/data")
        self.parking = Parking("/data", self.files, SteadyClock())
        self.live_replicas = LiveReplicaReporter(self.replicas, self.metrics, logger)
        self.dispatcher = SpecDispatcher(
            HERE,
            "/data",
            self.files,
            self.replicas,
            self.parking,
            self.broker_configs,
            Flusher(self.nursery, Deadlines(), self.metrics),
            self.metrics,
            replication_on(HERE, self.files, self.replicas, self.nursery, self.promises, self.live_replicas),
            self.closed,
            self.nursery,
            lambda replica, offset: self.mend(replica, offset),
            logger,
            lambda specs, removed, *, is_full: self.hear(specs, removed, is_full=is_full),
        )

    async def remove_parked(self) -> list[Storage]:
        async def forget(removed: Storage) -> None:
            self.dispatcher.forget(removed)

        return await self.parking.remove_expired(-1, forget)

    def hear(self, specs: Iterable[PartitionSpec], removed: Iterable[ReplicaKey], *, is_full: bool) -> None:
        """Ignores the shelves that the specs name, unless a test replaces this."""

    async def mend(self, replica: Replica, offset: int) -> bool:
        """Repairs nothing, unless a test replaces this."""
        await trio.lowlevel.checkpoint()
        return False

    def again(self, files: SimulatedFiles | None = None, *, clean: bool = True) -> "DispatcherSpu":
        return DispatcherSpu(self.nursery, files or self.files, clean)

    async def apply(self, *topics: HeldTopic) -> list[Replica]:
        """Applies full specs. Returns the replicas that run then."""
        await self.dispatcher.apply(full(*topics))
        return list(self.replicas)

    async def change(self, *topics: HeldTopic, removed: tuple[tuple[TopicId, int], ...] = ()) -> list[Replica]:
        """Applies a change. Returns the replicas that run then."""
        await self.dispatcher.apply(HeldSpecs(False, topics, removed))
        return list(self.replicas)


def append(replica: Replica, *values: bytes, **attributes: int) -> None:
    data = bytearray(batch(*values, **attributes))
    stamp(data, 0, replica.log.log_end, replica.spec.epoch)
    replica.append(data, read_header(data))


DISK_FAILS = OSError("the disk does not answer")


def fail_for(
    monkeypatch: pytest.MonkeyPatch, files: SimulatedFiles, call: str, path: str, error: OSError = DISK_FAILS
) -> list[str]:
    """Makes a file operation fail for one path. Returns a list that grows with each attempt."""
    real = getattr(files, call)
    tried = []

    def fail(asked: str) -> object:
        if asked == path:
            tried.append(asked)
            raise error
        return real(asked)

    monkeypatch.setattr(files, call, fail)
    return tried
