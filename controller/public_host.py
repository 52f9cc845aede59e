"""The host that serves clients of the SC: which APIs it serves, and with which handlers.

Kafka's admin clients can inspect and change the cluster here. Producers, consumers and groups use the SPUs, whose
addresses they get from Metadata. The command line's own APIs are served as well, but not advertised, since Kafka's
clients do not know them.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

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
from tailrace.protocol.internal.describe_server import DescribeServerResponse
from tailrace.protocol.internal.forward import ForwardRequest, ForwardResponse
from tailrace.protocol.internal_apis import SC_OBJECT_APIS
from tailrace.runtime.files import UnreadableError
from tailrace.security.identity.principal import ANONYMOUS, PrincipalError, parse_principal
from tailrace.server.handlers import ADMINISTRATIVE, SHARED, load, load_administrative
from tailrace.server.host import NO_SPU
from tailrace.server.request_context import PLAINTEXT, ClientIdentity, Reply, RequestContext, request_without_connection
from tailrace.server.request_routes import Route
from tailrace.server.throttling.counted_mutations import CountedMutations
from tailrace.server.throttling.server_quotas import ServerQuotas

if TYPE_CHECKING:
    from tailrace.controller.administration.archive_requests import ArchiveRequests
    from tailrace.controller.administration.trigger_requests import TriggerRequests
    from tailrace.server.auditing.audit_trail import AuditTrail

ADVERTISED: Mapping[int, Api] = {
    key: api for key, api in API_TABLE.items() if key in SHARED | ADMINISTRATIVE | handlers.OWN
}
KNOWN: Mapping[int, Api] = {**ADVERTISED, **SC_OBJECT_APIS}
AUTO_CREATE_MS_MAX = 2_000
"""How long a metadata request waits for topics that it creates. It delays the client's next requests, and the client
repeats it for topics that do not exist yet."""


class PublicHost:
    """The SC for its clients, and for SPUs that forward requests of clients."""

    def __init__(
        self,
        cluster: Cluster,
        broker_configs: BrokerConfigs,
        quotas: ServerQuotas,
        administration: AdminRequests,
        objects: ObjectAdministration,
        local: LocalStore,
        status_changes: StatusChanges,
        ask_spu: Callable[[SpuId, Any], Awaitable[Any]],
        connections: Callable[[], Sequence[ConnectionRow]],
        controllers: Callable[[], Sequence[ControllerRow]],
        describe_server: Callable[[], DescribeServerResponse],
        trigger_requests: Callable[[], "TriggerRequests"],
        archive_requests: Callable[[], "ArchiveRequests"],
        audit: "AuditTrail | None" = None,
    ) -> None:
        self.id: SpuId = NO_SPU
        self.cluster = cluster
        self.broker_configs = broker_configs
        self.quotas = quotas
        self.administration = administration
        self.objects = objects
        self.local = local
        self.status_changes = status_changes
        self.ask_spu = ask_spu
        self.connections = connections
        self.controllers = controllers
        self.describe_server = describe_server
        self.trigger_requests = trigger_requests
        self.archive_requests = archive_requests
        self.apis = ADVERTISED
        self._audit = audit

    # called by connections of clients

    def route(self, api_key: int, api_version: int) -> Route | None:
        api = KNOWN.get(api_key)
        if api is None or not api.serves(api_version):
            return None
        return Route(decoder(api.request, api_version), self._handle(api_key))

    def partition_count(self) -> int:
        """Returns how many partitions the cluster has."""
        return self.cluster.partition_count()

    def end_turn(self) -> None:
        """Does nothing, since no request waits for what others append."""

    def on_unreadable(self, error: UnreadableError) -> None:
        raise AssertionError("the SC sends no files") from error

    # called by handlers

    async def create_topics(
        self, topics: Sequence[NewTopic], context: RequestContext | None = None
    ) -> list[TopicSpec | KafkaError]:
        """Creates the topics that a metadata request names. A timeout becomes Kafka's error for a topic in creation."""
        mutations = CountedMutations(None if context is None else context.mutations)
        mutations.take(sum(topic.partitions for topic in topics))
        created = await self.administration.create_topics(topics, timeout_ms=AUTO_CREATE_MS_MAX)
        for topic, outcome in zip(topics, created, strict=True):
            if isinstance(outcome, KafkaError):
                mutations.give_back(topic.partitions, outcome)
        if context is not None:
            context.throttle_ms = mutations.throttle_ms
        return [
            KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, each.message)
            if isinstance(each, KafkaError) and each.code is ErrorCode.REQUEST_TIMED_OUT
            else each
            for each in created
        ]

    # called for SPUs

    async def forward(self, asked: ForwardRequest) -> ForwardResponse:
        """Carries out a request that an SPU forwards for a client. Raises KafkaError.

        Returns the response for the client, and the version of the mirror that includes all effects of the request.
        """
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
        context = request_without_connection(asked.api_key, asked.api_version, _client_of(asked), asked.client_id)
        if asked.principal:
            context.mutations = self.quotas.mutations(
                context.client.principal, asked.client_id, asked.api_key, asked.api_version
            )
        reply = self._handle(asked.api_key)(context, request)
        assert isinstance(reply, Coroutine), "handlers that change the cluster are coroutines"
        response = await reply
        body = encode_whole(response, asked.api_version)
        return ForwardResponse(metadata_version=self.cluster.version, body=body)

    def _handle(self, api_key: int) -> Callable[[RequestContext, Any], Reply]:
        handle = self._bare_handler(api_key)
        if self._audit is None:
            return handle
        from tailrace.server.auditing.audited_changes import audited

        return audited(api_key, handle, self._audit)

    def _bare_handler(self, api_key: int) -> Callable[[RequestContext, Any], Reply]:
        if api_key in SHARED:
            return partial(load(api_key), self)
        if api_key in ADMINISTRATIVE:
            return partial(load_administrative(api_key), self)
        return partial(handlers.load(api_key), self)


def _client_of(asked: ForwardRequest) -> ClientIdentity:
    """Returns what the SPU that forwards a request knows of its client. Raises KafkaError."""
    try:
        principal = parse_principal(asked.principal) if asked.principal else ANONYMOUS
    except PrincipalError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"the client of a forwarded request is unknown: {error}") from error
    return ClientIdentity(
        asked.host or "an SPU",
        principal=principal,
        host=asked.host,
        protocol=asked.protocol or PLAINTEXT,
        mechanism=asked.mechanism,
        is_token=asked.is_token,
    )
