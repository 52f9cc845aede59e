"""Keeps the mirror of the cluster in step with the Local Store.

Clients' metadata requests are served from the mirror. A topic appears as a whole, when all its partitions exist and
have had their first election. So a client that was told that the topic is created can use it. Changes are collected and
published together, since the partitions of a topic tend to change together.
"""

from collections.abc import Iterable, Mapping
from itertools import islice

from msgspec import Struct, field
from msgspec.structs import replace

from tailrace.cluster.cluster import NO_CONTROLLER, Cluster
from tailrace.cluster.specs import Endpoint, SpuSpec, TopicSpec, WaitingTopic
from tailrace.cluster.specs import PartitionSpec as MirroredPartition
from tailrace.cluster.topic_names import INTERNAL_TOPICS
from tailrace.controller.objects.objects import (
    ClusterIdentity,
    ConfigOverrides,
    GroupConfigs,
    Object,
    Partition,
    PrivateEndpoint,
    SecurityEntry,
    Spu,
    SpuType,
    Topic,
    TopicResolution,
)
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import NO_EPOCH, SpuId, TopicId
from tailrace.security.records.security_records import key_of, kind_of

from .local_store import Change, LocalStore

PUBLIC = "PUBLIC"
"""The name of the listener for clients, whose address is part of an SPU's spec."""
PRIVATE = "PRIVATE"
"""The name of the listener for other SPUs."""


WAITING_TOPICS_MAX = 1000
"""How many topics that no client can use yet are mirrored. Clients are told that the others do not exist."""


class MirrorChange(Struct, frozen=True):
    """The differences between the mirror now and when it was last published."""

    spus: tuple[SpuSpec, ...] = ()
    removed_spus: tuple[SpuId, ...] = ()
    topics: tuple[TopicSpec, ...] = ()
    removed_topics: tuple[TopicId, ...] = ()
    partitions: Mapping[TopicId, frozenset[int]] = field(default_factory=dict)
    """The changed partitions of each topic in which nothing else has changed."""
    groups: tuple[str, ...] = ()
    """The consumer groups whose own configs have changed."""
    security: tuple[tuple[str, str], ...] = ()
    """The kinds and keys of users, access rules, quotas and delegation tokens that have changed."""
    is_identity_changed: bool = False
    """Whether the cluster's id, or the SPU to which clients send admin requests, has changed."""
    are_waiting_topics_changed: bool = False
    """Whether clients get an error for other topics than before, or another error."""
    are_overrides_changed: bool = False
    """Whether broker configs that were set at run time have changed.

    They are not part of the mirror, but its version rises with them as well: an SPU that has a version has the configs
    that belong to it.
    """

    def __bool__(self) -> bool:
        return self != NO_CHANGE


NO_CHANGE = MirrorChange()


