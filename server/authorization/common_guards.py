"""The guards of most APIs: those that are allowed as a whole, and those whose items are checked one by one."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tailrace.protocol.apis import ApiKey, message_class
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages import delete_records, describe_producers, list_offsets, offset_for_leader_epoch
from tailrace.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
)
from tailrace.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from tailrace.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from tailrace.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from tailrace.protocol.messages.create_partitions import CreatePartitionsTopicResult
from tailrace.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from tailrace.protocol.messages.delete_groups import DeletableGroupResult
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tailrace.protocol.messages.offset_delete import OffsetDeleteResponsePartition, OffsetDeleteResponseTopic
from tailrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tailrace.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tailrace.security.acls.acl_codes import CLUSTER_NAME, ResourceType
from tailrace.server.request_context import Reply, RequestContext

from .access import Access
from .authorization import Handle
from .authorization_row import Check, Row

Amend = Callable[[Any], Any]
"""Corrects the response of a handler."""


def whole(row: Row, access: Access, handle: Handle, context: RequestContext, request: Any) -> Reply:
    """Lets a request through if it passes all checks."""
    refused = refused_as_a_whole(row, access, row.checks, request)
    return handle(context, request) if refused is None else refused


def each(row: Row, access: Access, handle: Handle, context: RequestContext, request: Any) -> Reply:
    """Lets those items of a request through that pass the last check, if the request passes the checks before it."""
    *before, check = row.checks
    refused = refused_as_a_whole(row, access, tuple(before), request)
    if refused is not None:
        return refused
    items, name_of, answer, results = _EACH[row.api]
    asked = getattr(request, items)
    allowed, denied = access.split(check, asked, lambda item: name_of(access, item))
    if not denied:
        return handle(context, request)
    rows = [answer(item, check.error, access.refusal(check, name_of(access, item) or "")) for item in denied]
    if not allowed:
        response: object = message_class(row.api, "Response")(**{results: rows})
        return response

    context.amend = with_refused(results, rows)
    setattr(request, items, allowed)
    return handle(context, request)


def with_refused(results: str, rows: Sequence[Any]) -> Amend:
    """Returns the function that adds the rows of refused items to a field of the response."""

    def amend(response: Any) -> Any:
        getattr(response, results).extend(rows)
        return response

    return amend


def with_allowed(access: Access, check: Check, results: str, name_of: Callable[[Any], str | None]) -> Amend:
    """Returns the function that leaves those items in a field of the response that pass a check."""

    def amend(response: Any) -> Any:
        allowed, _ = access.split(check, getattr(response, results), name_of)
        setattr(response, results, allowed)
        return response

    return amend


def refused_as_a_whole(row: Row, access: Access, checks: tuple[Check, ...], request: Any) -> object | None:
    """Returns the response to a request that fails one of the checks; None if it passes all."""
    for check in checks:
        name = CLUSTER_NAME if check.resource == ResourceType.CLUSTER else getattr(request, check.field)
        if not access.allows(check, name):
            return refused_with(row, request, check.error, access.refusal(check, name))
    return None


def refused_with(row: Row, request: Any, code: ErrorCode, message: str) -> object:
    """Makes the response to a request that is refused as a whole."""
    make = _REFUSALS.get(row.api)
    if make is not None:
        refused: object = make(request, code, message)
        return refused
    response: object = message_class(row.api, "Response")(error_code=code)
    if hasattr(response, "error_message"):
        response.error_message = message
    return response


# items of requests


class _Each(NamedTuple):
    """How the items of a request are named and answered."""

    items: str
    """The field of the request that has the items."""
    name_of: Callable[[Access, Any], str | None]
    answer: Callable[[Any, ErrorCode, str], Any]
    """Makes the item of the response from the item of the request, an error code and a message."""
    results: str
    """The field of the response that has the results."""


def _name(access: Access, item: Any) -> str | None:
    name: str = item.name
    return name


def _name_or_id(access: Access, item: OffsetCommitRequestTopic) -> str | None:
    return access.topic_named(item.name, item.topic_id)


def _listed_offsets(topic: list_offsets.ListOffsetsTopic, code: ErrorCode, message: str) -> object:
    return list_offsets.ListOffsetsTopicResponse(
        topic.name,
        [list_offsets.ListOffsetsPartitionResponse(each.partition_index, code) for each in topic.partitions],
    )


def _deleted_records(topic: delete_records.DeleteRecordsTopic, code: ErrorCode, message: str) -> object:
    return delete_records.DeleteRecordsTopicResult(
        topic.name,
        [delete_records.DeleteRecordsPartitionResult(each.partition_index, -1, code) for each in topic.partitions],
    )


def _epoch_ends(topic: offset_for_leader_epoch.OffsetForLeaderTopic, code: ErrorCode, message: str) -> object:
    return offset_for_leader_epoch.OffsetForLeaderTopicResult(
        topic.topic, [offset_for_leader_epoch.EpochEndOffset(code, each.partition) for each in topic.partitions]
    )


def _described_producers(topic: describe_producers.TopicRequest, code: ErrorCode, message: str) -> object:
    return describe_producers.TopicResponse(
        topic.name,
        [describe_producers.PartitionResponse(number, code, message) for number in topic.partition_indexes],
    )


def _committed(topic: OffsetCommitRequestTopic, code: ErrorCode, message: str = "") -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        topic.name,
        topic.topic_id,
        [OffsetCommitResponsePartition(each.partition_index, code) for each in topic.partitions],
    )


def _txn_committed(
    topic: TxnOffsetCommitRequestTopic, code: ErrorCode, message: str = ""
) -> TxnOffsetCommitResponseTopic:
    return TxnOffsetCommitResponseTopic(
        topic.name, [TxnOffsetCommitResponsePartition(each.partition_index, code) for each in topic.partitions]
    )


def _deleted_offsets(topic: Any, code: ErrorCode, message: str) -> object:
    return OffsetDeleteResponseTopic(
        topic.name, [OffsetDeleteResponsePartition(each.partition_index, code) for each in topic.partitions]
    )


_EACH: Mapping[int, _Each] = {
    ApiKey.LIST_OFFSETS: _Each("topics", _name, _listed_offsets, "topics"),
    ApiKey.DELETE_RECORDS: _Each("topics", _name, _deleted_records, "topics"),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _Each("topics", lambda access, item: item.topic, _epoch_ends, "topics"),
    ApiKey.DESCRIBE_PRODUCERS: _Each("topics", _name, _described_producers, "topics"),
    ApiKey.CREATE_PARTITIONS: _Each(
        "topics",
        _name,
        lambda topic, code, message: CreatePartitionsTopicResult(topic.name, code, message),
        "results",
    ),
    ApiKey.OFFSET_COMMIT: _Each("topics", _name_or_id, _committed, "topics"),
    ApiKey.TXN_OFFSET_COMMIT: _Each("topics", _name, _txn_committed, "topics"),
    ApiKey.OFFSET_DELETE: _Each("topics", _name, _deleted_offsets, "topics"),
    ApiKey.DELETE_GROUPS: _Each(
        "groups_names",
        lambda access, group_id: group_id,
        lambda group_id, code, message: DeletableGroupResult(group_id, code),
        "results",
    ),
}
"""How the items of each API with such a guard are named and answered."""


# requests that are refused as a whole, and whose responses have no place for one error


def _no_commits(request: OffsetCommitRequest, code: ErrorCode, message: str) -> OffsetCommitResponse:
    return OffsetCommitResponse(topics=[_committed(topic, code) for topic in request.topics])


def _no_txn_commits(request: TxnOffsetCommitRequest, code: ErrorCode, message: str) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(topics=[_txn_committed(topic, code) for topic in request.topics])


def _no_markers(request: WriteTxnMarkersRequest, code: ErrorCode, message: str) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                marker.producer_id,
                [
                    WritableTxnMarkerTopicResult(
                        topic.name, [WritableTxnMarkerPartitionResult(each, code) for each in topic.partition_indexes]
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def _no_log_dirs(request: AlterReplicaLogDirsRequest, code: ErrorCode, message: str) -> AlterReplicaLogDirsResponse:
    topics: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            topics.setdefault(topic.name, []).extend(
                AlterReplicaLogDirPartitionResult(each, code) for each in topic.partitions
            )
    return AlterReplicaLogDirsResponse(results=[AlterReplicaLogDirTopicResult(*each) for each in topics.items()])


def _no_creations(request: CreateAclsRequest, code: ErrorCode, message: str) -> CreateAclsResponse:
    return CreateAclsResponse(results=[AclCreationResult(code, message) for _ in request.creations])


def _no_deletions(request: DeleteAclsRequest, code: ErrorCode, message: str) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=[DeleteAclsFilterResult(code, message) for _ in request.filters])


def _no_users(
    request: AlterUserScramCredentialsRequest, code: ErrorCode, message: str
) -> AlterUserScramCredentialsResponse:
    names = dict.fromkeys([*(each.name for each in request.deletions), *(each.name for each in request.upsertions)])
    return AlterUserScramCredentialsResponse(
        results=[AlterUserScramCredentialsResult(name, code, message) for name in names]
    )


def _no_quotas(request: AlterClientQuotasRequest, code: ErrorCode, message: str) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[AlterClientQuotasResponseEntryData(code, message, entry.entity) for entry in request.entries]
    )


_REFUSALS: Mapping[int, Callable[[Any, ErrorCode, str], Any]] = {
    ApiKey.OFFSET_COMMIT: _no_commits,
    ApiKey.TXN_OFFSET_COMMIT: _no_txn_commits,
    ApiKey.WRITE_TXN_MARKERS: _no_markers,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _no_log_dirs,
    ApiKey.CREATE_ACLS: _no_creations,
    ApiKey.DELETE_ACLS: _no_deletions,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _no_users,
    ApiKey.ALTER_CLIENT_QUOTAS: _no_quotas,
}
"""How requests are refused as a whole, if the response has no error of its own."""
