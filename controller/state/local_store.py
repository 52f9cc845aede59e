"""The Local Store: the SC's copy of the KV store, with the indexes that decisions need.

Only the Metadata Dispatcher changes it, and only when the KV store reports a change. So no decision depends on a write
that may still fail. Everyone else gets read-only views.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Generic, TypeVar

from msgspec import Struct

from tailrace.controller.objects.objects import (
    ArchiveHead,
    ClusterIdentity,
    ConfigOverrides,
    DeletedTopic,
    GroupConfigs,
    Object,
    Partition,
    ProducerIdBlock,
    SecurityEntry,
    Spu,
    SpuGroup,
    StreamAttribute,
    Topic,
    TopicResolution,
    Trigger,
    shelf_keepers_of,
)
from tailrace.protocol.ids import SpuId, TopicId
from tailrace.security.records.security_records import KINDS, encode_record
from tailrace.security.records.security_records import key_of as key_of_record
from tailrace.security.records.security_records import kind_of as kind_of_record

from .events import Removed, Stored
from .object_codec import key_of

PartitionKey = tuple[TopicId, int]
Partitions = Mapping[PartitionKey, Partition]

O_co = TypeVar("O_co", bound=Object, covariant=True)
K = TypeVar("K")
N = TypeVar("N")
V = TypeVar("V")

_NOTHING: Mapping[PartitionKey, Partition] = MappingProxyType({})
_NO_ROWS: Mapping[int, Partition] = MappingProxyType({})
_NO_SPUS: Mapping[SpuId, Spu] = MappingProxyType({})
_NO_ATTRIBUTES: Mapping[str, StreamAttribute] = MappingProxyType({})


class Change(Struct, Generic[O_co], frozen=True):
    """One object before and after a change; at least one of the two is not None."""

    previous: O_co | None
    current: O_co | None


class LocalStore:
    def __init__(self) -> None:
        self._objects: dict[str, Object] = {}
        self._spus: dict[SpuId, Spu] = {}
        self._spus_by_group: dict[str, dict[SpuId, Spu]] = {}
        self._spu_groups: dict[str, SpuGroup] = {}
        self._topics: dict[str, Topic] = {}
        self._topics_by_id: dict[TopicId, Topic] = {}
        self._unfinished_topics: dict[str, Topic] = {}
        self._partitions: dict[PartitionKey, Partition] = {}
        self._partitions_by_topic: dict[TopicId, dict[int, Partition]] = {}
        self._partitions_by_replica: dict[SpuId, dict[PartitionKey, Partition]] = {}
        self._partitions_by_shelf: dict[SpuId, dict[PartitionKey, Partition]] = {}
        self._deleted_topics: dict[TopicId, DeletedTopic] = {}
        self._config_overrides: dict[str, ConfigOverrides] = {}
        self._group_configs: dict[str, GroupConfigs] = {}
        self._triggers: dict[str, Trigger] = {}
        self._archives: dict[str, ArchiveHead] = {}
        self._stream_states: dict[str, dict[str, StreamAttribute]] = {}
        self._security: dict[str, dict[str, SecurityEntry]] = {kind: {} for kind in KINDS}
        self._security_bytes = 0
        self.objects: Mapping[str, Object] = MappingProxyType(self._objects)
        """All objects, by their keys in the KV store."""
        self.spus: Mapping[SpuId, Spu] = MappingProxyType(self._spus)
        self.spu_groups: Mapping[str, SpuGroup] = MappingProxyType(self._spu_groups)
        """The SPU groups by name, in the order in which they were created."""
        self.topics: Mapping[str, Topic] = MappingProxyType(self._topics)
        self.topics_by_id: Mapping[TopicId, Topic] = MappingProxyType(self._topics_by_id)
        self.unfinished_topics: Mapping[str, Topic] = MappingProxyType(self._unfinished_topics)
        """By name, the topics that lack some of their rows; SPUs that come online may supply them."""
        self.partitions: Partitions = MappingProxyType(self._partitions)
        """All partitions, including those of deleted topics that can still be brought back."""
        self.deleted_topics: Mapping[TopicId, DeletedTopic] = MappingProxyType(self._deleted_topics)
        self.config_overrides: Mapping[str, ConfigOverrides] = MappingProxyType(self._config_overrides)
        """Broker configs set at run time, by the SPU's id as text, or under the empty name for all SPUs."""
        self.group_configs: Mapping[str, GroupConfigs] = MappingProxyType(self._group_configs)
        """Configs of consumer groups, by the group's id."""
        self.triggers: Mapping[str, Trigger] = MappingProxyType(self._triggers)
        self.archives: Mapping[str, ArchiveHead] = MappingProxyType(self._archives)
        """The heads of archives, by the ids of the archives."""
        self.security: Mapping[str, Mapping[str, SecurityEntry]] = MappingProxyType(
            {kind: MappingProxyType(entries) for kind, entries in self._security.items()}
        )
        """Users, access rules, quotas and delegation tokens: by kind, and then by key."""
        self._identity: ClusterIdentity | None = None
        self._producer_ids: ProducerIdBlock | None = None

    # state

    @property
    def identity(self) -> ClusterIdentity | None:
        return self._identity

    @property
    def producer_ids(self) -> ProducerIdBlock | None:
        return self._producer_ids

    def spus_of(self, group: str) -> Mapping[SpuId, Spu]:
        return _view(self._spus_by_group.get(group), _NO_SPUS)

    @property
    def groups_with_spus(self) -> tuple[str, ...]:
        """The group names of all managed SPUs, including groups that no longer exist."""
        return tuple(self._spus_by_group)

    def partitions_of(self, topic_id: TopicId) -> Mapping[int, Partition]:
        return _view(self._partitions_by_topic.get(topic_id), _NO_ROWS)

    @property
    def topics_with_partitions(self) -> tuple[TopicId, ...]:
        return tuple(self._partitions_by_topic)

    def held_by(self, spu: SpuId) -> Partitions:
        """Returns the partitions that have a replica on the SPU."""
        return _view(self._partitions_by_replica.get(spu), _NOTHING)

    def shelved_on(self, spu: SpuId) -> Partitions:
        """Returns the partitions with a shelf that the SPU stores or is filling."""
        return _view(self._partitions_by_shelf.get(spu), _NOTHING)

    def stream_state_of(self, topic: str) -> Mapping[str, StreamAttribute]:
        """Returns the attributes of a stream's state object, by consumer group."""
        return _view(self._stream_states.get(topic), _NO_ATTRIBUTES)

    @property
    def topics_with_stream_state(self) -> tuple[str, ...]:
        return tuple(self._stream_states)

    @property
    def security_bytes(self) -> int:
        """The size of all users, access rules, quotas and delegation tokens."""
        return self._security_bytes

    # changes

    def apply(self, event: Stored | Removed) -> Change[Object] | None:
        """Applies a change of the KV store, and returns it with the object before.

        Returns None if the change is not newer than what is known. That happens when a reader lists the store again.
        """
        if isinstance(event, Stored):
            current, key = event.object, key_of(event.object)
            previous = self._objects.get(key)
            if previous is not None and previous.version >= current.version:
                return None
            self._objects[key] = current
            self._index(previous, current)
            return Change(previous, current)
        previous = self._objects.get(event.key)
        if previous is None or previous.version > event.version:
            return None
        del self._objects[event.key]
        self._index(previous, None)
        return Change(previous, None)

    def _index(self, previous: Object | None, current: Object | None) -> None:
        match previous or current:
            case Partition():
                assert isinstance(previous, Partition | None) and isinstance(current, Partition | None)
                self._index_partition(previous, current)
            case _:
                if previous is not None and not isinstance(current, SpuGroup):  # A changed group keeps its place.
                    self._drop(previous)
                if current is not None:
                    self._add(current)

    def _index_partition(self, previous: Partition | None, current: Partition | None) -> None:
        """Updates the indexes of partitions. The common case, a new status, costs only a few assignments."""
        found = current or previous
        assert found is not None
        key = (found.topic_id, found.number)
        if current is None:
            del self._partitions[key]
            _drop_from(self._partitions_by_topic, found.topic_id, found.number)
        else:
            self._partitions[key] = current
            self._partitions_by_topic.setdefault(found.topic_id, {})[found.number] = current
        before = () if previous is None else previous.spec.replicas
        now = () if current is None else current.spec.replicas
        _index_by_spu(self._partitions_by_replica, key, current, before, now)
        if (previous is not None and previous.spec.shelves) or (current is not None and current.spec.shelves):
            before = () if previous is None else shelf_keepers_of(previous)
            now = () if current is None else shelf_keepers_of(current)
            _index_by_spu(self._partitions_by_shelf, key, current, before, now)

    def _drop(self, previous: Object) -> None:
        match previous:
            case Spu():
                del self._spus[previous.spec.id]
                if previous.spec.group is not None:
                    _drop_from(self._spus_by_group, previous.spec.group, previous.spec.id)
            case SpuGroup():
                del self._spu_groups[previous.name]
            case Topic():
                del self._topics[previous.name]
                del self._topics_by_id[previous.id]
                self._unfinished_topics.pop(previous.name, None)
            case DeletedTopic():
                del self._deleted_topics[previous.topic.id]
            case ConfigOverrides():
                del self._config_overrides[previous.spu]
            case GroupConfigs():
                del self._group_configs[previous.group]
            case ClusterIdentity():
                self._identity = None
            case ProducerIdBlock():
                self._producer_ids = None
            case StreamAttribute():
                _drop_from(self._stream_states, previous.topic, previous.group)
            case ArchiveHead():
                del self._archives[previous.archive]
            case Trigger():
                del self._triggers[previous.name]
            case SecurityEntry(record):
                del self._security[kind_of_record(record)][key_of_record(record)]
                self._security_bytes -= len(encode_record(record))

    def _add(self, current: Object) -> None:
        match current:
            case Spu():
                self._spus[current.spec.id] = current
                if current.spec.group is not None:
                    self._spus_by_group.setdefault(current.spec.group, {})[current.spec.id] = current
            case SpuGroup():
                self._spu_groups[current.name] = current
            case Topic():
                self._topics[current.name] = current
                self._topics_by_id[current.id] = current
                if not is_finished(current):
                    self._unfinished_topics[current.name] = current
            case DeletedTopic():
                self._deleted_topics[current.topic.id] = current
            case ConfigOverrides():
                self._config_overrides[current.spu] = current
            case GroupConfigs():
                self._group_configs[current.group] = current
            case ClusterIdentity():
                self._identity = current
            case ProducerIdBlock():
                self._producer_ids = current
            case StreamAttribute():
                self._stream_states.setdefault(current.topic, {})[current.group] = current
            case ArchiveHead():
                self._archives[current.archive] = current
            case Trigger():
                self._triggers[current.name] = current
            case SecurityEntry(record):
                self._security[kind_of_record(record)][key_of_record(record)] = current
                self._security_bytes += len(encode_record(record))


def is_finished(topic: Topic) -> bool:
    """Tells whether the topic has a row for each of its partitions."""
    status = topic.status
    return status.resolution is TopicResolution.PROVISIONED and len(status.replica_map) >= topic.spec.partitions


def _view(found: dict[K, V] | None, empty: Mapping[K, V]) -> Mapping[K, V]:
    return empty if found is None else MappingProxyType(found)


def _index_by_spu(
    index: dict[SpuId, dict[PartitionKey, Partition]],
    key: PartitionKey,
    current: Partition | None,
    before: tuple[SpuId, ...],
    now: tuple[SpuId, ...],
) -> None:
    for spu in before:
        if spu not in now:
            _drop_from(index, spu, key)
    if current is not None:
        for spu in now:
            index.setdefault(spu, {})[key] = current


def _drop_from(index: dict[N, dict[K, V]], name: N, key: K) -> None:
    """Removes the key from the index, and the name when it has no keys left."""
    rows = index[name]
    del rows[key]
    if not rows:
        del index[name]
