"""Names the objects that events and actions are about, for debug logs.

The name of a topic is in the names of its partitions, so that one search of the log finds every stage of its changes.
"""

from collections.abc import Iterable

from tailrace.controller.objects.objects import DeletedTopic, Object, Partition, Topic
from tailrace.protocol.ids import TopicId

from .actions import (
    Action,
    AddPartition,
    AskLogEnd,
    AwaitLeader,
    Delete,
    DeletePartition,
    DeleteSpu,
    DropReplica,
    ForgetReplicas,
    KeepReplica,
    Put,
    Terminate,
    UpdatePartition,
)
from .events import Event, LogEndsReported, Removed, Stored, TriggerReported
from .local_store import LocalStore
from .object_codec import key_of


class ObjectNames:
    """Names objects with the help of the Local Store, because many events and actions know only the id of a topic."""

    def __init__(self, local: LocalStore) -> None:
        self._local = local

    def of_event(self, event: Event) -> list[str]:
        """Returns the names of the objects that an event is about; none if it is about all objects."""
        match event:
            case Stored(found):
                return [self.of_object(found)]
            case Removed(key):
                return [self.of_key(key)]
            case LogEndsReported():
                return [self._partition(*key) for key in event.asked]
            case TriggerReported(trigger):
                return [f"trigger/{trigger}"]
        topic_id, spu = getattr(event, "topic_id", None), getattr(event, "spu", None)
        if topic_id is not None:
            return [self._partition(topic_id, getattr(event, "number", -1))]
        return [] if spu is None else [f"spu/{spu}"]

    def of_key(self, key: str) -> str:
        """Returns the name of an object that is in the Local Store, or else its key."""
        found = self._local.objects.get(key)
        return key if found is None else self.of_object(found)

    def of_events(self, events: Iterable[Event]) -> list[str]:
        """Returns the names of the objects that some events are about, each once."""
        return list(dict.fromkeys(name for event in events for name in self.of_event(event)))

    def of_action(self, action: Action) -> str:
        """Returns the name of the object that an action is about."""
        match action:
            case Put(found) | Delete(found):
                return self.of_object(found)
            case AddPartition(partition) | UpdatePartition(partition):
                return self.of_object(partition)
            case DeletePartition() | AskLogEnd() | AwaitLeader():
                return self._partition(action.topic_id, action.number)
            case DeleteSpu(spu) | Terminate(spu):
                return f"spu/{spu}"
            case KeepReplica() | DropReplica():
                return f"trigger/{action.trigger}/{action.replica}"
            case ForgetReplicas(trigger):
                return f"trigger/{trigger}"
            case _:
                return f"spu/{action.spu.spec.id}"

    def of_actions(self, actions: Iterable[Action]) -> dict[str, list[str]]:
        """Returns the names of the objects that some actions are about, by the kind of action."""
        names: dict[str, list[str]] = {}
        for action in actions:
            names.setdefault(kind_of(action), []).append(self.of_action(action))
        return names

    @staticmethod
    def of_object(found: Object) -> str:
        """Returns the key of an object in the store, but with the name of a topic instead of its id."""
        match found:
            case Partition():
                return f"partition/{found.topic}/{found.number}"
            case DeletedTopic(topic):
                return f"deleted-topic/{topic.name}"
            case _:
                return key_of(found)

    def _partition(self, topic_id: TopicId, number: int) -> str:
        partition = self._local.partitions.get((topic_id, number))
        topic: Topic | None = self._local.topics_by_id.get(topic_id)
        name = partition.topic if partition is not None else topic.name if topic is not None else str(topic_id)
        return f"partition/{name}/{number}"


def kind_of(action: Action) -> str:
    """Returns the kind of an action; writes name the kind of the object as well."""
    kind = type(action).__name__
    return f"{kind}{type(action.object).__name__}" if isinstance(action, Put | Delete) else kind
