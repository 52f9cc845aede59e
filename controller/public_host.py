"""The SC as its clients meet it: which requests it answers, and with what.

Kafka's admin clients find all that they need to look around and to change the cluster; producers, consumers and groups
belong to the SPUs, to whose addresses Metadata leads them. The command line's own requests are answered beside Kafka's,
but not advertised: Kafka's clients would not know them.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any

from tailrace.cluster.cluster import Cluster
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.specs import TopicSpec
from tailrace.cluster.topic_planning import NewTopic
from tailrace.controller import handlers
from tailrace.controller.administration.admin_requests import AdminRequests
from tailrace.controller.administration.object_administration import ObjectAdministration
from tailrace.controller.connections.connection_documents import ConnectionRow
from tailrace.controller.inspection.controller_documents import ControllerRow
from tailrace.controller.state.local_store import LocalStore
from tailrace.controller.state.status_changes import StatusChanges
from tailrace.protocol.apis import API_TABLE, Api
from tailrace.protocol.codec.compile import decode, decoder, encode_whole
from tailrace.protocol.error_codes import ErrorCode, KafkaError, RemoteProtocolError
from tailrace.protocol.ids import SpuId
from tailrace.protocol.internal.forward import ForwardRequest, ForwardResponse
from tailrace.protocol.internal_apis import SC_OBJECT_APIS
from tailrace.runtime.files import UnreadableError
from tailrace.server.client_connection import Route
from tailrace.server.handlers import ADMINISTRATIVE, SHARED, load, load_administrative
from tailrace.server.host import NO_SPU
from tailrace.server.request_context import request_without_connection

ADVERTISED: Mapping[int, Api] = {
    key: api for key, api in API_TABLE.items() if key in SHARED | ADMINISTRATIVE | handlers.OWN
}
KNOWN: Mapping[int, Api] = {**ADVERTISED, **SC_OBJECT_APIS}
AUTO_CREATE_MS_MAX = 2_000
"""A metadata request holds up all that its client asks next; it will ask again for what is not there yet."""


class PublicHost:
    def __init__(
        self,
        cluster: Cluster,
        broker_configs: BrokerConfigs,
        administration: AdminRequests,
        objects: ObjectAdministration,
        local: LocalStore,
        status_changes: StatusChanges,
        ask_spu: Callable[[SpuId, Any], Awaitable[Any]],
        connections: Callable[[], Sequence[ConnectionRow]],
        controllers: Callable[[], Sequence[ControllerRow]],
    ) -> None:
        self.id: SpuId = NO_SPU
        self.cluster = cluster
        self.broker_configs = broker_configs
        self.administration = administration
        self.objects = objects
        self.local = local
        self.status_changes = status_changes
        self.ask_spu = ask_spu
        self.connections = connections
        self.controllers = controllers
        self.apis = ADVERTISED

    # what clients' connections call

    def route(self, api_key: int, api_version: int) -> Route | None:
        api = KNOWN.get(api_key)
        if api is None or not api.serves(api_version):
            return None
        return Route(decoder(api.request, api_version), self._handle(api_key))

    def end_turn(self) -> None:
        """Nobody here waits for what others append."""

    def on_unreadable(self, error: UnreadableError) -> None:
        raise AssertionError("no files are sent from here") from error

    # what handlers call

    async def create_topics(self, topics: Sequence[NewTopic]) -> list[TopicSpec | KafkaError]:
        """Those that a metadata request wants; what takes too long is what Kafka says of a topic in the making."""
        created = await self.administration.create_topics(topics, timeout_ms=AUTO_CREATE_MS_MAX)
        return [
            KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, each.message)
            if isinstance(each, KafkaError) and each.code is ErrorCode.REQUEST_TIMED_OUT
            else each
            for each in created
        ]

    # what SPUs ask for their clients

    async def forward(self, asked: ForwardRequest) -> ForwardResponse:
        """The answer, and the version of the mirror in which all of it has happened. Raises KafkaError."""
        api = ADVERTISED.get(asked.api_key)
        if api is None or asked.api_key not in ADMINISTRATIVE or not api.serves(asked.api_version):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"API {asked.api_key} in version {asked.api_version} is not handled by the Streaming Controller",
            )
        try:
            request = decode(api.request, asked.api_version, asked.body, elements_max=len(asked.body))
        except RemoteProtocolError as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"a forwarded {api.name} cannot be read: {error}") from error
        context = request_without_connection(asked.api_key, asked.api_version, "an SPU")
        reply = load_administrative(asked.api_key)(self, context, request)
        assert isinstance(reply, Coroutine), "what changes the cluster takes its time"
        response = await reply
        body = encode_whole(response, asked.api_version)
        return ForwardResponse(metadata_version=self.cluster.version, body=body)

    def _handle(self, api_key: int) -> partial[object]:
        if api_key in SHARED:
            return partial(load(api_key), self)
        if api_key in ADMINISTRATIVE:
            return partial(load_administrative(api_key), self)
        return partial(handlers.load(api_key), self)
