"""Metadata, versions 0–13: the SPUs, and topics with their partitions, leaders and live replicas.

- A client names topics by name or (v10 and later) by id, or none to get all of them. A topic is returned once.
- If the client and `auto.create.topics.enable` allow it, a missing topic is created. As in Kafka, the response still
  has UNKNOWN_TOPIC_OR_PARTITION for it, and the topic comes when the client asks again. Unlike in Kafka, the topic is
  ready by then, and a topic that cannot be created comes with the reason. One request creates at most a hundred topics.
- A topic that waits for SPUs gets INVALID_REPLICATION_FACTOR, and one whose replicas are impossible
  INVALID_REPLICA_ASSIGNMENT. Kafka refuses to create such topics. They are left out if the client asks for all topics.
- An offline SPU leads nothing, and remains among the brokers for a while.
- The address of this SPU is the address of the listener that the client is connected to. Another SPU that the client
  cannot reach is left out, and what it leads has LISTENER_NOT_FOUND, as in Kafka (see `advertised_addresses`).
- Authorized operations, if the client asks for them, are all operations. With an authorizer, its guard corrects them.
"""

from collections.abc import Awaitable, Callable, Mapping
from itertools import islice

import trio

from tailrace.cluster.client_view import (
    CLUSTER_OPERATIONS,
    NAMED_SECONDS,
    OPERATIONS_UNKNOWN,
    TOPIC_OPERATIONS,
    brokers,
    controller_told,
    in_sync_told,
    leader_error,
    leader_told,
    missing_topic_error,
    offline_replicas,
    online_spus,
    reachable_spus,
)
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.specs import PartitionSpec, TopicSpec
from tailrace.cluster.topic_names import INTERNAL_TOPICS
from tailrace.cluster.topic_planning import NewTopic
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import NO_TOPIC_ID
from tailrace.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tailrace.server.host import Host
from tailrace.server.request_context import RequestContext

NO_TOPICS_IS_ALL_UP_TO = 0
CREATED_MAX = 100
"""How many missing topics one request creates. A client asks again for the others, which it is told not to exist."""
LISTENER_ERRORS_FROM = 6
TOPIC_IDS_FROM = 12
"""The first version in which a topic may be named by id alone; v10 and v11 have the field, but need a name."""


def handle(
    host: Host, context: RequestContext, request: MetadataRequest
) -> MetadataResponse | Awaitable[MetadataResponse]:
    asked = request.topics
    if asked is None or (not asked and context.api_version <= NO_TOPICS_IS_ALL_UP_TO):
        describe = _describer(host, context)
        return _response(host, context, request, [describe(topic) for topic in host.cluster.topics.values()])
    if context.api_version < TOPIC_IDS_FROM and any(topic.topic_id != NO_TOPIC_ID for topic in asked):
        return _refused(asked)
    missing = _to_create(host, request)
    if missing:
        return _create_and_respond(host, context, request, missing)
    return _response(host, context, request, _found(host, context, asked, {}))


def _to_create(host: Host, request: MetadataRequest) -> list[str]:
    if not request.allow_auto_topic_creation or not host.broker_configs.settings.auto_create_topics:
        return []
    names = dict.fromkeys(topic.name for topic in request.topics or () if topic.topic_id == NO_TOPIC_ID)
    there = (host.cluster.topics, host.cluster.waiting_topics, INTERNAL_TOPICS)
    missing = (name for name in names if name and not any(name in each for each in there))
    return list(islice(missing, CREATED_MAX))


async def _create_and_respond(
    host: Host, context: RequestContext, request: MetadataRequest, missing: list[str]
) -> MetadataResponse:
    settings = host.broker_configs.settings
    new = [NewTopic(name, settings.partitions_default, settings.replication_factor_default) for name in missing]
    try:
        results = await host.create_topics(new, context)
    except KafkaError as error:
        results = [error] * len(new)
    errors = {name: _error_after_creation(result) for name, result in zip(missing, results, strict=True)}
    response = _response(host, context, request, _found(host, context, request.topics or [], errors))
    response.throttle_time_ms = context.throttle_ms
    return response


def _error_after_creation(result: TopicSpec | KafkaError) -> int:
    """Returns the error code of a topic in the response to the request that made this server create it."""
    if isinstance(result, KafkaError) and result.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
        return result.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _found(
    host: Host, context: RequestContext, asked: list[MetadataRequestTopic], errors: Mapping[str, int]
) -> list[MetadataResponseTopic]:
    cluster = host.cluster
    describe = _describer(host, context)
    described: dict[object, MetadataResponseTopic] = {}
    for topic in asked:
        if topic.topic_id != NO_TOPIC_ID:
            spec = cluster.topic_by_id(topic.topic_id)
        else:
            spec = None if topic.name is None or topic.name in errors else cluster.topics.get(topic.name)
        if spec is not None:
            if spec.id not in described:
                described[spec.id] = describe(spec)
        elif topic.topic_id != NO_TOPIC_ID:
            described[topic.topic_id] = MetadataResponseTopic(
                error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic.topic_id
            )
        else:
            name = topic.name or ""
            code = errors[name] if name in errors else _why_unusable(host.cluster, topic.name)
            described[name] = MetadataResponseTopic(error_code=code, name=name, is_internal=name in INTERNAL_TOPICS)
    return list(described.values())


def _why_unusable(cluster: Cluster, name: str | None) -> int:
    """Returns the error code for a request with this name and no id."""
    return ErrorCode.INVALID_REQUEST if name is None else missing_topic_error(cluster, name)


def _describer(host: Host, context: RequestContext) -> Callable[[TopicSpec], MetadataResponseTopic]:
    """Returns a function that describes topics to this client, with what all of them share."""
    online = online_spus(host.cluster)
    reachable = reachable_spus(host.cluster, host.id, context.listener, online)
    # Older versions do not know LISTENER_NOT_FOUND.
    known = online if context.api_version >= LISTENER_ERRORS_FROM else reachable

    def partition_described(partition: PartitionSpec) -> MetadataResponsePartition:
        return MetadataResponsePartition(
            leader_error(known, reachable, partition),
            partition.partition,
            leader_told(reachable, partition),
            partition.epoch,
            list(partition.replicas),
            in_sync_told(online, partition),
            offline_replicas(reachable, partition),
        )

    def described(topic: TopicSpec) -> MetadataResponseTopic:
        return MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.id,
            is_internal=topic.internal,
            partitions=[partition_described(partition) for partition in topic.partitions],
        )

    return described


def _response(
    host: Host, context: RequestContext, request: MetadataRequest, topics: list[MetadataResponseTopic]
) -> MetadataResponse:
    if request.include_topic_authorized_operations:
        for topic in topics:
            topic.topic_authorized_operations = TOPIC_OPERATIONS
    lost_since = trio.current_time() - NAMED_SECONDS
    named = brokers(host.cluster, host.id, context.listener, lost_since=lost_since)
    return MetadataResponse(
        brokers=[MetadataResponseBroker(*broker) for broker in named],
        cluster_id=host.cluster.cluster_id,
        controller_id=controller_told(host.cluster, named),
        topics=topics,
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else OPERATIONS_UNKNOWN
        ),
    )


def _refused(asked: list[MetadataRequestTopic]) -> MetadataResponse:
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=topic.name or "", topic_id=topic.topic_id)
            for topic in asked
        ]
    )
