"""Requests that change the cluster are recorded with their outcomes."""

from collections.abc import Sequence
from typing import Any

import pytest
import structlog
import trio
from audit_logs import disk, opened
from hosts import request_of
from simulation.files import SimulatedFiles
from spus import SteadyClock

from tailrace.protocol.apis import API_TABLE, ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.internal.create_object import CreateObjectRequest, CreateObjectResponse
from tailrace.protocol.internal.delete_object import DeleteObjectRequest, DeleteObjectResponse
from tailrace.protocol.internal.undelete_topic import UndeleteTopicRequest, UndeleteTopicResponse
from tailrace.protocol.internal_apis import InternalApiKey
from tailrace.protocol.messages import (
    alter_client_quotas,
    alter_partition_reassignments,
    alter_user_scram_credentials,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    elect_leaders,
    incremental_alter_configs,
    offset_delete,
)
from tailrace.protocol.messages.create_delegation_token import CreateDelegationTokenResponse
from tailrace.protocol.messages.renew_delegation_token import RenewDelegationTokenResponse
from tailrace.server.auditing.audit_trail import AuditTrail
from tailrace.server.auditing.audited_changes import ANSWERED_LATER, CHANGES, audited
from tailrace.server.request_context import RequestContext

DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED

CASES: Sequence[tuple[int, Any, Any, list[tuple[str, int]]]] = [
    (
        ApiKey.CREATE_TOPICS,
        None,
        create_topics.CreateTopicsResponse(
            topics=[
                create_topics.CreatableTopicResult(name="a"),
                create_topics.CreatableTopicResult("b", error_code=31),
            ]
        ),
        [("TOPIC:a", 0), ("TOPIC:b", DENIED)],
    ),
    (
        ApiKey.DELETE_TOPICS,
        None,
        delete_topics.DeleteTopicsResponse(responses=[delete_topics.DeletableTopicResult("a")]),
        [("TOPIC:a", 0)],
    ),
    (
        ApiKey.CREATE_PARTITIONS,
        None,
        create_partitions.CreatePartitionsResponse(results=[create_partitions.CreatePartitionsTopicResult("a")]),
        [("TOPIC:a", 0)],
    ),
    (
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        None,
        incremental_alter_configs.IncrementalAlterConfigsResponse(
            responses=[incremental_alter_configs.AlterConfigsResourceResponse(0, None, 4, "1")]
        ),
        [("BROKER:1", 0)],
    ),
    (
        ApiKey.ELECT_LEADERS,
        None,
        elect_leaders.ElectLeadersResponse(
            replica_election_results=[
                elect_leaders.ReplicaElectionResult("a", [elect_leaders.PartitionResult(2, DENIED)])
            ]
        ),
        [("PARTITION:a/2", DENIED)],
    ),
    (
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        None,
        alter_partition_reassignments.AlterPartitionReassignmentsResponse(
            responses=[
                alter_partition_reassignments.ReassignableTopicResponse(
                    "a", [alter_partition_reassignments.ReassignablePartitionResponse(1)]
                )
            ]
        ),
        [("PARTITION:a/1", 0)],
    ),
    (
        ApiKey.CREATE_ACLS,
        create_acls.CreateAclsRequest([create_acls.AclCreation(2, "a", 3, "User:bob", "*", 3, 3)]),
        create_acls.CreateAclsResponse(results=[create_acls.AclCreationResult()]),
        [("ACL:TOPIC:a User:bob", 0)],
    ),
    (
        ApiKey.DELETE_ACLS,
        None,
        delete_acls.DeleteAclsResponse(
            filter_results=[
                delete_acls.DeleteAclsFilterResult(
                    matching_acls=[delete_acls.DeleteAclsMatchingAcl(0, None, 3, "g", 3, "User:bob", "*", 3, 3)]
                )
            ]
        ),
        [("ACL:GROUP:g User:bob", 0)],
    ),
    (
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        None,
        alter_user_scram_credentials.AlterUserScramCredentialsResponse(
            results=[alter_user_scram_credentials.AlterUserScramCredentialsResult("bob", 0)]
        ),
        [("USER:bob", 0)],
    ),
    (
        ApiKey.ALTER_CLIENT_QUOTAS,
        None,
        alter_client_quotas.AlterClientQuotasResponse(
            entries=[
                alter_client_quotas.AlterClientQuotasResponseEntryData(
                    0,
                    None,
                    [
                        alter_client_quotas.EntityData("user", "bob"),
                        alter_client_quotas.EntityData("client-id", None),
                    ],
                )
            ]
        ),
        [("QUOTA:user=bob,client-id=<default>", 0)],
    ),
    (
        ApiKey.CREATE_DELEGATION_TOKEN,
        None,
        CreateDelegationTokenResponse(principal_type="User", principal_name="bob", token_id="t", hmac=b"secret"),
        [("DELEGATION_TOKEN:t of User:bob", 0)],
    ),
    (ApiKey.RENEW_DELEGATION_TOKEN, None, RenewDelegationTokenResponse(62), [("DELEGATION_TOKEN", 62)]),
    (
        ApiKey.DELETE_RECORDS,
        None,
        delete_records.DeleteRecordsResponse(
            topics=[
                delete_records.DeleteRecordsTopicResult("a", [delete_records.DeleteRecordsPartitionResult(0, 5, 0)])
            ]
        ),
        [("PARTITION:a/0", 0)],
    ),
    (ApiKey.DELETE_GROUPS, delete_groups.DeleteGroupsRequest(["g"]), None, [("GROUP:g", 0)]),
    (ApiKey.OFFSET_DELETE, offset_delete.OffsetDeleteRequest("g"), None, [("GROUP:g", 0)]),
    (InternalApiKey.CREATE_OBJECT, CreateObjectRequest("spu", "{}"), CreateObjectResponse(), [("OBJECT:spu", 0)]),
    (InternalApiKey.CREATE_OBJECT, CreateObjectRequest("spu", "["), CreateObjectResponse(2), [("OBJECT:spu", 2)]),
    (
        InternalApiKey.CREATE_OBJECT,
        CreateObjectRequest("spu", '{"spec": {"spuId": 7, "configs": {"a": "secret"}}}'),
        CreateObjectResponse(),
        [("OBJECT:spu/7", 0)],
    ),
    (
        InternalApiKey.UPDATE_OBJECT,
        CreateObjectRequest("topic", '{"name": "orders"}'),
        CreateObjectResponse(),
        [("OBJECT:topic/orders", 0)],
    ),
    (
        InternalApiKey.DELETE_OBJECT,
        DeleteObjectRequest("spu", "7"),
        DeleteObjectResponse(DENIED),
        [("OBJECT:spu/7", DENIED)],
    ),
    (InternalApiKey.UNDELETE_TOPIC, UndeleteTopicRequest("a"), UndeleteTopicResponse(), [("TOPIC:a", 0)]),
]


