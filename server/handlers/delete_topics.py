"""DeleteTopics, versions 1–6: by name, and by id from v6 on; the topics are gone when the answer leaves.

- Storage is kept for `deleted.topic.retention.ms`, so that a topic can be brought back. One that is created again under
  the same name has another id and starts empty.
- A topic that the request names twice, be it by name and by id, is refused; Kafka does the same.
- One that waits for SPUs, and that clients are not told of yet, can be deleted as well.
- `delete.topic.enable=false` refuses all.
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

IDS_FROM = 6
DELETION_DISABLED_FROM = 3
"""Before, Kafka had no error code of its own for it."""


async def handle(
    host: AdministeringHost, context: RequestContext, request: DeleteTopicsRequest
) -> DeleteTopicsResponse:
    if context.api_version >= IDS_FROM:
        asked = request.topics
    else:
        asked = [DeleteTopicState(name=name) for name in request.topic_names]
    found: list[TopicIdentity | KafkaError] = [_find(host, context.api_version, topic) for topic in asked]
    times_named = Counter(_key(topic, outcome) for topic, outcome in zip(asked, found, strict=True))
    answers: dict[object, DeletableTopicResult] = {}
    to_delete: dict[TopicId, DeletableTopicResult] = {}
    for topic, outcome in zip(asked, found, strict=True):
        key = _key(topic, outcome)
        if key in answers:
            continue
        answer = answers[key] = DeletableTopicResult(name=topic.name, topic_id=topic.topic_id)
        if times_named[key] > 1:
            _refuse(answer, KafkaError(ErrorCode.INVALID_REQUEST, "the request names this topic twice"))
        elif isinstance(outcome, KafkaError):
            _refuse(answer, outcome)
        else:
            answer.name, answer.topic_id = outcome.name, outcome.id
            to_delete[outcome.id] = answer
    await _delete(host, to_delete, request.timeout_ms)
    return DeleteTopicsResponse(responses=list(answers.values()))


async def _delete(host: AdministeringHost, to_delete: dict[TopicId, DeletableTopicResult], timeout_ms: int) -> None:
    try:
        results = await host.administration.delete_topics(list(to_delete), timeout_ms=timeout_ms)
    except KafkaError as error:
        results = [error] * len(to_delete)
    for answer, result in zip(to_delete.values(), results, strict=True):
        if isinstance(result, KafkaError):
            _refuse(answer, result)


def _find(host: AdministeringHost, api_version: int, asked: DeleteTopicState) -> TopicIdentity | KafkaError:
    if not host.broker_configs.settings.delete_topics:
        disabled = api_version >= DELETION_DISABLED_FROM
        code = ErrorCode.TOPIC_DELETION_DISABLED if disabled else ErrorCode.INVALID_REQUEST
        return KafkaError(code, "delete.topic.enable is false")
    if (asked.name is None) == (asked.topic_id == NO_TOPIC_ID):
        return KafkaError(ErrorCode.INVALID_REQUEST, "a topic is named either by its name or by its id")
    if asked.name is not None:
        topic = host.administration.identify(asked.name)
        return topic or KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no topic of this name")
    topic = host.administration.identify(asked.topic_id)
    return topic or KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "there is no topic with this id")


def _key(asked: DeleteTopicState, found: TopicIdentity | KafkaError) -> object:
    return found.id if isinstance(found, TopicIdentity) else (asked.name, asked.topic_id)


def _refuse(answer: DeletableTopicResult, error: KafkaError) -> None:
    answer.error_code = error.code
    answer.error_message = error.message or None
