"""The guards of Metadata, DescribeCluster and DescribeTopicPartitions: what a client may not see does not exist for it.

- A topic that is named and may not be described gets TOPIC_AUTHORIZATION_FAILED, whether it exists or not. If all
  topics are asked for, it is left out.
- A topic that would be created gets TOPIC_AUTHORIZATION_FAILED if the client may not create it.
- Responses list the operations that the client may do. Those on the cluster are 0 unless it may describe the cluster.
"""

from tailrace.cluster.topic_names import INTERNAL_TOPICS
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import NO_TOPIC_ID
from tailrace.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from tailrace.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from tailrace.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from tailrace.security.acls.acl_codes import CLUSTER_NAME, ResourceType
from tailrace.server.handlers.metadata import NO_TOPICS_IS_ALL_UP_TO, TOPIC_IDS_FROM
from tailrace.server.request_context import Reply, RequestContext

from .access import Access
from .authorization import Handle
from .authorization_row import Check, Row

NO_OPERATIONS = 0
"""The operations on the cluster of a client that may not describe the cluster."""


def metadata(row: Row, access: Access, handle: Handle, context: RequestContext, request: MetadataRequest) -> Reply:
    named, listed, created, cluster = row.checks
    asked = request.topics
    are_all = asked is None or (not asked and context.api_version <= NO_TOPICS_IS_ALL_UP_TO)
    denied: list[MetadataResponseTopic] = []
    hides_all = False
    if asked and not _mixes_ids(context, asked):
        allowed = []
        for topic in asked:
            if _is_refused(access, named, created, topic, creates=request.allow_auto_topic_creation):
                denied.append(_refused_metadata(topic))
            else:
                allowed.append(topic)
        request.topics = allowed
        # In version 0, no topics are all topics.
        hides_all = not allowed and context.api_version <= NO_TOPICS_IS_ALL_UP_TO

    def amend(response: MetadataResponse) -> MetadataResponse:
        if are_all:
            response.topics = [topic for topic in response.topics if access.allows(listed, topic.name or "")]
        elif hides_all:
            response.topics = []
        if request.include_topic_authorized_operations:
            for topic in response.topics:
                if topic.name is not None:
                    topic.topic_authorized_operations = access.operations(ResourceType.TOPIC, topic.name)
        if request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = cluster_operations(access, cluster)
        response.topics.extend(denied)
        return response

    context.amend = amend
    return handle(context, request)


def describe_cluster(
    row: Row, access: Access, handle: Handle, context: RequestContext, request: DescribeClusterRequest
) -> Reply:
    (cluster,) = row.checks

    def amend(response: DescribeClusterResponse) -> DescribeClusterResponse:
        if request.include_cluster_authorized_operations and response.error_code == ErrorCode.NONE:
            response.cluster_authorized_operations = cluster_operations(access, cluster)
        return response

    context.amend = amend
    return handle(context, request)


def describe_topic_partitions(
    row: Row, access: Access, handle: Handle, context: RequestContext, request: DescribeTopicPartitionsRequest
) -> Reply:
    named, listed = row.checks
    cursor = request.cursor
    if cursor is not None and (
        cursor.partition_index < 0
        or (request.topics and all(topic.name != cursor.topic_name for topic in request.topics))
    ):
        return handle(context, request)  # the handler refuses all topics alike
    denied: list[DescribeTopicPartitionsResponseTopic] = []
    if request.topics:
        allowed, refused = access.split(named, request.topics, lambda topic: topic.name)
        denied = [
            _refused_topic(name)
            for name in dict.fromkeys(topic.name for topic in refused)
            if cursor is None or name >= cursor.topic_name
        ]
    else:
        topics = [TopicRequest(name) for name in access.cluster.topics]
        allowed, _ = access.split(listed, topics, lambda topic: topic.name)
    if cursor is not None and all(topic.name != cursor.topic_name for topic in allowed):
        # The client may not see the topic of the cursor any more: the page starts at the next one.
        allowed = [topic for topic in allowed if topic.name > cursor.topic_name]
        request.cursor = None
    if not allowed:
        return DescribeTopicPartitionsResponse(topics=denied)
    request.topics = allowed

    def amend(response: DescribeTopicPartitionsResponse) -> DescribeTopicPartitionsResponse:
        for topic in response.topics:
            if topic.error_code == ErrorCode.NONE and topic.name is not None:
                topic.topic_authorized_operations = access.operations(ResourceType.TOPIC, topic.name)
        response.topics.extend(denied)
        return response

    context.amend = amend
    return handle(context, request)


def cluster_operations(access: Access, check: Check) -> int:
    """Returns the operations that a client may do with the cluster, if it may describe the cluster."""
    if access.allows(check, CLUSTER_NAME):
        return access.operations(ResourceType.CLUSTER, CLUSTER_NAME)
    return NO_OPERATIONS


def _mixes_ids(context: RequestContext, asked: list[MetadataRequestTopic]) -> bool:
    """Whether the request has ids in a version that does not take them, so that the handler refuses it."""
    return context.api_version < TOPIC_IDS_FROM and any(topic.topic_id != NO_TOPIC_ID for topic in asked)


def _is_refused(
    access: Access, described: Check, created: Check, topic: MetadataRequestTopic, *, creates: bool
) -> bool:
    name = access.topic_named(None if topic.topic_id != NO_TOPIC_ID else topic.name, topic.topic_id)
    if name is None:
        return False
    if not access.allows(described, name):
        return True
    is_new = creates and access.auto_creates_topics() and name not in access.cluster.topics
    return is_new and topic.topic_id == NO_TOPIC_ID and not access.allows(created, name)


def _refused_metadata(topic: MetadataRequestTopic) -> MetadataResponseTopic:
    name = topic.name if topic.topic_id == NO_TOPIC_ID else None
    return MetadataResponseTopic(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        name=name,
        topic_id=topic.topic_id,
        is_internal=name in INTERNAL_TOPICS,
    )


def _refused_topic(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
