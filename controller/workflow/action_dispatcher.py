"""The Action Dispatcher: hands each action to the updater that owns its destination.

It never waits, and neither does anything between an event and its actions. That is why the circle of events and updates
(a write comes back as an event of the store's watch) cannot jam: an updater waits for its destination alone, never for
room in the event channel; the readers alone wait for that room; and whoever empties the channel, the dispatcher's loop,
waits for nobody. What the updaters hold meanwhile is bounded by the number of objects, as they keep it by object.
"""

from collections.abc import Iterable, Mapping

from structlog.typing import FilteringBoundLogger

from tailrace.controller.objects.objects import Object, Partition, Spu
from tailrace.controller.partitions.election_updater import ElectionUpdater
from tailrace.controller.state.actions import (
    Action,
    AskLogEnd,
    AwaitLeader,
    Delete,
    Provision,
    Put,
    Terminate,
    WithdrawStatus,
)
from tailrace.runtime.logs import shows_debug

from .updaters import ConnectionUpdater, KvUpdater, ProvisionerUpdater, names_of


class ActionDispatcher:
    def __init__(
        self,
        key_value: KvUpdater,
        connections: ConnectionUpdater,
        provisioner: ProvisionerUpdater,
        elections: ElectionUpdater,
        unreadable: Mapping[str, int],
        logger: FilteringBoundLogger,
    ) -> None:
        """`unreadable`: keys of the store under which something lies that cannot be read now."""
        self._key_value = key_value
        self._connections = connections
        self._provisioner = provisioner
        self._elections = elections
        self._unreadable = unreadable
        self._logger = logger

    def dispatch(self, actions: Iterable[Action]) -> None:
        handed = []
        for action in actions:
            if isinstance(action, Delete) and (owner := self._unreadable_owner(action.object)) is not None:
                # What looks like an orphan may have an owner, in a value that was damaged: nothing is deleted for that.
                self._logger.warning("deletion_withheld", owner=owner)
                continue
            handed.append(action)
            if isinstance(action, Put | Delete):
                self._key_value.take(action)
            elif isinstance(action, WithdrawStatus):
                self._key_value.withdraw_status(action.spu)
            elif isinstance(action, Provision | Terminate):
                self._provisioner.take(action)
            elif isinstance(action, AskLogEnd | AwaitLeader):
                self._elections.take(action)
            else:
                self._connections.take(action)
        if handed and shows_debug():
            self._logger.debug("actions_dispatched", actions=names_of(handed))

    def _unreadable_owner(self, found: Object) -> str | None:
        return next((owner for owner in _owners(found) if owner in self._unreadable), None)


def _owners(found: Object) -> tuple[str, ...]:
    """The keys of the objects of which one must be there, or this one has no reason to be."""
    match found:
        case Partition(topic, topic_id):
            return f"topic/{topic}", f"deleted-topic/{topic_id}"
        case Spu(spec) if spec.group is not None:
            return (f"spu-group/{spec.group}",)
        case _:
            return ()
