"""The mirror of the cluster that handlers read: SPUs, topics, partitions, configs of groups, and security.

Only the source of specs changes the mirror, so everything that clients are told was decided in one place. Reads are
plain lookups in attributes and dictionaries, because every Metadata request needs them.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from tailrace.protocol.ids import SpuId, TopicId
from tailrace.security.records.security_records import SecurityRecord
from tailrace.security.records.security_tables import SecurityTables

from .specs import PartitionSpec, SpuSpec, TopicSpec, WaitingTopic

NO_CONTROLLER = SpuId(-1)
LOOPBACK_HOSTS = frozenset({"127.0.0.1", "::1"})


class Cluster:
    """The mirror of the cluster on one server."""

    def __init__(self) -> None:
        self.cluster_id = ""
        self.controller_id = NO_CONTROLLER
        """The SPU to which clients are told to send admin requests."""
        self.machine_hosts: frozenset[str] = frozenset()
        """The addresses that servers on the machine of this server report if they listen on all its addresses."""
        self.version = 0
        """A number that rises with every change, so that results computed from the mirror can be cached."""
        self.topics_version = 0
        """A number that rises when a topic is added or removed, or its number of partitions changes."""
        self._spus: dict[SpuId, SpuSpec] = {}
        self._topics: dict[str, TopicSpec] = {}
        self._topics_by_id: dict[TopicId, TopicSpec] = {}
        self._group_configs: dict[str, Mapping[str, str]] = {}
        self.spus: Mapping[SpuId, SpuSpec] = MappingProxyType(self._spus)
        self.lost_at: dict[SpuId, float] = {}
        """When SPUs went offline, by the clock of the server that keeps this mirror."""
        self.topics: Mapping[str, TopicSpec] = MappingProxyType(self._topics)
        self.group_configs: Mapping[str, Mapping[str, str]] = MappingProxyType(self._group_configs)
        """The configs of consumer groups, by group id; groups without configs of their own are left out."""
        self.waiting_topics: Mapping[str, WaitingTopic] = MappingProxyType({})
        """By name, the topics that no client can use yet, so that clients are told the reason."""
        self.security = SecurityTables()
        """The users, access rules, quotas and delegation tokens. They have a version of their own."""
        self._hidden_topics: set[TopicId] = set()
        """The topics that exist, but whose current state the controller does not tell yet."""
        self.gone_watchers: list[Callable[[TopicSpec], None]] = []
        """Functions to call with each topic that was removed, even if a new topic has its name."""

    # state

    def topic_by_id(self, topic_id: TopicId) -> TopicSpec | None:
        """Returns the topic of an id, if it exists."""
        return self._topics_by_id.get(topic_id)

    def partition_count(self) -> int:
        """Counts the partitions of all topics."""
        return sum(len(topic.partitions) for topic in self._topics.values())

    def partition(self, topic: str | TopicId, partition: int) -> PartitionSpec | None:
        """Returns a partition of the topic with a name or id, if it exists."""
        spec = self._topics.get(topic) if isinstance(topic, str) else self._topics_by_id.get(topic)
        if spec is None or not 0 <= partition < len(spec.partitions):
            return None
        return spec.partitions[partition]

    def may_lack(self, topic: str) -> bool:
        """Returns whether the topic of this name may have partitions that this mirror does not have yet.

        A controller that has just begun may know that a topic exists, but not yet what is in it, nor its name.
        """
        if not self._hidden_topics:
            return False
        found = self._topics.get(topic)
        if found is not None:
            return found.id in self._hidden_topics
        names = {each.id: each.name for each in self.waiting_topics.values()}
        names |= {topic_id: each.name for topic_id, each in self._topics_by_id.items()}
        return any(names.get(topic_id, topic) == topic for topic_id in self._hidden_topics)

    # called by the source of specs

    def identify(self, cluster_id: str, controller_id: SpuId) -> None:
        """Sets the ids of the cluster and of the SPU for admin requests."""
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.version += 1

    def put_spu(self, spu: SpuSpec) -> None:
        """Adds or replaces an SPU."""
        self._spus[spu.id] = spu
        self.version += 1

    def remove_spu(self, spu: SpuId) -> None:
        """Removes an SPU."""
        self._spus.pop(spu, None)
        self.version += 1

    def put_topic(self, topic: TopicSpec) -> None:
        """Adds or replaces a topic."""
        before = self._topics.get(topic.name)
        if before is None or before.id != topic.id or len(before.partitions) != len(topic.partitions):
            self.topics_version += 1
        if before is not None and before.id != topic.id:
            self.remove_topic(before.id)
        self._topics[topic.name] = topic
        self._topics_by_id[topic.id] = topic
        self._hidden_topics.discard(topic.id)
        self.version += 1

    def remove_topic(self, topic_id: TopicId) -> None:
        """Removes a topic, if it exists, and calls the watchers."""
        self._hidden_topics.discard(topic_id)
        topic = self._topics_by_id.pop(topic_id, None)
        if topic is not None:
            del self._topics[topic.name]
            self.version += 1
            for watcher in self.gone_watchers:
                watcher(topic)
            self.topics_version += 1

    def put_waiting_topics(self, topics: Iterable[WaitingTopic]) -> None:
        """Replaces the topics that no client can use yet."""
        waiting = {topic.name: topic for topic in topics}
        if waiting != self.waiting_topics:
            self.waiting_topics = MappingProxyType(waiting)
            self.version += 1

    def put_hidden_topics(self, topics: Iterable[TopicId]) -> None:
        """Replaces the topics whose current state is not known yet, until they are put or removed."""
        self._hidden_topics = set(topics)

    def put_group_configs(self, group: str, configs: Mapping[str, str]) -> None:
        """Replaces the configs of a group; they may be empty."""
        if configs:
            self._group_configs[group] = configs
        else:
            self._group_configs.pop(group, None)
        self.version += 1

    def put_security(self, record: SecurityRecord) -> None:
        """Adds or replaces a user, an access rule, a quota or a delegation token."""
        self.security.put(record)
        self.version += 1

    def remove_security(self, kind: str, key: str) -> None:
        """Removes a user, an access rule, a quota or a delegation token, if it exists."""
        self.security.remove(kind, key)
        self.version += 1
