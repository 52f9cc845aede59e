"""The responses to requests that are refused as a whole."""

from collections.abc import Callable, Mapping
from typing import Any

from tailrace.protocol.apis import ApiKey, message_class
from tailrace.protocol.error_codes import ErrorCode
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
from tailrace.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from tailrace.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
)
from tailrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from tailrace.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

from .authorization_row import Row
from .refused_items import refused_commit, refused_txn_commit


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


# for responses that have no place for one error


def _no_commits(request: OffsetCommitRequest, code: ErrorCode, message: str) -> OffsetCommitResponse:
    return OffsetCommitResponse(topics=[refused_commit(topic, code) for topic in request.topics])


def _no_txn_commits(request: TxnOffsetCommitRequest, code: ErrorCode, message: str) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(topics=[refused_txn_commit(topic, code) for topic in request.topics])


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


def _unknown_quotas(
    request: DescribeClientQuotasRequest, code: ErrorCode, message: str
) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=code, error_message=message, entries=None)


_REFUSALS: Mapping[int, Callable[[Any, ErrorCode, str], Any]] = {
    ApiKey.OFFSET_COMMIT: _no_commits,
    ApiKey.TXN_OFFSET_COMMIT: _no_txn_commits,
    ApiKey.WRITE_TXN_MARKERS: _no_markers,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _no_log_dirs,
    ApiKey.CREATE_ACLS: _no_creations,
    ApiKey.DELETE_ACLS: _no_deletions,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _no_users,
    ApiKey.ALTER_CLIENT_QUOTAS: _no_quotas,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _unknown_quotas,
}
"""How requests are refused as a whole, if the response needs more than an error of its own."""
