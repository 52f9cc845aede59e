"""The guards of our own APIs, which the command line, triggers and jobs on Spark use."""

import json
from typing import Any

from tailrace.protocol.internal.create_object import CreateObjectRequest
from tailrace.protocol.internal.delete_object import DeleteObjectRequest
from tailrace.protocol.internal.describe_partitions import DescribePartitionsRequest
from tailrace.protocol.internal.describe_positions import (
    AskedTopic,
    DescribedPartition,
    DescribedTopic,
    DescribePositionsRequest,
)
from tailrace.protocol.internal.list_objects import ListedObject, ListObjectsRequest
from tailrace.protocol.internal.read_stream_state import ReadStreamStateRequest
from tailrace.security.acls.acl_codes import CLUSTER_NAME
from tailrace.server.request_context import Reply, RequestContext

from .access import Access
from .authorization import Handle
from .authorization_row import Check, Row
from .common_guards import refused_as_a_whole, with_allowed, with_refused
from .refused_requests import refused_with

TOPIC = "topic"
PARTITION = "partition"
NAME_BYTES_MAX = 1 << 20
"""The largest document of a topic whose name is looked up; larger ones need the permission for all objects."""


def list_objects(
    row: Row, access: Access, handle: Handle, context: RequestContext, request: ListObjectsRequest
) -> Reply:
    """Lists the topics and partitions that a client may describe; other objects are listed as a whole."""
    of_topic, of_cluster = row.checks
    if request.kind not in (TOPIC, PARTITION):
        return _whole(row, access, of_cluster, handle, context, request)
    refused = _named_in_vain(row, access, of_topic, request, request.names)
    if refused is not None:
        return refused
    context.amend = with_allowed(access, of_topic, "objects", _topic_of)
    return handle(context, request)


def create_object(
    row: Row, access: Access, handle: Handle, context: RequestContext, request: CreateObjectRequest
) -> Reply:
    """Creates a topic, or another object if the client may alter the cluster."""
    of_topic, of_cluster = row.checks
    name = _name_in(request.document) if request.kind == TOPIC else None
    if name is None:
        return _whole(row, access, of_cluster, handle, context, request)
    if not access.allows(of_topic, name):
        return refused_with(row, request, of_topic.error, access.refusal(of_topic, name))
    return handle(context, request)


def delete_object(
    row: Row, access: Access, handle: Handle, context: RequestContext, request: DeleteObjectRequest
) -> Reply:
    """Deletes a topic, or another object if the client may alter the cluster."""
    of_topic, of_cluster = row.checks
    if request.kind != TOPIC:
        return _whole(row, access, of_cluster, handle, context, request)
    if not access.allows(of_topic, request.name):
        return refused_with(row, request, of_topic.error, access.refusal(of_topic, request.name))
    return handle(context, request)


def describe_partitions(
    row: Row, access: Access, handle: Handle, context: RequestContext, request: DescribePartitionsRequest
) -> Reply:
    """Describes the partitions of topics that a client may describe."""
    named, listed = row.checks
    refused = _named_in_vain(row, access, named, request, request.topics)
    if refused is not None:
        return refused
    context.amend = with_allowed(access, listed, "partitions", lambda each: each.topic)
    return handle(context, request)


def read_stream_state(
    row: Row, access: Access, handle: Handle, context: RequestContext, request: ReadStreamStateRequest
) -> Reply:
    """Shows the groups of a stream that a client may describe."""
    of_topic, of_group = row.checks
    refused = refused_as_a_whole(row, access, (of_topic,), request)
    if refused is not None:
        return refused
    context.amend = with_allowed(access, of_group, "groups", lambda each: each.group)
    return handle(context, request)


def describe_positions(
    row: Row, access: Access, handle: Handle, context: RequestContext, request: DescribePositionsRequest
) -> Reply:
    """Tells the ends of the partitions of topics that a client may describe."""
    (check,) = row.checks

    def name_of(topic: AskedTopic) -> str:
        # A topic that does not exist is refused like one that the client may not describe.
        return access.topic_named(None, topic.topic_id) or ""

    allowed, denied = access.split(check, request.topics, name_of)
    rows = [
        DescribedTopic(
            topic.topic_id, [DescribedPartition(each.partition, error_code=check.error) for each in topic.partitions]
        )
        for topic in denied
    ]
    request.topics = allowed
    context.amend = with_refused("topics", rows)
    return handle(context, request)


def _whole(row: Row, access: Access, check: Check, handle: Handle, context: RequestContext, request: Any) -> Reply:
    if access.allows(check, CLUSTER_NAME):
        return handle(context, request)
    return refused_with(row, request, check.error, access.refusal(check, CLUSTER_NAME))


def _named_in_vain(row: Row, access: Access, check: Check, request: object, names: list[str] | None) -> object | None:
    """Returns the refusal of a request that names a topic which the client may not describe; None otherwise."""
    for name in names or ():
        topic = name.partition("/")[0]
        if not access.allows(check, topic):
            return refused_with(row, request, check.error, access.refusal(check, topic))
    return None


def _topic_of(listed: ListedObject) -> str:
    return listed.name.partition("/")[0]


def _name_in(document: str) -> str | None:
    """Returns the name of a topic in its document; None if the document has none."""
    if len(document) > NAME_BYTES_MAX:
        return None
    try:
        found = json.loads(document)
    except (ValueError, RecursionError):
        return None
    name = found.get("name") if isinstance(found, dict) else None
    return name if isinstance(name, str) else None
