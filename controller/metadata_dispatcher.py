"""The Metadata Dispatcher: saves what an event says, then asks the controllers that it concerns what is to be done.

All of it is one synchronous step without a clock, chance or input and output, so a recorded list of events gives the
same actions again. A ReconciliationDue belongs after everything that was in the store has been reported: only then is
something that has no owner an orphan.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tailrace.cluster.broker_configs import BrokerConfigs

from .actions import Action
from .assignments import Assignments
from .cluster_mirror import ClusterMirror
from .events import (
    Event,
    LeaderFailed,
    LeaderSilent,
    LeasesUnknownOver,
    LiveReplicasReported,
    LogEndsReported,
    RebalanceDue,
    ReconciliationDue,
    Removed,
    SpuConnected,
    SpuLost,
    SpusAway,
    StorageReported,
    Stored,
)
from .local_store import LocalStore
from .objects import Object, Partition, Spu, SpuGroup, Topic
from .observed import Observed
from .partition_controller import PartitionController
from .spu_controller import SpuController
from .spu_group_controller import SpuGroupController
from .topic_controller import TopicController

Handlers = tuple[Callable[[Any], Iterable[Action]], ...]
"""Each takes the change, or the event, of the kind under which it stands in a table."""


@dataclass(frozen=True, slots=True)
class Controllers:
    spus: SpuController
    spu_groups: SpuGroupController
    topics: TopicController
    partitions: PartitionController


def controllers_over(store: LocalStore, observed: Observed, broker_configs: BrokerConfigs) -> Controllers:
    assignments = Assignments()
    return Controllers(
        SpuController(store, observed),
        SpuGroupController(store, assignments),
        TopicController(store, assignments, observed),
        PartitionController(store, observed, broker_configs),
    )


class MetadataDispatcher:
    def __init__(self, store: LocalStore, observed: Observed, controllers: Controllers, mirror: ClusterMirror) -> None:
        self._store = store
        self._observed = observed
        self._mirror = mirror
        spus, spu_groups = controllers.spus, controllers.spu_groups
        topics, partitions = controllers.topics, controllers.partitions
        self._concerned_by_object: Mapping[type[Object], Handlers] = {
            Spu: (spus.on_spu, spu_groups.on_spu, topics.on_spu, partitions.on_spu),
            SpuGroup: (spu_groups.on_group, topics.on_group),
            Topic: (topics.on_topic, partitions.on_topic, spu_groups.on_topic),
            Partition: (partitions.on_partition, spu_groups.on_partition),
        }
        self._concerned_by_connection: Mapping[type[Event], Handlers] = {
            SpuConnected: (spus.on_connection, partitions.on_connected),
            SpuLost: (spus.on_connection,),
            StorageReported: (spus.on_connection,),
            LiveReplicasReported: (partitions.on_report,),
            LogEndsReported: (partitions.on_log_ends,),
            LeaderSilent: (partitions.on_silence,),
            LeaderFailed: (partitions.on_silence,),
            LeasesUnknownOver: (lambda _: spus.reconcile(),),
        }
        self._rebalance = partitions.rebalance
        self._reconcilers = (spus.reconcile, spu_groups.reconcile, topics.reconcile, partitions.reconcile)

    def on_event(self, event: Event) -> list[Action]:
        match event:
            case Stored() | Removed():
                return self._on_store(event)
            case RebalanceDue():
                return list(self._rebalance())
            case ReconciliationDue():
                return [action for reconcile in self._reconcilers for action in reconcile()]
            case SpusAway():
                self._observed.apply(event)
                return []  # a reconciliation follows
            case _:
                self._observed.apply(event)
                handlers = self._concerned_by_connection[type(event)]
                return [action for handler in handlers for action in handler(event)]

    def _on_store(self, event: Stored | Removed) -> list[Action]:
        change = self._store.apply(event)
        if change is None:
            return []
        self._mirror.on_change(change)
        found = change.current or change.previous
        assert found is not None
        handlers = self._concerned_by_object.get(type(found), ())
        return [action for handler in handlers for action in handler(change)]
