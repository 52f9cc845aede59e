"""The guards of the APIs of groups whose items or responses need more than one check."""

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages import consumer_group_describe as consumer_groups
from tailrace.protocol.messages import describe_groups as classic_groups
from tailrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tailrace.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from tailrace.protocol.messages.list_groups import ListGroupsRequest
from tailrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from tailrace.security.acls.acl_codes import CLUSTER_NAME, ResourceType
from tailrace.server.request_context import Reply, RequestContext

from .access import Access
from .authorization import Handle
from .authorization_row import Check, Row
from .common_guards import refused_as_a_whole, with_allowed, with_refused
from .refused_requests import refused_with

GROUP, TRANSACTION = 0, 1
"""The types of keys in FindCoordinator."""
SEVERAL_KEYS_FROM = 4
"""The first version of FindCoordinator that has several keys."""
SEVERAL_GROUPS_FROM = 8
"""The first version of OffsetFetch that has several groups."""
ONE_ERROR_FOR_ALL_FROM = 2
"""The first version of OffsetFetch whose response has an error for the whole request."""
NO_NODE = -1
NO_OFFSET = -1


class Viewer:
    """Which topics a client may describe, for the patterns to which it subscribes."""

    __slots__ = ("_access", "_check")

    def __init__(self, access: Access, check: Check) -> None:
        self._access = access
        self._check = check

    @property
    def version(self) -> int:
        """A number that changes whenever a permission may change."""
        return self._access.version

    def may_describe(self, topic: str) -> bool:
        """Whether the client may describe a topic."""
        return self._access.may(self._check.operation, self._check.resource, topic)


def find_coordinator(
    row: Row, access: Access, handle: Handle, context: RequestContext, request: FindCoordinatorRequest
) -> Reply:
    of_group, of_transaction, of_cluster = row.checks
    check = {GROUP: of_group, TRANSACTION: of_transaction}.get(request.key_type, of_cluster)

    def name_of(key: str) -> str:
        return CLUSTER_NAME if check is of_cluster else key

    if context.api_version < SEVERAL_KEYS_FROM:
        name = name_of(request.key)
        if access.allows(check, name):
            return handle(context, request)
        message = access.refusal(check, name)
        return FindCoordinatorResponse(error_code=check.error, error_message=message, node_id=NO_NODE, port=NO_NODE)
    allowed, denied = access.split(check, request.coordinator_keys, name_of)
    if not denied:
        return handle(context, request)
    rows = [Coordinator(key, NO_NODE, "", NO_NODE, check.error, access.refusal(check, name_of(key))) for key in denied]
    if not allowed:
        return FindCoordinatorResponse(coordinators=rows)
    request.coordinator_keys = allowed
    context.amend = with_refused("coordinators", rows)
    return handle(context, request)


# descriptions


def describe_groups(
    row: Row, access: Access, handle: Handle, context: RequestContext, request: classic_groups.DescribeGroupsRequest
) -> Reply:
    (check,) = row.checks
    allowed, denied = access.split(check, request.groups, lambda group: group)
    rows = [
        classic_groups.DescribedGroup(check.error, access.refusal(check, group), group)
        for group in dict.fromkeys(denied)
    ]
    if not allowed:
        return classic_groups.DescribeGroupsResponse(groups=rows)
    request.groups = allowed

    def amend(response: classic_groups.DescribeGroupsResponse) -> classic_groups.DescribeGroupsResponse:
        if request.include_authorized_operations:
            for group in response.groups:
                if group.error_code == ErrorCode.NONE:
                    group.authorized_operations = access.operations(ResourceType.GROUP, group.group_id)
        response.groups.extend(rows)
        return response

    context.amend = amend
    return handle(context, request)


def consumer_group_describe(
    row: Row,
    access: Access,
    handle: Handle,
    context: RequestContext,
    request: consumer_groups.ConsumerGroupDescribeRequest,
) -> Reply:
    """Describes groups. A group whose members read topics that the client may not describe is refused, as in Kafka."""
    of_group, of_topic = row.checks
    allowed, denied = access.split(of_group, request.group_ids, lambda group: group)
    rows = [
        consumer_groups.DescribedGroup(of_group.error, access.refusal(of_group, group), group)
        for group in dict.fromkeys(denied)
    ]
    if not allowed:
        return consumer_groups.ConsumerGroupDescribeResponse(groups=rows)
    request.group_ids = allowed

    def amend(response: consumer_groups.ConsumerGroupDescribeResponse) -> consumer_groups.ConsumerGroupDescribeResponse:
        described = []
        for group in response.groups:
            hidden = next((name for name in _topics_of(group) if not access.allows(of_topic, name)), None)
            if hidden is not None:
                group = consumer_groups.DescribedGroup(
                    of_topic.error, "its members read topics that the client may not describe", group.group_id
                )
            elif request.include_authorized_operations and group.error_code == ErrorCode.NONE:
                group.authorized_operations = access.operations(ResourceType.GROUP, group.group_id)
            described.append(group)
        response.groups = described + rows
        return response

    context.amend = amend
    return handle(context, request)


