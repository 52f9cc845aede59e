"""Hands requests that change the cluster to the Streaming Controller, and answers when this SPU knows the outcome.

Only the controller changes the cluster; clients may ask any SPU. The request goes over in the version that the client
speaks, so that its answer can be passed on as it comes.
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
from tailrace.server.request_context import EncodedBody, RequestContext

from .mirror_updater import MirrorUpdater
from .sc_connection import ScUnreachableError

if TYPE_CHECKING:
    from tailrace.protocol.messages.create_topics import CreatableTopic, CreatableTopicResult

FORWARD_MS_MIN = 1000
"""Clients that do not want to wait give a timeout of nothing, and still mean to have it done."""
FORWARD_MS_MAX = 30_000
UNREACHABLE = "the Streaming Controller cannot be reached, or has not done it in time"
AUTO_CREATE_SECONDS_MAX = 2.0
"""A metadata request holds up all that its client asks next; it will ask again for what is not there yet. A client may
ask more often than this, and then waits for half of what it asks: nothing piles up behind it."""


class Sc(Protocol):
    async def request(self, message: object) -> Any:
        """The answer of the controller, which is waited for. Raises ScUnreachableError."""


class Forwarding:
    def __init__(self, sc: Sc, cluster: Cluster, mirror: MirrorUpdater) -> None:
        self._sc = sc
        self._cluster = cluster
        self._mirror = mirror
        self._given_up: dict[str, float] = {}
        """The topics that were not created in time, each with until when nobody waits for it."""

    async def forward(self, context: RequestContext, request: object, timeout_ms: int) -> EncodedBody:
        """The response, unread: it may tell of thousands of topics. Raises KafkaError when the controller did not give
        one in time; what it was asked may have been done all the same."""
        try:
            with trio.fail_after(min(max(timeout_ms, FORWARD_MS_MIN), FORWARD_MS_MAX) / 1000):
                return EncodedBody(await self._forward(context.api_key, context.api_version, request))
        except (trio.TooSlowError, ScUnreachableError) as error:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, str(error) or UNREACHABLE) from error

    async def create_topics(self, topics: Sequence[NewTopic]) -> list[TopicSpec | KafkaError]:
        """What a metadata request wants created: for each the topic, which the mirror has by now, or why there is
        none. Raises KafkaError when none could be created."""
        now = trio.current_time()
        self._given_up = {name: until for name, until in self._given_up.items() if until > now}
        wanted = [topic for topic in topics if topic.name not in self._given_up]
        outcomes = await self._created_in_time(wanted) if wanted else {}
        # What Kafka says of a topic that is being created: clients ask again.
        late = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, UNREACHABLE)
        return [outcomes.get(topic.name, late) for topic in topics]

    async def _created_in_time(self, topics: Sequence[NewTopic]) -> Mapping[str, TopicSpec | KafkaError]:
        """By name; nothing if the controller took too long, or was lost."""
        names = [topic.name for topic in topics]
        try:
            with trio.fail_after(AUTO_CREATE_SECONDS_MAX):
                return dict(zip(names, await self._create_topics(topics), strict=True))
        except ScUnreachableError:
            pass  # nobody was held up for long
        except trio.TooSlowError:
            self._given_up |= dict.fromkeys(names, trio.current_time() + AUTO_CREATE_SECONDS_MAX)
        return {}

    async def _create_topics(self, topics: Sequence[NewTopic]) -> list[TopicSpec | KafkaError]:
        from tailrace.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse

        version = API_TABLE[ApiKey.CREATE_TOPICS].max_version
        request = CreateTopicsRequest(topics=[_creatable(topic) for topic in topics])
        body = await self._forward(ApiKey.CREATE_TOPICS, version, request)
        response = decode(CreateTopicsResponse, version, body, elements_max=len(body))
        return [await self._outcome(result) for result in response.topics]

    async def _outcome(self, result: "CreatableTopicResult") -> TopicSpec | KafkaError:
        if result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
            # Somebody else's request for it is under way.
            await self._mirror.until(lambda: result.name in self._cluster.topics)
        elif result.error_code != ErrorCode.NONE:
            return KafkaError(known_code(result.error_code), result.error_message or "")
        topic = self._cluster.topics.get(result.name)
        return topic or KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{result.name} was deleted again")

    async def _forward(self, api_key: int, api_version: int, request: object) -> bytes:
        body = encode_whole(request, api_version)
        answer: ForwardResponse = await self._sc.request(ForwardRequest(api_key, api_version, body))
        if answer.error_code != ErrorCode.NONE:
            raise KafkaError(known_code(answer.error_code), answer.error_message or "")
        await self._mirror.reached(answer.metadata_version)
        return answer.body


def _creatable(topic: NewTopic) -> "CreatableTopic":
    from tailrace.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig

    configs = [CreatableTopicConfig(name=name, value=value) for name, value in (topic.configs or {}).items()]
    return CreatableTopic(
        name=topic.name, num_partitions=topic.partitions, replication_factor=topic.replication_factor, configs=configs
    )
