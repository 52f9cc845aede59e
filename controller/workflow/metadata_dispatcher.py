"""The Metadata Dispatcher: saves each event, then asks the controllers that it concerns.

This is one synchronous step without clock, chance, input or output. So a recorded list of events gives the same actions
again. A ReconciliationDue must come only after everything in the store was reported, since an object without an owner
is an orphan only then.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.controller.objects.objects import Object, Partition, Spu, SpuGroup, Topic, Trigger
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
    TriggerReported,
)
from tailrace.controller.state.local_store import LocalStore, PartitionKey
from tailrace.controller.state.observed import Observed
from tailrace.controller.topics.topic_controller import TopicController
from tailrace.controller.triggers.stream_state_controller import StreamStateController
from tailrace.protocol.ids import Epoch

if TYPE_CHECKING:
    from tailrace.controller.triggers.trigger_controller import TriggerController


class Controllers(Struct, frozen=True):
    """The controllers, one for each kind of object whose status the SC decides."""

    spus: SpuController
    spu_groups: SpuGroupController
    topics: TopicController
    partitions: PartitionController
    stream_states: StreamStateController
    triggers: Callable[[], "TriggerController"]
    """Returns the controller of triggers, which is loaded for the first trigger."""


class DecisionCounts(Struct):
    """How many events a controller has handled, and how many actions it has decided on."""

    events: int = 0
    actions: int = 0

    def of(self, decided: Iterable[Action]) -> list[Action]:
        """Counts one event and its actions, and returns the actions."""
        actions = list(decided)
        self.events += 1
        self.actions += len(actions)
        return actions


Handlers = tuple[tuple[DecisionCounts, Callable[[Any], Iterable[Action]]], ...]
"""The handlers for one kind of event or change, each with the counts of its controller."""


def controllers_over(store: LocalStore, observed: Observed, broker_configs: BrokerConfigs) -> Controllers:
    """Makes the controllers, which share the given state."""
    assignments = ReplicaAssignments()
    return Controllers(
        SpuController(store, observed),
        SpuGroupController(store, assignments),
        TopicController(store, assignments, observed),
        PartitionController(store, observed, broker_configs),
        StreamStateController(store),
        cache(lambda: _trigger_controller(store)),
    )


def _trigger_controller(store: LocalStore) -> "TriggerController":
    from tailrace.controller.triggers.trigger_controller import TriggerController
    from tailrace.controller.triggers.trigger_reports import TriggerReports

    return TriggerController(store, TriggerReports())


class MetadataDispatcher:
    def __init__(self, store: LocalStore, observed: Observed, controllers: Controllers, mirror: ClusterMirror) -> None:
        self._store = store
        self._observed = observed
        self._mirror = mirror
        spus, spu_groups = controllers.spus, controllers.spu_groups
        topics, partitions, stream_states = controllers.topics, controllers.partitions, controllers.stream_states
        self.triggers = triggers = controllers.triggers
        of_spus, of_groups, of_topics, of_partitions, of_stream_states, of_triggers = (
            DecisionCounts() for _ in range(6)
        )
        self.decisions: Mapping[str, DecisionCounts] = {
            "spu": of_spus,
            "spu-group": of_groups,
            "topic": of_topics,
            "partition": of_partitions,
            "stream-state": of_stream_states,
            "trigger": of_triggers,
        }
        """The counts of each controller, by the kind of objects that it decides about."""
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
                (of_stream_states, stream_states.on_topic),
                (of_triggers, lambda change: triggers().on_topic(change) if store.triggers else ()),
            ),
            Trigger: ((of_triggers, lambda change: triggers().on_trigger(change)),),
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
            TriggerReported: ((of_triggers, lambda event: triggers().on_report(event)),),
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
                (of_stream_states, lambda _: stream_states.reconcile()),
                (of_triggers, lambda _: triggers().reconcile() if store.triggers else ()),
            ),
        }

    def on_event(self, event: Event) -> list[Action]:
        """Saves an event and returns the actions that the controllers decide on."""
        match event:
            case Stored() | Removed():
                return self._on_store(event)
            case SpusAway():
                self._observed.apply(event)
                return []  # A reconciliation follows.
            case RebalanceDue() | ReconciliationDue() | SpuResponded() | TriggerReported():
                pass  # There is nothing to save, or the controller does it.
            case LogEndsReported():
                asked = {key: epoch for key, epoch in event.asked.items() if not self._is_over(key, epoch)}
                self._observed.apply(replace(event, asked=asked))
            case LeaderSilent() if self._is_over((event.topic_id, event.number), event.epoch):
                return []
            case _:
                self._observed.apply(event)
        return _decide(self._concerned_by_event[type(event)], event)

    def on_broker_configs(self) -> list[Action]:
        """Returns the actions that follow from changed broker configs."""
        return _decide(self._on_broker_configs, None)

    def _is_over(self, key: PartitionKey, epoch: Epoch) -> bool:
        """Tells whether the election that ends `epoch` is over.

        An SPU that was silent in it may be the candidate of the next election, in which it has its full time again.
        """
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
