"""FindCoordinator, versions 0–6: which SPU coordinates a group or a transactional id.

- The first request creates the internal topic. It has as many replicas as `offsets.topic.replication.factor` or
  `transaction.state.log.replication.factor` says, or one on each SPU if there are fewer SPUs. Kafka waits for more
  brokers instead.
- The coordinator is the leader of a partition of that topic. While there is no leader, or the client cannot reach it,
  the error is COORDINATOR_NOT_AVAILABLE, and clients retry.
- v4 and later ask for several keys at once.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from tailrace.cluster.client_view import Broker, brokers, online_spus
from tailrace.cluster.coordinators import GROUPS_TOPIC, TRANSACTIONS_TOPIC, partition_of
from tailrace.cluster.topic_planning import NewTopic
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from tailrace.server.host import Host
from tailrace.server.request_context import RequestContext

GROUP = 0
TRANSACTION = 1
MANY_KEYS_FROM = 4
NO_COORDINATOR = -1
"""The id and the port in a response without a coordinator, as in Kafka."""


class _Kind(NamedTuple):
    """What clients look for the coordinator of."""

    topic: str
    new_topic: Callable[[Host], NewTopic]
    """Returns the topic to create for the first client."""
    name: str


def handle(
    host: Host, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    kind = _KINDS.get(request.key_type)
    if kind is not None and kind.topic not in host.cluster.topics:
        return _create_and_respond(host, context, request, kind)
    return _response(host, context, request)


async def _create_and_respond(
    host: Host, context: RequestContext, request: FindCoordinatorRequest, kind: _Kind
) -> FindCoordinatorResponse:
    try:
        (created,) = await host.create_topics([kind.new_topic(host)])
    except KafkaError as error:
        created = error
    failure = created if isinstance(created, KafkaError) else None
    return _response(host, context, request, failure)


def groups_topic(host: Host) -> NewTopic:
    """Returns the internal topic of groups, as it is created."""
    settings = host.broker_configs.settings
    replicas = max(1, min(settings.offsets_replicas, len(host.cluster.spus)))
    configs = {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(settings.offsets_segment_bytes),
    }
    return NewTopic(GROUPS_TOPIC, settings.offsets_partitions, replicas, configs=configs)


def _transactions_topic(host: Host) -> NewTopic:
    settings = host.broker_configs.settings
    replicas, replicas_min = settings.transactions_replicas, settings.transactions_replicas_min
    if len(host.cluster.spus) < replicas:
        replicas = max(1, len(host.cluster.spus))
        replicas_min = max(1, min(replicas_min, replicas - 1))
    configs = {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": str(replicas_min),
        "segment.bytes": str(settings.transactions_segment_bytes),
    }
    return NewTopic(TRANSACTIONS_TOPIC, settings.transactions_partitions, replicas, configs=configs)


_KINDS: Mapping[int, _Kind] = {
    GROUP: _Kind(GROUPS_TOPIC, groups_topic, "group"),
    TRANSACTION: _Kind(TRANSACTIONS_TOPIC, _transactions_topic, "transactional id"),
}
"""What has coordinators, by key type."""


def _response(
    host: Host, context: RequestContext, request: FindCoordinatorRequest, failure: KafkaError | None = None
) -> FindCoordinatorResponse:
    if context.api_version >= MANY_KEYS_FROM:
        results = _results(host, context, request.key_type, list(dict.fromkeys(request.coordinator_keys)), failure)
        return FindCoordinatorResponse(coordinators=results)
    (result,) = _results(host, context, request.key_type, [request.key], failure)
    return FindCoordinatorResponse(
        error_code=result.error_code,
        error_message=result.error_message,
        node_id=result.node_id,
        host=result.host,
        port=result.port,
    )


def _results(
    host: Host, context: RequestContext, key_type: int, keys: Sequence[str], failure: KafkaError | None
) -> list[Coordinator]:
    kind = _KINDS.get(key_type)
    reachable = {broker.id: broker for broker in brokers(host.cluster, host.id, context.listener)}
    online = online_spus(host.cluster)

    def coordinator(key: str) -> Broker:
        if kind is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"there are no coordinators for key type {key_type}")
        topic = host.cluster.topics.get(kind.topic)
        if topic is None:
            reason = failure.message if failure is not None else "there is no internal topic yet"
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, reason)
        partition = topic.partitions[partition_of(key, len(topic.partitions))]
        leader = partition.leader
        if leader not in online and leader != host.id:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"partition {partition.partition} of {kind.topic} has no leader now",
            )
        if leader not in reachable:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"SPU {leader} coordinates the {kind.name} and has no listener {context.listener.name}",
            )
        return reachable[leader]

    return [_result(key, coordinator) for key in keys]


def _result(key: str, coordinator: Callable[[str], Broker]) -> Coordinator:
    try:
        broker = coordinator(key)
    except KafkaError as error:
        return Coordinator(
            key=key, node_id=NO_COORDINATOR, port=NO_COORDINATOR, error_code=error.code, error_message=error.message
        )
    return Coordinator(key=key, node_id=broker.id, host=broker.host, port=broker.port, error_message=None)
