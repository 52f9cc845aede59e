"""The interface that the shared handlers need from the server that they run in, an SPU or the Streaming Controller."""

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
from .request_context import RequestContext

NO_SPU = SpuId(-1)


class Host(Protocol):
    """A server that answers clients from its mirror of the cluster."""

    @property
    def id(self) -> SpuId:
        """The id of this SPU; NO_SPU on the Streaming Controller."""

    @property
    def cluster(self) -> Cluster:
        """The mirror of the cluster."""

    @property
    def broker_configs(self) -> BrokerConfigs:
        """The broker configs that apply now."""

    @property
    def apis(self) -> Mapping[int, Api]:
        """The APIs that ApiVersions lists."""

    async def create_topics(
        self, topics: Sequence[NewTopic], context: RequestContext | None = None
    ) -> list[TopicSpec | KafkaError]:
        """Creates topics; returns, in the same order, each topic or the reason why it was not created.

        With the request of a client, they count against its quota on changes. They are created nevertheless, and
        `context.throttle_ms` says how long the client has to wait.

        The mirror has the new topics when this returns. Raises KafkaError if no topic could be created.
        """


class AdministeringHost(Host, Protocol):
    """A server that carries out admin requests itself."""

    @property
    def administration(self) -> Administration:
        """Changes the cluster."""