@pytest.mark.parametrize(("api_key", "request_", "response", "outcomes"), CASES)
def test_the_outcomes_of_each_api(api_key: int, request_: Any, response: Any, outcomes: list[tuple[str, int]]) -> None:
    assert list(CHANGES[api_key](request_, response)) == outcomes


def test_nothing_is_recorded_of_apis_that_change_nothing() -> None:
    def handle(context: RequestContext, request: Any) -> None:
        return None

    assert audited(ApiKey.METADATA, handle, None) is handle
    assert set(API_TABLE) >= ANSWERED_LATER


async def _written(files: SimulatedFiles, api_key: ApiKey, handle: Any, request: Any) -> str:
    """Handles a request with a trail, and returns what the log then has."""
    trail = AuditTrail(await opened(files), SteadyClock(), structlog.get_logger())
    async with trio.open_nursery() as nursery:
        await nursery.start(trail.run)
        reply = audited(api_key, handle, trail)(request_of(api_key), request)
        if reply is not None:
            await reply  # type: ignore[misc]
        nursery.cancel_scope.cancel()
    return "".join(files.read(path).decode() for path in files.paths() if path.endswith(".log"))


async def test_the_response_of_a_coroutine_is_recorded_and_a_trial_is_not(autojump_clock: object) -> None:
    async def handle(context: RequestContext, request: Any) -> object:
        await trio.lowlevel.checkpoint()
        return create_topics.CreateTopicsResponse(topics=[create_topics.CreatableTopicResult("a", error_code=31)])

    text = await _written(disk(), ApiKey.CREATE_TOPICS, handle, create_topics.CreateTopicsRequest())
    assert '"outcome":"failed"' in text
    assert '"operation":"CreateTopics","resource":"TOPIC:a","why":"CLUSTER_AUTHORIZATION_FAILED"' in text
    trial = create_topics.CreateTopicsRequest(validate_only=True)
    assert "CreateTopics" not in await _written(disk(), ApiKey.CREATE_TOPICS, handle, trial)


async def test_a_request_that_is_answered_later_is_recorded_at_once(autojump_clock: object) -> None:
    def handle(context: RequestContext, request: Any) -> None:
        return None

    text = await _written(disk(), ApiKey.DELETE_GROUPS, handle, delete_groups.DeleteGroupsRequest(["g"]))
    assert '"outcome":"requested"' in text
    assert '"operation":"DeleteGroups","resource":"GROUP:g"' in text
