"""A host of the shared handlers that is not an SPU, like the Streaming Controller."""

from collections.abc import Mapping, Sequence
from enum import IntEnum

from msgspec import Struct, field

from tailrace.cluster.advertised_addresses import ConnectedListener
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.specs import TopicSpec
from tailrace.cluster.topic_planning import NewTopic
from tailrace.protocol.apis import API_TABLE, Api
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import SpuId
from tailrace.server.host import NO_SPU
from tailrace.server.request_context import ClientIdentity, RequestContext


class ControllerHost(Struct):
    id: SpuId = NO_SPU
    cluster: Cluster = field(default_factory=Cluster)
    broker_configs: BrokerConfigs = field(default_factory=lambda: BrokerConfigs({}))
    apis: Mapping[int, Api] = field(default_factory=lambda: API_TABLE)

    async def create_topics(
        self, topics: Sequence[NewTopic], context: RequestContext | None = None
    ) -> list[TopicSpec | KafkaError]:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "nothing is created here")


def request_of(api_key: IntEnum, version: int | None = None) -> RequestContext:
    """Makes a request, in its newest version by default, from a client that is connected to controller:9003."""
    newest = API_TABLE[api_key].max_version if api_key in API_TABLE else 0
    return RequestContext(
        api_key,
        newest if version is None else version,
        7,
        "me",
        ConnectedListener("PUBLIC", ("controller", 9003)),
        ClientIdentity("192.0.2.1:5"),
        0.0,
        lambda context: None,
    )
