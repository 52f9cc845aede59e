"""Handles the APIs that change the cluster: the Streaming Controller carries them out, and this SPU forwards them.

- When the response leaves, this SPU knows the outcome: its mirror has the new topics, partitions, configs or leaders,
  and no longer has the deleted topics.
- `server/handlers/` has the handlers that the controller runs. They name each API's versions, rules and deviations.
- If the controller does not respond within the request's timeout (at least a second, at most half a minute), the client
  gets REQUEST_TIMED_OUT for everything that it named. The controller may have carried out the request nevertheless.
  AlterConfigs and IncrementalAlterConfigs have no timeout, and so wait for half a minute.
"""

from collections.abc import Callable, Mapping
from typing import Any

from tailrace.broker.controller_link.forwarding import FORWARD_MS_MAX
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.messages import alter_configs, incremental_alter_configs
from tailrace.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
)
from tailrace.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsResponse
from tailrace.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from tailrace.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from tailrace.protocol.messages.create_delegation_token import CreateDelegationTokenResponse
from tailrace.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from tailrace.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from tailrace.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from tailrace.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tailrace.protocol.messages.describe_delegation_token import DescribeDelegationTokenResponse
from tailrace.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from tailrace.protocol.messages.expire_delegation_token import ExpireDelegationTokenResponse
from tailrace.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsResponse
from tailrace.protocol.messages.renew_delegation_token import RenewDelegationTokenResponse
from tailrace.server.config_responses import rows
from tailrace.server.request_context import EncodedBody, RequestContext

from .forwarding_host import ForwardingHost


async def handle(host: ForwardingHost, context: RequestContext, request: Any) -> EncodedBody | object:
    try:
        return await host.forwarding.forward(context, request, getattr(request, "timeout_ms", FORWARD_MS_MAX))
    except KafkaError as error:
        return REFUSALS[context.api_key](request, error)


def _create_topics(request: CreateTopicsRequest, error: KafkaError) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
            for topic in request.topics
        ]
    )


def _delete_topics(request: DeleteTopicsRequest, error: KafkaError) -> DeleteTopicsResponse:
    # Versions before 6 name the topics in `topic_names`, later versions in `topics`.
    named = [*request.topics, *(DeleteTopicState(name=name) for name in request.topic_names)]
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(
                name=topic.name, topic_id=topic.topic_id, error_code=error.code, error_message=error.message
            )
            for topic in named
        ]
    )


def _create_partitions(request: CreatePartitionsRequest, error: KafkaError) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
            for topic in request.topics
        ]
    )


def _alter_configs(request: alter_configs.AlterConfigsRequest, error: KafkaError) -> alter_configs.AlterConfigsResponse:
    resources = [(each.resource_type, each.resource_name) for each in request.resources]
    return alter_configs.AlterConfigsResponse(
        responses=rows(alter_configs.AlterConfigsResourceResponse, resources, [error] * len(resources))
    )


def _incremental_alter_configs(
    request: incremental_alter_configs.IncrementalAlterConfigsRequest, error: KafkaError
) -> incremental_alter_configs.IncrementalAlterConfigsResponse:
    resources = [(each.resource_type, each.resource_name) for each in request.resources]
    return incremental_alter_configs.IncrementalAlterConfigsResponse(
        responses=rows(incremental_alter_configs.AlterConfigsResourceResponse, resources, [error] * len(resources))
    )


def _elect_leaders(request: ElectLeadersRequest, error: KafkaError) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=error.code,
        replica_election_results=[
            ReplicaElectionResult(
                topic.topic, [PartitionResult(number, error.code, error.message) for number in topic.partitions]
            )
            for topic in request.topic_partitions or ()
        ],
    )


def _alter_partition_reassignments(request: object, error: KafkaError) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(error_code=error.code, error_message=error.message)


def _list_partition_reassignments(request: object, error: KafkaError) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_code=error.code, error_message=error.message)


def _create_delegation_token(_: object, error: KafkaError) -> CreateDelegationTokenResponse:
    return CreateDelegationTokenResponse(
        error_code=error.code, issue_timestamp_ms=-1, expiry_timestamp_ms=-1, max_timestamp_ms=-1
    )


def _renew_delegation_token(_: object, error: KafkaError) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=-1)


def _expire_delegation_token(_: object, error: KafkaError) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=-1)


def _describe_delegation_token(_: object, error: KafkaError) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(error_code=error.code)


def _alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, error: KafkaError
) -> AlterUserScramCredentialsResponse:
    names = dict.fromkeys([*(each.name for each in request.deletions), *(each.name for each in request.upsertions)])
    return AlterUserScramCredentialsResponse(
        results=[AlterUserScramCredentialsResult(name, error.code, error.message) for name in names]
    )


def _alter_client_quotas(request: AlterClientQuotasRequest, error: KafkaError) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[
            AlterClientQuotasResponseEntryData(error.code, error.message, entry.entity) for entry in request.entries
        ]
    )


def _create_acls(request: CreateAclsRequest, error: KafkaError) -> CreateAclsResponse:
    return CreateAclsResponse(results=[AclCreationResult(error.code, error.message) for _ in request.creations])


def _delete_acls(request: DeleteAclsRequest, error: KafkaError) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[DeleteAclsFilterResult(error.code, error.message) for _ in request.filters]
    )


REFUSALS: Mapping[int, Callable[[Any, KafkaError], object]] = {
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.ALTER_CONFIGS: _alter_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _incremental_alter_configs,
    ApiKey.ELECT_LEADERS: _elect_leaders,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _alter_partition_reassignments,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _list_partition_reassignments,
    ApiKey.CREATE_ACLS: _create_acls,
    ApiKey.DELETE_ACLS: _delete_acls,
    ApiKey.CREATE_DELEGATION_TOKEN: _create_delegation_token,
    ApiKey.RENEW_DELEGATION_TOKEN: _renew_delegation_token,
    ApiKey.EXPIRE_DELEGATION_TOKEN: _expire_delegation_token,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: _describe_delegation_token,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _alter_user_scram_credentials,
    ApiKey.ALTER_CLIENT_QUOTAS: _alter_client_quotas,
}
"""How each forwarded API responds if the controller did not: with the error for everything that the request names."""
