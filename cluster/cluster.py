"""The mirror of the cluster that handlers read: SPUs, topics, partitions, and what consumer groups set themselves.

Only the source of specs changes it, so that everything a client is told was decided in one place. Reads are plain
attribute and dictionary lookups: they stand on the path of every metadata request.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tailrace.protocol.ids import SpuId, TopicId

from .specs import PartitionSpec, SpuSpec, TopicSpec

NO_CONTROLLER = SpuId(-1)


class Cluster:
    def __init__(self) -> None:
        self.cluster_id = ""
        self.controller_id = NO_CONTROLLER
        """The SPU that clients are told to send admin requests to."""
        self.version = 0
        """Rises with every change, so that what was made from this mirror can be kept until it is stale."""
        self.topics_version = 0
        """Rises when there is another topic, one less, or one with another number of partitions."""
        self._spus: dict[SpuId, SpuSpec] = {}
        self._topics: dict[str, TopicSpec] = {}
        self._topics_by_id: dict[TopicId, TopicSpec] = {}
        self._group_configs: dict[str, Mapping[str, str]] = {}
        self.spus: Mapping[SpuId, SpuSpec] = MappingProxyType(self._spus)
        self.lost_at: dict[SpuId, float] = {}
        """When SPUs went offline, by the clock of whoever keeps this mirror and saw it."""
        self.topics: Mapping[str, TopicSpec] = MappingProxyType(self._topics)
        self.group_configs: Mapping[str, Mapping[str, str]] = MappingProxyType(self._group_configs)
        """What consumer groups set themselves, by their ids; those that set nothing are not named."""
        self.gone_watchers: list[Callable[[TopicSpec], None]] = []
        """Called with each topic that was here and is not any more, also when another one has its name."""

    # what is

    def topic_by_id(self, topic_id: TopicId) -> TopicSpec | None:
        return self._topics_by_id.get(topic_id)

    def partition(self, topic: str | TopicId, partition: int) -> PartitionSpec | None:
        spec = self._topics.get(topic) if isinstance(topic, str) else self._topics_by_id.get(topic)
        if spec is None or not 0 <= partition < len(spec.partitions):
            return None
        return spec.partitions[partition]

    # what the source of specs says

    def identify(self, cluster_id: str, controller_id: SpuId) -> None:
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.version += 1

    def put_spu(self, spu: SpuSpec) -> None:
        self._spus[spu.id] = spu
        self.version += 1

    def remove_spu(self, spu: SpuId) -> None:
        self._spus.pop(spu, None)
        self.version += 1

    def put_topic(self, topic: TopicSpec) -> None:
        """Adds the topic or replaces what was known of it."""
        before = self._topics.get(topic.name)
        if before is None or before.id != topic.id or len(before.partitions) != len(topic.partitions):
            self.topics_version += 1
        if before is not None and before.id != topic.id:
            self.remove_topic(before.id)
        self._topics[topic.name] = topic
        self._topics_by_id[topic.id] = topic
        self.version += 1

    def remove_topic(self, topic_id: TopicId) -> None:
        topic = self._topics_by_id.pop(topic_id, None)
        if topic is not None:
            del self._topics[topic.name]
            self.version += 1
            for watcher in self.gone_watchers:
                watcher(topic)
            self.topics_version += 1

    def put_group_configs(self, group: str, configs: Mapping[str, str]) -> None:
        """All that the group sets itself, which may be nothing any more."""
        if configs:
            self._group_configs[group] = configs
        else:
            self._group_configs.pop(group, None)
        self.version += 1
