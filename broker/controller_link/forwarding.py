"""Forwards requests that change the cluster to the Streaming Controller.

Only the controller changes the cluster, but clients may send such requests to any SPU. A request is forwarded in the
client's version of the message, so that the response can be passed on unchanged. The
response is sent when the local mirror of the cluster has the change.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import trio

from tailrace.cluster.cluster import Cluster
from tailrace.cluster.specs import TopicSpec
from tailrace.cluster.topic_planning import NewTopic
from tailrace.protocol.apis import API_TABLE, ApiKey
from tailrace.protocol.codec.compile import decode, encode_whole
from tailrace.protocol.error_codes import ErrorCode, KafkaError, known_code
from tailrace.protocol.internal.forward import ForwardRequest, ForwardResponse
from tailrace.server.request_context import ClientIdentity, EncodedBody, RequestContext

from .mirror_updater import MirrorUpdater
from .sc_connection import ScUnreachableError

if TYPE_CHECKING:
    from tailrace.protocol.messages.create_topics import CreatableTopic, CreatableTopicResult

FORWARD_MS_MIN = 1000
"""The shortest timeout. A client that does not want to wait gives a timeout of 0, but wants the request carried out."""
FORWARD_MS_MAX = 30_000
"""The longest timeout."""
PERMISSIVE_VERSION = 5
"""The last version of CreateTopics in which a client that has used up its quota gets its topics, and waits."""
UNREACHABLE = "the Streaming Controller cannot be reached, or did not finish in time"
AUTO_CREATE_SECONDS_MAX = 2.0
"""How long a metadata request waits for topics that it creates, and how long after a timeout requests do not wait.

A metadata request delays the next requests of its client, which asks again for topics that do not exist yet. Because
requests do not wait for a while after a timeout, they do not pile up.
"""


class Sc(Protocol):
    """The connection to the controller."""

    async def request(self, message: object) -> Any:
        """Waits for the controller's response and returns it. Raises ScUnreachableError."""


class Forwarding:
    def __init__(self, sc: Sc, cluster: Cluster, mirror: MirrorUpdater) -> None:
        self._sc = sc
        self._cluster = cluster
        self._mirror = mirror
        self._timed_out: dict[str, float] = {}
        """The topics that were not created in time, each with the time until which requests do not wait for it."""

    async def forward(self, context: RequestContext, request: object, timeout_ms: int) -> EncodedBody:
        """Returns the response without decoding it, because it may describe thousands of topics.

        Raises KafkaError if the controller did not respond in time. The request may have been carried out nevertheless.
        """
        try:
            with trio.fail_after(min(max(timeout_ms, FORWARD_MS_MIN), FORWARD_MS_MAX) / 1000):
                message = _message(context.api_key, context.api_version, request, context.client, context.client_id)
                return EncodedBody(await self._forward(message))
        except (trio.TooSlowError, ScUnreachableError) as error:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, str(error) or UNREACHABLE) from error

    async def create_topics(
        self, topics: Sequence[NewTopic], context: RequestContext | None = None
    ) -> list[TopicSpec | KafkaError]:
        """Creates the topics that a metadata request names, whose client's quota on changes counts them.

        Returns for each the topic, which is then in the mirror, or the error. Raises KafkaError if none could be
        created.
        """
        now = trio.current_time()
        self._timed_out = {name: until for name, until in self._timed_out.items() if until > now}
        wanted = [topic for topic in topics if topic.name not in self._timed_out]
        outcomes = await self._created_in_time(wanted, context) if wanted else {}
        # Kafka's error for a topic that is being created, which makes clients ask again.
        late = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, UNREACHABLE)
        return [outcomes.get(topic.name, late) for topic in topics]

    async def _created_in_time(
        self, topics: Sequence[NewTopic], context: RequestContext | None
    ) -> Mapping[str, TopicSpec | KafkaError]:
        """Creates topics. Returns the outcomes by name, or nothing if the controller was too slow or unreachable."""
        names = [topic.name for topic in topics]
        try:
            with trio.fail_after(AUTO_CREATE_SECONDS_MAX):
                return dict(zip(names, await self._create_topics(topics, context), strict=True))
        except ScUnreachableError:
            pass  # the request has not waited for long
        except trio.TooSlowError:
            self._timed_out |= dict.fromkeys(names, trio.current_time() + AUTO_CREATE_SECONDS_MAX)
        return {}

    async def _create_topics(
        self, topics: Sequence[NewTopic], context: RequestContext | None
    ) -> list[TopicSpec | KafkaError]:
        from tailrace.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse

        version, client, client_id = API_TABLE[ApiKey.CREATE_TOPICS].max_version, None, None
        if context is not None:
            version, client, client_id = PERMISSIVE_VERSION, context.client, context.client_id
        request = CreateTopicsRequest(topics=[_creatable(topic) for topic in topics])
        body = await self._forward(_message(ApiKey.CREATE_TOPICS, version, request, client, client_id))
        response = decode(CreateTopicsResponse, version, body, elements_max=len(body))
        if context is not None:
            context.throttle_ms = response.throttle_time_ms
        return [await self._outcome(result) for result in response.topics]

    async def _outcome(self, result: "CreatableTopicResult") -> TopicSpec | KafkaError:
        if result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
            # Another request creates the topic at the same time.
            await self._mirror.wait_until(lambda: result.name in self._cluster.topics)
        elif result.error_code != ErrorCode.NONE:
            return KafkaError(known_code(result.error_code), result.error_message or "")
        topic = self._cluster.topics.get(result.name)
        return topic or KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{result.name} has been deleted in the meantime"
        )

    async def _forward(self, message: ForwardRequest) -> bytes:
        response: ForwardResponse = await self._sc.request(message)
        if response.error_code != ErrorCode.NONE:
            raise KafkaError(known_code(response.error_code), response.error_message or "")
        await self._mirror.wait_for_version(response.metadata_version)
        return response.body


def _message(
    api_key: int, api_version: int, request: object, client: ClientIdentity | None = None, client_id: str | None = None
) -> ForwardRequest:
    """Makes the message that forwards a request, with who the client is if the request is of a client."""
    message = ForwardRequest(api_key, api_version, encode_whole(request, api_version))
    if client is not None:
        message.principal, message.host, message.client_id = str(client.principal), client.host, client_id
        message.protocol, message.mechanism, message.is_token = client.protocol, client.mechanism, client.is_token
    return message


def _creatable(topic: NewTopic) -> "CreatableTopic":
    from tailrace.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig

    configs = [CreatableTopicConfig(name=name, value=value) for name, value in (topic.configs or {}).items()]
    return CreatableTopic(
        name=topic.name, num_partitions=topic.partitions, replication_factor=topic.replication_factor, configs=configs
    )
