"""DeleteTopics, versions 1–6: deletes topics by name, and from v6 on by id; they are gone when the response leaves.

- The files are kept for `deleted.topic.retention.ms`, so that a topic can be brought back. A new topic of the same name
  has another id, and starts empty.
- A topic that the request names twice, by name or by id, is refused, as in Kafka.
- A topic that waits for SPUs, which clients do not see yet, can be deleted as well.
- A client with a quota on changes gets THROTTLING_QUOTA_EXCEEDED for topics beyond it, from v5 on. Older clients get
  their topics deleted, and have to wait after that.
- With `delete.topic.enable=false` all topics are refused.
"""

from collections import Counter

from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import NO_TOPIC_ID, TopicId
from tailrace.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tailrace.server.administration import TopicIdentity
from tailrace.server.host import AdministeringHost
from tailrace.server.request_context import RequestContext
from tailrace.server.throttling.counted_mutations import CountedMutations

IDS_FROM = 6
DELETION_DISABLED_FROM = 3
"""The first version with TOPIC_DELETION_DISABLED. Before it, Kafka had no such error."""


async def handle(
    host: AdministeringHost, context: RequestContext, request: DeleteTopicsRequest
) -> DeleteTopicsResponse:
    if context.api_version >= IDS_FROM:
        asked = request.topics
    else:
        asked = [DeleteTopicState(name=name) for name in request.topic_names]
    found: list[TopicIdentity | KafkaError] = [_find(host, context.api_version, topic) for topic in asked]
    mutations = CountedMutations(context.mutations)
    times_named = Counter(_key(topic, outcome) for topic, outcome in zip(asked, found, strict=True))
    rows: dict[object, DeletableTopicResult] = {}
    to_delete: dict[TopicId, DeletableTopicResult] = {}
    for topic, outcome in zip(asked, found, strict=True):
        key = _key(topic, outcome)
        if key in rows:
            continue
        row = rows[key] = DeletableTopicResult(name=topic.name, topic_id=topic.topic_id)
        if times_named[key] > 1:
            _refuse(row, KafkaError(ErrorCode.INVALID_REQUEST, "the request names this topic twice"))
        elif isinstance(outcome, KafkaError):
            _refuse(row, outcome)
        else:
            row.name, row.topic_id = outcome.name, outcome.id
            try:
                mutations.take(_partitions_of(host, outcome.id))
            except KafkaError as error:
                _refuse(row, error)
            else:
                to_delete[outcome.id] = row
    partitions = {topic_id: _partitions_of(host, topic_id) for topic_id in to_delete}
    for topic_id, refusal in (await _delete(host, to_delete, request.timeout_ms)).items():
        mutations.give_back(partitions[topic_id], refusal)
    return DeleteTopicsResponse(mutations.throttle_ms, list(rows.values()))


def _partitions_of(host: AdministeringHost, topic_id: TopicId) -> int:
    topic = host.cluster.topic_by_id(topic_id)
    return 0 if topic is None else len(topic.partitions)


async def _delete(
    host: AdministeringHost, to_delete: dict[TopicId, DeletableTopicResult], timeout_ms: int
) -> dict[TopicId, KafkaError]:
    """Deletes topics; returns those that were not deleted, and why."""
    refused: dict[TopicId, KafkaError] = {}
    try:
        results = await host.administration.delete_topics(list(to_delete), timeout_ms=timeout_ms)
    except KafkaError as error:
        results = [error] * len(to_delete)
    for (topic_id, row), result in zip(to_delete.items(), results, strict=True):
        if isinstance(result, KafkaError):
            _refuse(row, result)
            refused[topic_id] = result
    return refused


def _find(host: AdministeringHost, api_version: int, asked: DeleteTopicState) -> TopicIdentity | KafkaError:
    if not host.broker_configs.settings.delete_topics:
        disabled = api_version >= DELETION_DISABLED_FROM
        code = ErrorCode.TOPIC_DELETION_DISABLED if disabled else ErrorCode.INVALID_REQUEST
        return KafkaError(code, "delete.topic.enable is false")
    if (asked.name is None) == (asked.topic_id == NO_TOPIC_ID):
        return KafkaError(ErrorCode.INVALID_REQUEST, "a topic needs either a name or an id, and not both")
    if asked.name is not None:
        topic = host.administration.identify(asked.name)
        return topic or KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no topic of this name")
    topic = host.administration.identify(asked.topic_id)
    return topic or KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "there is no topic with this id")


def _key(asked: DeleteTopicState, found: TopicIdentity | KafkaError) -> object:
    return found.id if isinstance(found, TopicIdentity) else (asked.name, asked.topic_id)


def _refuse(row: DeletableTopicResult, error: KafkaError) -> None:
    row.error_code = error.code
    row.error_message = error.message or None
