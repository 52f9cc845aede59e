"""FindCoordinator, versions 0–6: which SPU coordinates a group.

- The first question for a group creates the internal topic, with as many replicas as `offsets.topic.replication.factor`
  says or, where there are fewer SPUs, on each of them. Kafka waits for more brokers instead.
- A coordinator is the leader of one of its partitions; while there is none, COORDINATOR_NOT_AVAILABLE, which clients
  take for "try again".
- Transactions are not served yet. Who asks where one is coordinated is refused with
  TRANSACTIONAL_ID_AUTHORIZATION_FAILED, as by InitProducerId: a client gives up at once, and says so.
- v4 and later ask for many keys at a time.
"""

from collections.abc import Awaitable, Callable, Sequence

from tailrace.cluster.client_view import NOBODY, Broker, brokers, online_spus
from tailrace.cluster.coordinators import GROUPS_TOPIC, partition_of
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


def handle(
    host: Host, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    if request.key_type == GROUP and GROUPS_TOPIC not in host.cluster.topics:
        return _create_and_answer(host, context, request)
    return _response(host, context, request)


async def _create_and_answer(
    host: Host, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    try:
        (created,) = await host.create_topics([_groups_topic(host)])
    except KafkaError as error:
        created = error
    failure = created if isinstance(created, KafkaError) else None
    return _response(host, context, request, failure)


def _groups_topic(host: Host) -> NewTopic:
    settings = host.broker_configs.settings
    replicas = max(1, min(settings.offsets_replicas, len(host.cluster.spus)))
    configs = {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(settings.offsets_segment_bytes),
    }
    return NewTopic(GROUPS_TOPIC, settings.offsets_partitions, replicas, configs=configs)


def _response(
    host: Host, context: RequestContext, request: FindCoordinatorRequest, failure: KafkaError | None = None
) -> FindCoordinatorResponse:
    if context.api_version >= MANY_KEYS_FROM:
        answers = _answers(host, context, request.key_type, list(dict.fromkeys(request.coordinator_keys)), failure)
        return FindCoordinatorResponse(coordinators=answers)
    (answer,) = _answers(host, context, request.key_type, [request.key], failure)
    return FindCoordinatorResponse(
        error_code=answer.error_code,
        error_message=answer.error_message,
        node_id=answer.node_id,
        host=answer.host,
        port=answer.port,
    )


def _answers(
    host: Host, context: RequestContext, key_type: int, keys: Sequence[str], failure: KafkaError | None
) -> list[Coordinator]:
    reachable = {broker.id: broker for broker in brokers(host.cluster, host.id, context.listener)}
    online = online_spus(host.cluster)

    def coordinator(key: str) -> Broker:
        _check(key_type, key)
        topic = host.cluster.topics.get(GROUPS_TOPIC)
        if topic is None:
            reason = failure.message if failure is not None else "there is no internal topic yet"
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, reason)
        partition = topic.partitions[partition_of(key, len(topic.partitions))]
        found = reachable.get(partition.leader)
        if found is None or (partition.leader not in online and partition.leader != host.id):
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"nobody leads partition {partition.partition} now")
        return found

    return [_answer(key, coordinator) for key in keys]


def _check(key_type: int, key: str) -> None:
    if key_type == TRANSACTION:
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactions are not served yet")
    if key_type != GROUP:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"nothing of key type {key_type} is coordinated here")


def _answer(key: str, coordinator: Callable[[str], Broker]) -> Coordinator:
    try:
        broker = coordinator(key)
    except KafkaError as error:
        return Coordinator(key=key, node_id=NOBODY, port=NOBODY, error_code=error.code, error_message=error.message)
    return Coordinator(key=key, node_id=broker.id, host=broker.host, port=broker.port, error_message=None)
