"""CreatePartitions, versions 0–3: raises the number of partitions of topics to the given totals.

- The response has every topic of the request. A topic that the request names twice is refused.
- Internal topics get no more partitions: INVALID_PARTITIONS. Kafka adds them, and looks for groups there after a
  restart.
- One request may add 10 000 partitions. More are a POLICY_VIOLATION, where Kafka has an unknown error.
- A client with a quota on changes gets THROTTLING_QUOTA_EXCEEDED for topics beyond it, from v3 on. Older clients get
  their partitions, and have to wait after them.
- Partitions that the SPUs have not created within the timeout are REQUEST_TIMED_OUT. They are created nevertheless.
"""

from collections import Counter

from tailrace.cluster.specs import TopicSpec
from tailrace.cluster.topic_planning import MorePartitions
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import SpuId
from tailrace.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from tailrace.server.host import AdministeringHost
from tailrace.server.request_context import RequestContext
from tailrace.server.throttling.counted_mutations import CountedMutations


async def handle(
    host: AdministeringHost, context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    times_named = Counter(topic.name for topic in request.topics)
    mutations = CountedMutations(context.mutations)
    by_topic: dict[str, TopicSpec | KafkaError] = {}
    wanted: list[MorePartitions] = []
    added = {topic.name: _added(host, topic) for topic in request.topics}
    for topic in request.topics:
        if times_named[topic.name] == 1:
            try:
                mutations.take(added[topic.name])
                wanted.append(_more_partitions(topic))
            except KafkaError as error:
                by_topic[topic.name] = error
    try:
        outcomes = await host.administration.create_partitions(
            wanted, validate_only=request.validate_only, timeout_ms=request.timeout_ms
        )
    except KafkaError as error:
        outcomes = [error] * len(wanted)
    for more, outcome in zip(wanted, outcomes, strict=True):
        by_topic[more.topic] = outcome
        if isinstance(outcome, KafkaError):
            mutations.give_back(added[more.topic], outcome)
    return CreatePartitionsResponse(mutations.throttle_ms, [_result(name, by_topic.get(name)) for name in times_named])


def _added(host: AdministeringHost, topic: CreatePartitionsTopic) -> int:
    """Returns how many partitions a topic would get."""
    known = host.cluster.topics.get(topic.name)
    return 0 if known is None else max(0, topic.count - len(known.partitions))


def _more_partitions(topic: CreatePartitionsTopic) -> MorePartitions:
    if topic.assignments is None:
        return MorePartitions(topic.name, topic.count)
    replica_map = tuple(tuple(SpuId(spu) for spu in assignment.broker_ids) for assignment in topic.assignments)
    return MorePartitions(topic.name, topic.count, replica_map)


def _result(topic: str, outcome: TopicSpec | KafkaError | None) -> CreatePartitionsTopicResult:
    if outcome is None:
        outcome = KafkaError(ErrorCode.INVALID_REQUEST, "the request names this topic twice")
    if isinstance(outcome, KafkaError):
        return CreatePartitionsTopicResult(name=topic, error_code=outcome.code, error_message=outcome.message or None)
    return CreatePartitionsTopicResult(name=topic)
