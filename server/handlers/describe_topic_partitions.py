"""DescribeTopicPartitions, version 0: topics with their partitions, in pages.

- Topics come in the order of their names. A request that names no topic means all of them. A page has at most as many
  partitions as the client or `max.request.partition.size.limit` allows, and says where the next page starts.
- Eligible leader replicas are the live replicas that are offline. Their arrays are never null: the schema allows null,
  but the Java client, and so Spark, crashes on it.
- A topic that no client can use yet gets the error that Metadata has for it.
- Every client may do everything with a topic, so that its authorized operations are all operations.
"""

from tailrace.cluster.advertised_addresses import ConnectedListener
from tailrace.cluster.client_view import (
    TOPIC_OPERATIONS,
    electable_told,
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
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import SpuId
from tailrace.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from tailrace.server.host import Host
from tailrace.server.request_context import RequestContext


def handle(
    host: Host, context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    named = [topic.name for topic in request.topics]
    cursor = request.cursor
    if cursor is not None and (cursor.partition_index < 0 or (named and cursor.topic_name not in named)):
        refused = [_error(name, ErrorCode.INVALID_REQUEST) for name in dict.fromkeys(named)]
        return DescribeTopicPartitionsResponse(topics=refused)
    names = sorted(set(named) if named else host.cluster.topics)
    first_partition = 0
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
        if names and names[0] == cursor.topic_name:
            first_partition = cursor.partition_index
    left = max(1, min(request.response_partition_limit, host.broker_configs.settings.described_partitions_max))
    return _page(host, context.listener, names, first_partition, left)


def _page(
    host: Host, listener: ConnectedListener, names: list[str], first_partition: int, left: int
) -> DescribeTopicPartitionsResponse:
    cluster = host.cluster
    online = online_spus(cluster)
    reachable = reachable_spus(cluster, host.id, listener, online)
    response = DescribeTopicPartitionsResponse()
    for name in names:
        topic = cluster.topics.get(name)
        if topic is None:
            response.topics.append(_unusable(cluster, name))
            first_partition = 0  # the topic was deleted since the last page
            continue
        if left == 0:
            response.next_cursor = Cursor(name, 0)
            break
        partitions = topic.partitions[first_partition : first_partition + left]
        response.topics.append(_described(online, reachable, topic, partitions))
        left -= len(partitions)
        if first_partition + len(partitions) < len(topic.partitions):
            response.next_cursor = Cursor(name, first_partition + len(partitions))
            break
        first_partition = 0
    return response


def _described(
    online: frozenset[SpuId], reachable: frozenset[SpuId], topic: TopicSpec, partitions: tuple[PartitionSpec, ...]
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.internal,
        topic_authorized_operations=TOPIC_OPERATIONS,
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                error_code=leader_error(online, reachable, partition),
                partition_index=partition.partition,
                leader_id=leader_told(reachable, partition),
                leader_epoch=partition.epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=in_sync_told(online, partition),
                eligible_leader_replicas=electable_told(online, partition),
                last_known_elr=[],
                offline_replicas=offline_replicas(reachable, partition),
            )
            for partition in partitions
        ],
    )


def _unusable(cluster: Cluster, name: str) -> DescribeTopicPartitionsResponseTopic:
    topic = _error(name, missing_topic_error(cluster, name))
    topic.topic_authorized_operations = TOPIC_OPERATIONS
    return topic


def _error(name: str, code: int) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=code, name=name, is_internal=name in INTERNAL_TOPICS)