class ClusterMirror:
    def __init__(self, store: LocalStore, cluster: Cluster) -> None:
        self._store = store
        self._cluster = cluster
        self._rows: dict[TopicId, dict[int, MirroredPartition]] = {}
        self._without_election: dict[TopicId, dict[int, Partition]] = {}
        self._changed_spus: dict[SpuId, None] = {}
        self._changed_topics: dict[TopicId, bool] = {}
        """The changed topics, each with whether the topic itself has changed and not only its partitions."""
        self._changed_groups: dict[str, None] = {}
        self._changed_security: dict[tuple[str, str], None] = {}
        self._is_identity_changed = False
        self._are_overrides_changed = False

    def on_change(self, change: Change[Object]) -> None:
        """Notes which parts of the mirror a change of the Local Store concerns. The mirror changes in `publish`."""
        match change.current or change.previous:
            case Partition() as partition:
                self._note_partition(partition, is_there=change.current is not None)
            case Topic():
                for topic in (change.previous, change.current):
                    if isinstance(topic, Topic):
                        self._changed_topics[topic.id] = True
            case Spu(spec):
                self._changed_spus[spec.id] = None
                self._is_identity_changed = True
                for topic_id in self._without_election:
                    self._changed_topics.setdefault(topic_id, False)
            case ClusterIdentity():
                self._is_identity_changed = True
            case ConfigOverrides():
                self._are_overrides_changed = True
            case GroupConfigs(group):
                self._changed_groups[group] = None
            case SecurityEntry(record):
                self._changed_security[kind_of(record), key_of(record)] = None

    def publish(self) -> MirrorChange:
        """Brings the mirror up to date and returns what has changed."""
        spus, removed_spus = self._publish_spus()
        topics, removed_topics, partitions = self._publish_topics()
        are_waiting_topics_changed = bool(self._changed_topics) and self._publish_waiting_topics()
        groups = self._publish_groups()
        security = self._publish_security()
        is_identity_changed = self._is_identity_changed and self._publish_identity()
        are_overrides_changed = self._are_overrides_changed
        if are_overrides_changed:
            self._cluster.identify(self._cluster.cluster_id, self._cluster.controller_id)
        self._changed_spus.clear()
        self._changed_topics.clear()
        self._changed_groups.clear()
        self._changed_security.clear()
        self._is_identity_changed = False
        self._are_overrides_changed = False
        return MirrorChange(
            tuple(spus),
            tuple(removed_spus),
            tuple(topics),
            tuple(removed_topics),
            partitions,
            tuple(groups),
            tuple(security),
            is_identity_changed,
            are_waiting_topics_changed,
            are_overrides_changed,
        )

    def _note_partition(self, partition: Partition, *, is_there: bool) -> None:
        topic_id, number = partition.topic_id, partition.number
        rows = self._rows.setdefault(topic_id, {})
        waiting = self._without_election.setdefault(topic_id, {})
        waiting.pop(number, None)
        before = rows.pop(number, None)
        if is_there:
            rows[number] = _mirrored(partition)
            if partition.status.epoch == NO_EPOCH:
                waiting[number] = partition
        if rows.get(number) != before:
            self._changed_topics.setdefault(topic_id, False)
        if not rows:
            del self._rows[topic_id]
        if not waiting:
            del self._without_election[topic_id]

    def _publish_spus(self) -> tuple[list[SpuSpec], list[SpuId]]:
        put, removed = [], []
        for spu_id in self._changed_spus:
            spu, before = self._store.spus.get(spu_id), self._cluster.spus.get(spu_id)
            if spu is None:
                if before is not None:
                    self._cluster.remove_spu(spu_id)
                    removed.append(spu_id)
            elif (now := mirrored_spu(spu)) != before:
                self._cluster.put_spu(now)
                put.append(now)
        return put, removed

    def _publish_topics(self) -> tuple[list[TopicSpec], list[TopicId], dict[TopicId, frozenset[int]]]:
        put, removed, partitions = [], [], {}
        for topic_id, is_itself in self._changed_topics.items():
            is_known = self._cluster.topic_by_id(topic_id) is not None
            if topic_id not in self._store.topics_by_id and (is_known or is_itself):
                self._cluster.remove_topic(topic_id)
                removed.append(topic_id)  # Also if this SC hides the topic: SPUs may know it from another SC.
        for topic_id in self._changed_topics:
            topic = self._store.topics_by_id.get(topic_id)
            now = None if topic is None else self._mirrored_topic(topic)
            before = self._cluster.topic_by_id(topic_id)
            if now is not None and now != before:
                self._cluster.put_topic(now)
                put.append(now)
                if before is not None and replace(before, partitions=now.partitions) == now:
                    changed = _changed_partitions(before, now)
                    if changed is not None:
                        partitions[topic_id] = changed
        return put, removed, partitions

    def _publish_waiting_topics(self) -> bool:
        before = self._cluster.version
        hidden = (each for each in self._store.unfinished_topics.values() if each.name not in self._cluster.topics)
        waiting = (_waiting_topic(each) for each in hidden)
        self._cluster.put_waiting_topics(islice((each for each in waiting if each is not None), WAITING_TOPICS_MAX))
        return self._cluster.version != before

    def _publish_groups(self) -> list[str]:
        changed = []
        for group in self._changed_groups:
            found = self._store.group_configs.get(group)
            now = {} if found is None else found.configs
            if now != self._cluster.group_configs.get(group, {}):
                self._cluster.put_group_configs(group, now)
                changed.append(group)
        return changed

    def _publish_security(self) -> list[tuple[str, str]]:
        changed = []
        for kind, key in self._changed_security:
            entry, before = self._store.security[kind].get(key), self._cluster.security.of_kind(kind).get(key)
            if entry is None:
                self._cluster.remove_security(kind, key)
            elif entry.record != before:
                self._cluster.put_security(entry.record)
            else:
                continue
            changed.append((kind, key))
        return changed

    def _publish_identity(self) -> bool:
        identity = self._store.identity
        cluster_id = "" if identity is None else identity.cluster_id
        controller_id = min((spu.id for spu in self._cluster.spus.values() if spu.online), default=NO_CONTROLLER)
        secret = b"" if identity is None else identity.login_secret.reveal().encode()
        mirrored = self._cluster.cluster_id, self._cluster.controller_id, self._cluster.security.login_secret
        if (cluster_id, controller_id, secret) == mirrored:
            return False
        self._cluster.security.login_secret = secret
        self._cluster.identify(cluster_id, controller_id)
        return True

    def _mirrored_topic(self, topic: Topic) -> TopicSpec | None:
        """Returns the topic as clients see it, or None if it is still hidden.

        A topic that grows shows only its old partitions until all new ones are ready.
        """
        if topic.status.resolution is not TopicResolution.PROVISIONED:
            return None
        rows = self._rows.get(topic.id, {})
        before = self._cluster.topic_by_id(topic.id)
        count = len(topic.status.replica_map)
        if len(rows) < count or self._awaits_election(topic.id):
            if before is None:
                return None
            count = len(before.partitions)
        wanted = topic.status.replica_map
        partitions = tuple(_in_order(rows[number], wanted.get(number, ())) for number in range(count) if number in rows)
        if len(partitions) < count:
            return None
        return TopicSpec(topic.id, topic.name, topic.spec.configs, partitions, internal=topic.name in INTERNAL_TOPICS)

    def _awaits_election(self, topic_id: TopicId) -> bool:
        """Tells whether a partition still awaits its first election, which needs at least one replica online."""
        spus = self._store.spus
        waiting: Iterable[Partition] = self._without_election.get(topic_id, {}).values()
        return any(spu in spus and spus[spu].is_online for partition in waiting for spu in partition.spec.replicas)


