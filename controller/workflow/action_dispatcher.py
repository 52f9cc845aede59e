"""The Action Dispatcher: hands each action to the updater for its destination.

Neither the dispatcher nor anything else between an event and its actions ever waits. This is why the loop cannot
deadlock, although a write comes back as an event of the store's watch. An updater waits only for its destination, and
never for room in the event channel. Only readers wait for that room. And the loop that empties the channel waits for
nothing. What updaters hold in the meantime is bounded by the number of objects, since they keep one action per object.
"""

from collections.abc import Iterable, Mapping

from tailrace.controller.objects.objects import Object, Partition, Spu, StreamAttribute
from tailrace.controller.partitions.election_updater import ElectionUpdater
from tailrace.controller.state.actions import (
    Action,
    AskLogEnd,
    AwaitLeader,
    Delete,
    DropReplica,
    ForgetReplicas,
    KeepReplica,
    Provision,
    Put,
    Terminate,
    WithdrawStatus,
)
from tailrace.controller.state.object_names import ObjectNames
from tailrace.runtime.logs import FilteringBoundLogger, shows_debug

from .replica_provisioning import ReplicaProvisioner
from .updaters import ConnectionUpdater, KvUpdater, ProvisionerUpdater


class ActionDispatcher:
    def __init__(
        self,
        key_value: KvUpdater,
        connections: ConnectionUpdater,
        provisioner: ProvisionerUpdater,
        replicas: ReplicaProvisioner,
        elections: ElectionUpdater,
        unreadable: Mapping[str, int],
        logger: FilteringBoundLogger,
        names: ObjectNames,
    ) -> None:
        """`unreadable` has the keys in the store whose values cannot be read now."""
        self._key_value = key_value
        self._connections = connections
        self._provisioner = provisioner
        self._replicas = replicas
        self._elections = elections
        self._unreadable = unreadable
        self._names = names
        self._logger = logger

    def dispatch(self, actions: Iterable[Action]) -> None:
        dispatched = []
        for action in actions:
            if isinstance(action, Delete) and (owner := self._unreadable_owner(action.object)) is not None:
                # The object looks like an orphan only because the value of its owner is damaged.
                self._logger.warning("deletion_withheld", owner=owner)
                continue
            dispatched.append(action)
            if isinstance(action, Put | Delete):
                self._key_value.take(action)
            elif isinstance(action, WithdrawStatus):
                self._key_value.withdraw_status(action.spu)
            elif isinstance(action, Provision | Terminate):
                self._provisioner.take(action)
            elif isinstance(action, KeepReplica):
                self._replicas.keep(action)
            elif isinstance(action, DropReplica):
                self._replicas.drop(action.trigger, action.replica)
            elif isinstance(action, ForgetReplicas):
                self._replicas.forget(action.trigger)
            elif isinstance(action, AskLogEnd | AwaitLeader):
                self._elections.take(action)
            else:
                self._connections.take(action)
        if dispatched and shows_debug():
            self._logger.debug("actions_dispatched", actions=self._names.of_actions(dispatched))

    def _unreadable_owner(self, found: Object) -> str | None:
        return next((owner for owner in _owners(found) if owner in self._unreadable), None)


def _owners(found: Object) -> tuple[str, ...]:
    """Returns the keys of the possible owners of an object. The object is an orphan if none of them exists."""
    match found:
        case Partition(topic, topic_id):
            return f"topic/{topic}", f"deleted-topic/{topic_id}"
        case Spu(spec) if spec.group is not None:
            return (f"spu-group/{spec.group}",)
        case StreamAttribute(topic):
            return (f"topic/{topic}",)
        case _:
            return ()
