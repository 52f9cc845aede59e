"""The Metadata Dispatcher: saves what an event says, then asks the controllers that it concerns what is to be done.

All of it is one synchronous step without a clock, chance or input and output, so a recorded list of events gives the
same actions again. A ReconciliationDue belongs after everything that was in the store has been reported: only then is
something that has no owner an orphan.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.controller.objects.objects import Object, Partition, Spu, SpuGroup, Topic
from tailrace.controller.partitions.partition_controller import PartitionController
from tailrace.controller.spus.spu_controller import SpuController
from tailrace.controller.spus.spu_group_controller import SpuGroupController
from tailrace.controller.state.actions import Action
from tailrace.controller.state.assignment_load import ReplicaAssignments
from tailrace.controller.state.cluster_mirror import ClusterMirror
from tailrace.controller.state.events import (
    Event,
    LeaderSilent,
    LeaseGracePeriodOver,
    LiveReplicasReported,
    LogEndsReported,
    RebalanceDue,
    ReconciliationDue,
    Removed,
    ReplicaFailed,
    ReplicaOpened,
    ShelvesReported,
    SpuConnected,
    SpuLost,
    SpuResponded,
    SpusAway,
    StorageReported,
    Stored,
)
from tailrace.controller.state.local_store import LocalStore, PartitionKey
from tailrace.controller.state.observed import Observed
from tailrace.controller.topics.topic_controller import TopicController
from tailrace.protocol.ids import Epoch


class Controllers(Struct, frozen=True):
    spus: SpuController
    spu_groups: SpuGroupController
    topics: TopicController
    partitions: PartitionController


class DecisionCounts(Struct):
    """How much a controller was asked, and has decided."""

    events: int = 0
    actions: int = 0

    def of(self, decided: Iterable[Action]) -> list[Action]:
        actions = list(decided)
        self.events += 1
        self.actions += len(actions)
        return actions


Handlers = tuple[tuple[DecisionCounts, Callable[[Any], Iterable[Action]]], ...]
"""Each takes the change, or the event, of the kind under which it stands in a table, and is counted there."""


def controllers_over(store: LocalStore, observed: Observed, broker_configs: BrokerConfigs) -> Controllers:
    assignments = ReplicaAssignments()
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
        of_spus, of_groups, of_topics, of_partitions = (
            DecisionCounts(),
            DecisionCounts(),
            DecisionCounts(),
            DecisionCounts(),
        )
        self.decisions: Mapping[str, DecisionCounts] = {
            "spu": of_spus,
            "spu-group": of_groups,
            "topic": of_topics,
            "partition": of_partitions,
        }
        """Of the controller that decides about objects of that kind."""
        self._on_broker_configs: Handlers = ((of_partitions, lambda _: partitions.elect_offline()),)
        self._concerned_by_object: Mapping[type[Object], Handlers] = {
            Spu: (
                (of_spus, spus.on_spu),
                (of_groups, spu_groups.on_spu),
                (of_topics, topics.on_spu),
                (of_partitions, partitions.on_spu),
            ),
            SpuGroup: (
                (of_groups, spu_groups.on_group),
                (of_topics, topics.on_group),
                (of_partitions, partitions.on_group),
            ),
            Topic: (
                (of_topics, topics.on_topic),
                (of_partitions, partitions.on_topic),
                (of_groups, spu_groups.on_topic),
            ),
            Partition: ((of_partitions, partitions.on_partition), (of_groups, spu_groups.on_partition)),
        }
        self._concerned_by_event: Mapping[type[Event], Handlers] = {
            SpuConnected: ((of_spus, spus.on_connection), (of_partitions, partitions.on_response)),
            SpuLost: ((of_spus, spus.on_connection),),
            SpuResponded: ((of_partitions, partitions.on_response),),
            StorageReported: ((of_spus, spus.on_connection),),
            LiveReplicasReported: ((of_partitions, partitions.on_report),),
            ShelvesReported: ((of_partitions, partitions.on_report),),
            LogEndsReported: ((of_partitions, partitions.on_log_ends),),
            LeaderSilent: ((of_partitions, partitions.on_silence),),
            ReplicaFailed: ((of_partitions, partitions.on_silence),),
            ReplicaOpened: ((of_partitions, partitions.on_report),),
            LeaseGracePeriodOver: (
                (of_spus, lambda _: spus.reconcile()),
                (of_partitions, lambda _: partitions.elect_offline()),
            ),
            RebalanceDue: ((of_partitions, lambda event: partitions.rebalance(event.failed)),),
            ReconciliationDue: (
                (of_spus, lambda _: spus.reconcile()),
                (of_groups, lambda _: spu_groups.reconcile()),
                (of_topics, lambda _: topics.reconcile()),
                (of_partitions, lambda _: partitions.reconcile()),
            ),
        }

    def on_event(self, event: Event) -> list[Action]:
        match event:
            case Stored() | Removed():
                return self._on_store(event)
            case SpusAway():
                self._observed.apply(event)
                return []  # a reconciliation follows
            case RebalanceDue() | ReconciliationDue() | SpuResponded():
                pass  # nothing was said that is to be remembered
            case LogEndsReported():
                asked = {key: epoch for key, epoch in event.asked.items() if not self._is_over(key, epoch)}
                self._observed.apply(replace(event, asked=asked))
            case LeaderSilent() if self._is_over((event.topic_id, event.number), event.epoch):
                return []
            case _:
                self._observed.apply(event)
        return _decide(self._concerned_by_event[type(event)], event)

    def on_broker_configs(self) -> list[Action]:
        """Others apply now than before."""
        return _decide(self._on_broker_configs, None)

    def _is_over(self, key: PartitionKey, epoch: Epoch) -> bool:
        """Whether that election is: who was silent in it may be the candidate of the next one, and has its own time."""
        partition = self._store.partitions.get(key)
        return partition is None or partition.status.epoch != epoch

    def _on_store(self, event: Stored | Removed) -> list[Action]:
        change = self._store.apply(event)
        if change is None:
            return []
        self._mirror.on_change(change)
        found = change.current or change.previous
        assert found is not None
        return _decide(self._concerned_by_object.get(type(found), ()), change)


def _decide(handlers: Handlers, what: object) -> list[Action]:
    return [action for decisions, handler in handlers for action in decisions.of(handler(what))]
