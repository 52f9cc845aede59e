"""What shared handlers need of the server that they run in: an SPU, or the Streaming Controller."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from tailrace.cluster.cluster import Cluster
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.specs import TopicSpec
from tailrace.cluster.topic_planning import NewTopic
from tailrace.protocol.apis import Api
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.ids import SpuId

from .administration import Administration

NO_SPU = SpuId(-1)


class Host(Protocol):
    @property
    def id(self) -> SpuId:
        """NO_SPU on the Streaming Controller."""

    @property
    def cluster(self) -> Cluster:
        """The mirror that clients are answered from."""

    @property
    def broker_configs(self) -> BrokerConfigs: ...

    @property
    def apis(self) -> Mapping[int, Api]:
        """What ApiVersions lists."""

    async def create_topics(self, topics: Sequence[NewTopic]) -> list[TopicSpec | KafkaError]:
        """For each, in the same order: the topic, which is in the mirror by now, or why there is none. Raises
        KafkaError when none could be created."""


class AdministeringHost(Host, Protocol):
    """One that answers admin requests itself."""

    @property
    def administration(self) -> Administration: ...
