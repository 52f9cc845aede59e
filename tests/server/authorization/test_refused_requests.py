"""Requests that are refused as a whole: the response names everything that was asked for, with the error."""

from typing import Any

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from tailrace.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tailrace.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from tailrace.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tailrace.protocol.messages.sync_group import SyncGroupRequest
from tailrace.server.authorization.authorization_table import TABLE
from tailrace.server.authorization.refused_requests import refused_with

DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def _refused(key: ApiKey, request: Any) -> Any:
    return refused_with(TABLE[key], request, DENIED, "alice may not do that")


def test_a_response_with_an_error_of_its_own_has_it() -> None:
    assert _refused(ApiKey.SYNC_GROUP, SyncGroupRequest("group")).error_code == DENIED
    assert _refused(ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest("id")).error_code == DENIED


def test_offsets_are_refused_for_each_partition() -> None:
    partitions = [OffsetCommitRequestPartition(0, 7), OffsetCommitRequestPartition(4, 8)]
    request = OffsetCommitRequest("group", topics=[OffsetCommitRequestTopic("orders", partitions=partitions)])
    (topic,) = _refused(ApiKey.OFFSET_COMMIT, request).topics
    assert topic.name == "orders"
    assert [(each.partition_index, each.error_code) for each in topic.partitions] == [(0, DENIED), (4, DENIED)]


def test_partitions_of_a_topic_in_several_directories_are_refused_together() -> None:
    directories = [
        AlterReplicaLogDir("/a", [AlterReplicaLogDirTopic("orders", [0]), AlterReplicaLogDirTopic("other", [1])]),
        AlterReplicaLogDir("/b", [AlterReplicaLogDirTopic("orders", [2])]),
    ]
    found = _refused(ApiKey.ALTER_REPLICA_LOG_DIRS, AlterReplicaLogDirsRequest(directories)).results
    assert {topic.topic_name: [each.partition_index for each in topic.partitions] for topic in found} == {
        "orders": [0, 2],
        "other": [1],
    }


def test_a_user_with_several_changes_is_refused_once() -> None:
    request = AlterUserScramCredentialsRequest(
        [ScramCredentialDeletion("alice", 1), ScramCredentialDeletion("alice", 2)], [ScramCredentialUpsertion("bob", 1)]
    )
    found = _refused(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, request).results
    assert [(each.user, each.error_code) for each in found] == [("alice", DENIED), ("bob", DENIED)]


def test_filters_are_refused_one_by_one() -> None:
    found = _refused(ApiKey.DELETE_ACLS, DeleteAclsRequest([DeleteAclsFilter(), DeleteAclsFilter()])).filter_results
    assert [(each.error_code, each.error_message) for each in found] == [(DENIED, "alice may not do that")] * 2


def test_quotas_that_may_not_be_described_are_not_an_empty_list() -> None:
    refused = _refused(ApiKey.DESCRIBE_CLIENT_QUOTAS, DescribeClientQuotasRequest())
    assert refused.error_code == DENIED
    assert refused.entries is None