def _topics_of(group: consumer_groups.DescribedGroup) -> dict[str, None]:
    return dict.fromkeys(
        each.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for each in assignment.topic_partitions
    )


def list_groups(row: Row, access: Access, handle: Handle, context: RequestContext, request: ListGroupsRequest) -> Reply:
    (check,) = row.checks
    context.amend = with_allowed(access, check, "groups", lambda group: group.group_id)
    return handle(context, request)


# members and offsets


def consumer_group_heartbeat(
    row: Row, access: Access, handle: Handle, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> Reply:
    of_group, of_topic = row.checks
    refused = refused_as_a_whole(row, access, (of_group,), request)
    if refused is not None:
        return refused
    for name in request.subscribed_topic_names or ():
        if not access.allows(of_topic, name):
            return refused_with(row, request, of_topic.error, access.refusal(of_topic, name))
    context.viewer = Viewer(access, of_topic)
    return handle(context, request)


def offset_fetch(
    row: Row, access: Access, handle: Handle, context: RequestContext, request: OffsetFetchRequest
) -> Reply:
    if context.api_version < SEVERAL_GROUPS_FROM:
        return _fetch_of_one(row, access, handle, context, request)
    of_group, named, listed = row.checks
    allowed, denied = access.split(of_group, request.groups, lambda group: group.group_id)
    refused = [OffsetFetchResponseGroup(group.group_id, error_code=of_group.error) for group in denied]
    if not allowed:
        return OffsetFetchResponse(groups=refused)
    request.groups = allowed
    hidden = {group.group_id: _take_hidden(access, named, group) for group in allowed}
    unnamed = {group.group_id for group in allowed if group.topics is None}

    def amend(response: OffsetFetchResponse) -> OffsetFetchResponse:
        for group in response.groups:
            if group.group_id in unnamed:
                group.topics, _ = access.split(
                    listed, group.topics, lambda topic: access.topic_named(topic.name, topic.topic_id)
                )
            if group.error_code == ErrorCode.NONE:
                group.topics.extend(hidden.get(group.group_id, ()))
        response.groups.extend(refused)
        return response

    context.amend = amend
    return handle(context, request)


def _take_hidden(access: Access, check: Check, group: OffsetFetchRequestGroup) -> list[OffsetFetchResponseTopics]:
    """Takes the topics out of the request that the client may not describe, and returns their rows of the response."""
    if group.topics is None:
        return []
    group.topics, denied = access.split(
        check, group.topics, lambda topic: access.topic_named(topic.name, topic.topic_id)
    )
    return [
        OffsetFetchResponseTopics(
            topic.name,
            topic.topic_id,
            [
                OffsetFetchResponsePartitions(each, NO_OFFSET, error_code=check.error)
                for each in topic.partition_indexes
            ],
        )
        for topic in denied
    ]


def _fetch_of_one(
    row: Row, access: Access, handle: Handle, context: RequestContext, request: OffsetFetchRequest
) -> Reply:
    of_group, named, listed = row.checks
    if not access.allows(of_group, request.group_id):
        if context.api_version >= ONE_ERROR_FOR_ALL_FROM:
            return OffsetFetchResponse(error_code=of_group.error)
        return OffsetFetchResponse(topics=[_no_offsets(topic, of_group.error) for topic in request.topics or ()])
    rows: list[OffsetFetchResponseTopic] = []
    are_all = request.topics is None
    if request.topics is not None:
        request.topics, denied = access.split(named, request.topics, lambda topic: topic.name)
        rows = [_no_offsets(topic, named.error) for topic in denied]

    def amend(response: OffsetFetchResponse) -> OffsetFetchResponse:
        if are_all:
            response.topics, _ = access.split(listed, response.topics, lambda topic: topic.name)
        if response.error_code == ErrorCode.NONE:
            response.topics.extend(rows)
        return response

    context.amend = amend
    return handle(context, request)


def _no_offsets(topic: OffsetFetchRequestTopic, code: ErrorCode) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        topic.name,
        [OffsetFetchResponsePartition(each, NO_OFFSET, error_code=code) for each in topic.partition_indexes],
    )
