"""The guards of the APIs that create and delete topics, and of those that show and alter configs."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from tailrace.cluster.configs.config_changes import ResourceKind
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import NO_TOPIC_ID
from tailrace.protocol.messages import alter_configs as altering
from tailrace.protocol.messages import incremental_alter_configs as incremental
from tailrace.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from tailrace.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tailrace.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from tailrace.security.acls.acl_codes import CLUSTER_NAME
from tailrace.server.request_context import Reply, RequestContext

from .access import Access
from .authorization import Handle
from .authorization_row import Check, Row

_UNKNOWN_COUNT = -1


def create_topics(
    row: Row, access: Access, handle: Handle, context: RequestContext, request: CreateTopicsRequest
) -> Reply:
    """Lets a client create topics, and shows their configs if it may describe them."""
    created, described = row.checks
    allowed, denied = access.split(created, request.topics, lambda topic: topic.name)
    names = dict.fromkeys(topic.name for topic in denied)
    rows = [
        CreatableTopicResult(name, error_code=created.error, error_message=access.refusal(created, name))
        for name in names
    ]
    if not allowed:
        return CreateTopicsResponse(topics=rows)
    request.topics = allowed

    def amend(response: CreateTopicsResponse) -> CreateTopicsResponse:
        for topic in response.topics:
            if topic.error_code == ErrorCode.NONE and not access.allows(described, topic.name):
                topic.topic_config_error_code = described.error
                topic.num_partitions = topic.replication_factor = _UNKNOWN_COUNT
                topic.configs = []
        response.topics.extend(rows)
        return response

    context.amend = amend
    return handle(context, request)


def delete_topics(
    row: Row, access: Access, handle: Handle, context: RequestContext, request: DeleteTopicsRequest
) -> Reply:
    """Lets a client delete topics. For a refused id, the response has the name only if the client may describe it."""
    deleted, described = row.checks
    rows: dict[object, DeletableTopicResult] = {}
    for topic in request.topics:
        if _is_unknown(access, topic):
            # The Streaming Controller may know the topic already, and would delete it.
            rows[topic.name, topic.topic_id] = DeletableTopicResult(
                None, topic.topic_id, ErrorCode.UNKNOWN_TOPIC_ID, "there is no topic with this id"
            )
    request.topics = [topic for topic in request.topics if not _is_unknown(access, topic)]
    allowed, denied = access.split(deleted, request.topics, lambda topic: _deleted_name(access, topic))
    for topic in denied:
        name = _deleted_name(access, topic) or ""
        shown = name if topic.name is not None or access.allows(described, name) else None
        message = access.refusal(deleted, shown) if shown is not None else "the client may not delete the topic"
        rows[topic.name, topic.topic_id] = DeletableTopicResult(shown, topic.topic_id, deleted.error, message)
    allowed_names, denied_names = access.split(deleted, request.topic_names, lambda name: name)
    for name in denied_names:
        rows[name] = DeletableTopicResult(name, NO_TOPIC_ID, deleted.error, access.refusal(deleted, name))
    if not rows:
        return handle(context, request)
    if not allowed and not allowed_names:
        return DeleteTopicsResponse(responses=list(rows.values()))
    request.topics, request.topic_names = allowed, allowed_names

    def amend(response: DeleteTopicsResponse) -> DeleteTopicsResponse:
        response.responses.extend(rows.values())
        return response

    context.amend = amend
    return handle(context, request)


def _deleted_name(access: Access, topic: DeleteTopicState) -> str | None:
    """Returns the name of a topic to delete; None if the handler refuses the request for it."""
    if (topic.name is None) == (topic.topic_id == NO_TOPIC_ID):
        return None
    return topic.name if topic.name is not None else _name_of_id(access, topic.topic_id)


def _name_of_id(access: Access, topic_id: UUID) -> str | None:
    """Returns the name of the topic with an id; also that of a topic that clients cannot use yet."""
    waiting = (each.name for each in access.cluster.waiting_topics.values() if each.id == topic_id)
    return access.topic_named(None, topic_id) or next(waiting, None)


def _is_unknown(access: Access, topic: DeleteTopicState) -> bool:
    return topic.name is None and topic.topic_id != NO_TOPIC_ID and _name_of_id(access, topic.topic_id) is None


# configs


def describe_configs(
    row: Row, access: Access, handle: Handle, context: RequestContext, request: DescribeConfigsRequest
) -> Reply:
    """Lets a client see configs."""
    allowed, denied = _split_resources(row, access, request.resources)
    if not denied:
        return handle(context, request)
    rows = [
        DescribeConfigsResult(check.error, access.refusal(check, name), each.resource_type, each.resource_name)
        for each, check, name in denied
    ]
    if not allowed:
        return DescribeConfigsResponse(results=rows)
    request.resources = allowed

    def amend(response: DescribeConfigsResponse) -> DescribeConfigsResponse:
        response.results.extend(rows)
        return response

    context.amend = amend
    return handle(context, request)


def alter_configs(row: Row, access: Access, handle: Handle, context: RequestContext, request: Any) -> Reply:
    """Lets a client alter configs, with either of the two APIs."""
    is_incremental = isinstance(request, incremental.IncrementalAlterConfigsRequest)
    response: Callable[..., Any] = (
        incremental.IncrementalAlterConfigsResponse if is_incremental else altering.AlterConfigsResponse
    )
    answer: Callable[..., Any] = (
        incremental.AlterConfigsResourceResponse if is_incremental else altering.AlterConfigsResourceResponse
    )
    allowed, denied = _split_resources(row, access, request.resources)
    if not denied:
        return handle(context, request)
    rows = [
        answer(check.error, access.refusal(check, name), each.resource_type, each.resource_name)
        for each, check, name in denied
    ]
    if not allowed:
        made: Reply = response(responses=rows)
        return made
    request.resources = allowed

    def amend(response: Any) -> Any:
        response.responses.extend(rows)
        return response

    context.amend = amend
    return handle(context, request)


def _split_resources(row: Row, access: Access, resources: list[Any]) -> tuple[list[Any], list[tuple[Any, Check, str]]]:
    """Returns the resources whose configs the client may use, and the others with the check and name that refused."""
    of_topic, of_group, of_cluster = row.checks
    allowed, denied = [], []
    for each in resources:
        check, name = {
            ResourceKind.TOPIC: (of_topic, each.resource_name),
            ResourceKind.GROUP: (of_group, each.resource_name),
        }.get(each.resource_type, (of_cluster, CLUSTER_NAME))
        if access.allows(check, name):
            allowed.append(each)
        else:
            denied.append((each, check, name))
    return allowed, denied