def mirrored_spu(spu: Spu) -> SpuSpec:
    """Returns the SPU as the mirror shows it."""
    return SpuSpec(spu.spec.id, spu.spec.rack, _endpoints(spu), spu.is_online, _private_endpoint(spu))


def _private_endpoint(spu: Spu) -> Endpoint | None:
    """Returns the endpoint for other SPUs: the one in the spec of a custom SPU, else the one that the SPU reports.

    The default of the spec counts as not given.
    """
    private, reported = spu.spec.private, spu.status.private
    if spu.spec.type is SpuType.CUSTOM and private.port and private != PrivateEndpoint() and reported is not None:
        return Endpoint(PRIVATE, private.host, private.port)
    return None if reported is None else Endpoint(PRIVATE, reported.host, reported.port)


def _waiting_topic(topic: Topic) -> WaitingTopic | None:
    """Returns the error for a topic that the controller cannot give replicas to, or None for other topics.

    Kafka's brokers use the same codes if they cannot create a topic that a client asks for. Most clients report them
    and ask again, so they find the topic when it has replicas.
    """
    match topic.status.resolution:
        case TopicResolution.INSUFFICIENT_RESOURCES:
            return WaitingTopic(topic.id, topic.name, ErrorCode.INVALID_REPLICATION_FACTOR)
        case TopicResolution.INVALID_CONFIG:
            error = ErrorCode.INVALID_REPLICA_ASSIGNMENT if topic.spec.replica_map else ErrorCode.INVALID_PARTITIONS
            return WaitingTopic(topic.id, topic.name, error)
        case _:
            return None


def _endpoints(spu: Spu) -> tuple[Endpoint, ...]:
    """Returns the endpoints that the SPU reports; what the spec of a custom SPU says takes precedence."""
    reported = {
        each.name: Endpoint(each.name, each.host, each.port, each.on_all_addresses) for each in spu.status.listeners
    }
    public = spu.spec.public
    if spu.spec.type is SpuType.CUSTOM and public.port and public.ingress:
        reported[PUBLIC] = Endpoint(PUBLIC, public.ingress[0], public.port)
    return tuple(reported.values())


def _mirrored(partition: Partition) -> MirroredPartition:
    status = partition.status
    return MirroredPartition(
        partition.topic_id,
        partition.topic,
        partition.number,
        status.leads,
        status.epoch,
        partition.spec.replicas,
        tuple(status.live_replicas),
    )


def _in_order(partition: MirroredPartition, wanted: tuple[SpuId, ...]) -> MirroredPartition:
    """Orders replicas as Kafka does during a reassignment: those that stay or are added before those that leave."""
    replicas = partition.replicas
    if replicas == wanted:
        return partition
    stay = (spu for spu in wanted if spu in replicas)
    leave = (spu for spu in replicas if spu not in wanted)
    return replace(partition, replicas=(*stay, *leave))


def _changed_partitions(before: TopicSpec, now: TopicSpec) -> frozenset[int] | None:
    """Returns the partitions that differ, or None if the number of partitions has changed."""
    if len(before.partitions) != len(now.partitions):
        return None
    both = zip(before.partitions, now.partitions, strict=True)
    return frozenset(after.partition for earlier, after in both if earlier is not after and earlier != after)
