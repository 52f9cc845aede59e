"""Requests with and without the permissions that they need, against an SPU with an authorizer.

The cases of `testAuthorizationWithTopicExisting` and `testAuthorizationWithTopicNotExisting` of Kafka's
AuthorizerIntegrationTest: each API is refused without rules, and not refused with the rules that it needs.
"""

from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import UUID

from authorized_spu import AuthorizedSpu, Rule, authorized_spu
from spus import batch

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages import add_partitions_to_txn as adding
from tailrace.protocol.messages import alter_configs, create_topics, delete_acls, incremental_alter_configs
from tailrace.protocol.messages import alter_partition_reassignments as reassigning
from tailrace.protocol.messages import alter_replica_log_dirs as moving
from tailrace.protocol.messages import delete_records as purging
from tailrace.protocol.messages import describe_configs as configs
from tailrace.protocol.messages import fetch as fetching
from tailrace.protocol.messages import list_offsets as listing
from tailrace.protocol.messages import metadata as describing
from tailrace.protocol.messages import offset_commit as committing
from tailrace.protocol.messages import offset_delete as forgetting
from tailrace.protocol.messages import offset_fetch as offsets
from tailrace.protocol.messages import offset_for_leader_epoch as epochs
from tailrace.protocol.messages import produce as producing
from tailrace.protocol.messages import txn_offset_commit as txn_offsets
from tailrace.protocol.messages import write_txn_markers as marking
from tailrace.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tailrace.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from tailrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tailrace.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from tailrace.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tailrace.protocol.messages.delete_groups import DeleteGroupsRequest
from tailrace.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tailrace.protocol.messages.describe_acls import DescribeAclsRequest
from tailrace.protocol.messages.describe_groups import DescribeGroupsRequest
from tailrace.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from tailrace.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from tailrace.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from tailrace.protocol.messages.describe_topic_partitions import TopicRequest as NamedTopic
from tailrace.protocol.messages.describe_transactions import DescribeTransactionsRequest
from tailrace.protocol.messages.elect_leaders import ElectLeadersRequest
from tailrace.protocol.messages.end_txn import EndTxnRequest
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.heartbeat import HeartbeatRequest
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest
from tailrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tailrace.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tailrace.protocol.messages.list_config_resources import ListConfigResourcesRequest
from tailrace.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from tailrace.protocol.messages.sync_group import SyncGroupRequest
from tailrace.security.acls.acl_codes import Operation as Op
from tailrace.security.acls.acl_codes import ResourceType as Res

TOPIC_READ, TOPIC_WRITE, TOPIC_DESCRIBE = (Res.TOPIC, Op.READ), (Res.TOPIC, Op.WRITE), (Res.TOPIC, Op.DESCRIBE)
GROUP_READ, GROUP_DESCRIBE = (Res.GROUP, Op.READ), (Res.GROUP, Op.DESCRIBE)
TXN_WRITE, TXN_DESCRIBE = (Res.TRANSACTIONAL_ID, Op.WRITE), (Res.TRANSACTIONAL_ID, Op.DESCRIBE)
CLUSTER_ACTION, CLUSTER_ALTER = (Res.CLUSTER, Op.CLUSTER_ACTION), (Res.CLUSTER, Op.ALTER)
CLUSTER_DESCRIBE, CLUSTER_CREATE = (Res.CLUSTER, Op.DESCRIBE), (Res.CLUSTER, Op.CREATE)
IDEMPOTENT_WRITE = (Res.CLUSTER, Op.IDEMPOTENT_WRITE)
TOPIC, GROUP, TRANSACTION = "topic", "group", "transaction"
PARTITION = 0
OF_TOPIC, OF_GROUP = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED
OF_CLUSTER, OF_TXN = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
AUTHORIZATION_ERRORS = {OF_TOPIC, OF_GROUP, OF_CLUSTER, OF_TXN}


class Case(NamedTuple):
    """A request, the error of a client without rules, where the error is, and the rules that the request needs."""

    api: ApiKey
    request: Callable[[UUID], object]
    error: ErrorCode
    code_of: Callable[[Any], int]
    rules: tuple[Rule, ...]
    version: int | None = None


def _code(response: Any) -> int:
    code: int = response.error_code
    return code


def _produce(topic_id: UUID) -> object:
    data = producing.TopicProduceData(TOPIC, topic_id, [producing.PartitionProduceData(PARTITION, batch(b"x"))])
    return producing.ProduceRequest(acks=1, timeout_ms=5000, topic_data=[data])


def _fetch(topic_id: UUID, replica: int = -1) -> fetching.FetchRequest:
    topic = fetching.FetchTopic(TOPIC, topic_id, [fetching.FetchPartition(PARTITION, partition_max_bytes=1000)])
    return fetching.FetchRequest(replica_state=fetching.ReplicaState(replica), max_bytes=1000, topics=[topic])


def _partition_code(response: Any) -> int:
    code: int = response.topics[0].partitions[0].error_code
    return code


def _alter(kind: int, name: str) -> incremental_alter_configs.IncrementalAlterConfigsRequest:
    config = incremental_alter_configs.AlterableConfig("retention.ms", 0, "1000000")
    resource = incremental_alter_configs.AlterConfigsResource(kind, name, [config])
    return incremental_alter_configs.IncrementalAlterConfigsRequest([resource], validate_only=True)


CASES = [
    Case(
        ApiKey.METADATA,
        lambda _: describing.MetadataRequest([describing.MetadataRequestTopic(name=TOPIC)]),
        OF_TOPIC,
        lambda response: response.topics[0].error_code,
        (TOPIC_DESCRIBE,),
    ),
    Case(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        lambda _: DescribeTopicPartitionsRequest([NamedTopic(TOPIC)]),
        OF_TOPIC,
        lambda response: response.topics[0].error_code,
        (TOPIC_DESCRIBE,),
    ),
    *(
        Case(
            ApiKey.PRODUCE,
            _produce,
            OF_TOPIC,
            lambda response: response.responses[0].partition_responses[0].error_code,
            (TOPIC_WRITE,),
            version,
        )
        for version in (3, 9, 12, 13)
    ),
    *(
        Case(
            ApiKey.FETCH,
            _fetch,
            OF_TOPIC,
            lambda response: response.responses[0].partitions[0].error_code,
            (TOPIC_READ,),
            version,
        )
        for version in (4, 12, 18)
    ),
    Case(
        ApiKey.FETCH,
        lambda topic_id: _fetch(topic_id, replica=7),
        OF_TOPIC,
        lambda response: response.responses[0].partitions[0].error_code,
        (CLUSTER_ACTION,),
    ),
    Case(
        ApiKey.LIST_OFFSETS,
        lambda _: listing.ListOffsetsRequest(
            -1, topics=[listing.ListOffsetsTopic(TOPIC, [listing.ListOffsetsPartition(PARTITION)])]
        ),
        OF_TOPIC,
        _partition_code,
        (TOPIC_DESCRIBE,),
    ),
    Case(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        lambda _: epochs.OffsetForLeaderEpochRequest(
            topics=[epochs.OffsetForLeaderTopic(TOPIC, [epochs.OffsetForLeaderPartition(PARTITION)])]
        ),
        OF_TOPIC,
        _partition_code,
        (TOPIC_DESCRIBE,),
    ),
    Case(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        lambda _: epochs.OffsetForLeaderEpochRequest(
            topics=[epochs.OffsetForLeaderTopic(TOPIC, [epochs.OffsetForLeaderPartition(PARTITION)])]
        ),
        OF_TOPIC,
        _partition_code,
        (CLUSTER_ACTION,),
    ),
    Case(
        ApiKey.DELETE_RECORDS,
        lambda _: purging.DeleteRecordsRequest(
            [purging.DeleteRecordsTopic(TOPIC, [purging.DeleteRecordsPartition(PARTITION, 0)])], 1000
        ),
        OF_TOPIC,
        _partition_code,
        ((Res.TOPIC, Op.DELETE),),
    ),
    Case(
        ApiKey.DESCRIBE_PRODUCERS,
        lambda _: DescribeProducersRequest([TopicRequest(TOPIC, [PARTITION])]),
        OF_TOPIC,
        _partition_code,
        (TOPIC_READ,),
    ),
    Case(
        ApiKey.OFFSET_COMMIT,
        lambda topic_id: committing.OffsetCommitRequest(
            GROUP,
            topics=[
                committing.OffsetCommitRequestTopic(
                    TOPIC, topic_id, [committing.OffsetCommitRequestPartition(PARTITION, 5)]
                )
            ],
        ),
        OF_GROUP,
        _partition_code,
        (GROUP_READ, TOPIC_READ),
    ),
    *(
        Case(
            ApiKey.OFFSET_FETCH,
            lambda topic_id: offsets.OffsetFetchRequest(
                GROUP,
                [offsets.OffsetFetchRequestTopic(TOPIC, [PARTITION])],
                [offsets.OffsetFetchRequestGroup(GROUP, topics=[])],
            ),
            OF_GROUP,
            code_of,
            (GROUP_DESCRIBE, TOPIC_DESCRIBE),
            version,
        )
        for version, code_of in ((1, _partition_code), (7, _code), (10, lambda response: response.groups[0].error_code))
    ),
    Case(
        ApiKey.OFFSET_DELETE,
        lambda _: forgetting.OffsetDeleteRequest(
            GROUP, [forgetting.OffsetDeleteRequestTopic(TOPIC, [forgetting.OffsetDeleteRequestPartition(PARTITION)])]
        ),
        OF_GROUP,
        _code,
        ((Res.GROUP, Op.DELETE), TOPIC_READ),
    ),
    Case(
        ApiKey.FIND_COORDINATOR,
        lambda _: FindCoordinatorRequest(GROUP, 0, [GROUP]),
        OF_GROUP,
        lambda response: response.coordinators[0].error_code,
        (GROUP_DESCRIBE,),
    ),
    Case(ApiKey.FIND_COORDINATOR, lambda _: FindCoordinatorRequest(GROUP), OF_GROUP, _code, (GROUP_DESCRIBE,), 3),
    Case(
        ApiKey.FIND_COORDINATOR,
        lambda _: FindCoordinatorRequest(TRANSACTION, 1, [TRANSACTION]),
        OF_TXN,
        lambda response: response.coordinators[0].error_code,
        (TXN_DESCRIBE,),
    ),
    Case(
        ApiKey.JOIN_GROUP,
        lambda _: JoinGroupRequest(
            GROUP, 10000, 10000, protocol_type="consumer", protocols=[JoinGroupRequestProtocol("range", b"x")]
        ),
        OF_GROUP,
        _code,
        (GROUP_READ,),
    ),
    Case(ApiKey.SYNC_GROUP, lambda _: SyncGroupRequest(GROUP, 1), OF_GROUP, _code, (GROUP_READ,)),
    Case(ApiKey.HEARTBEAT, lambda _: HeartbeatRequest(GROUP, 1), OF_GROUP, _code, (GROUP_READ,)),
    Case(
        ApiKey.LEAVE_GROUP,
        lambda _: LeaveGroupRequest(GROUP, members=[MemberIdentity("m")]),
        OF_GROUP,
        _code,
        (GROUP_READ,),
    ),
    Case(
        ApiKey.DESCRIBE_GROUPS,
        lambda _: DescribeGroupsRequest([GROUP]),
        OF_GROUP,
        lambda response: response.groups[0].error_code,
        (GROUP_DESCRIBE,),
    ),
    Case(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        lambda _: ConsumerGroupDescribeRequest([GROUP]),
        OF_GROUP,
        lambda response: response.groups[0].error_code,
        (GROUP_DESCRIBE,),
    ),
    Case(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        lambda _: ConsumerGroupHeartbeatRequest(
            "group-of-848", "AAAAAAAAAAAAAAAAAAAAAA", rebalance_timeout_ms=1000, subscribed_topic_names=[TOPIC]
        ),
        OF_GROUP,
        _code,
        (),
    ),
    Case(
        ApiKey.DELETE_GROUPS,
        lambda _: DeleteGroupsRequest([GROUP]),
        OF_GROUP,
        lambda response: response.results[0].error_code,
        ((Res.GROUP, Op.DELETE),),
    ),
    Case(
        ApiKey.CREATE_TOPICS,
        lambda _: create_topics.CreateTopicsRequest([create_topics.CreatableTopic(TOPIC, 1, 1)]),
        OF_TOPIC,
        lambda response: response.topics[0].error_code,
        ((Res.TOPIC, Op.CREATE),),
    ),
    Case(
        ApiKey.CREATE_TOPICS,
        lambda _: create_topics.CreateTopicsRequest([create_topics.CreatableTopic(TOPIC, 1, 1)]),
        OF_TOPIC,
        lambda response: response.topics[0].error_code,
        (CLUSTER_CREATE,),
    ),
    Case(
        ApiKey.CREATE_PARTITIONS,
        lambda _: CreatePartitionsRequest([CreatePartitionsTopic(TOPIC, 10, None)], 1000, validate_only=True),
        OF_TOPIC,
        lambda response: response.results[0].error_code,
        ((Res.TOPIC, Op.ALTER),),
    ),
    Case(
        ApiKey.DESCRIBE_CONFIGS,
        lambda _: configs.DescribeConfigsRequest([configs.DescribeConfigsResource(2, TOPIC)]),
        OF_TOPIC,
        lambda response: response.results[0].error_code,
        ((Res.TOPIC, Op.DESCRIBE_CONFIGS),),
    ),
    Case(
        ApiKey.DESCRIBE_CONFIGS,
        lambda _: configs.DescribeConfigsRequest([configs.DescribeConfigsResource(32, GROUP)]),
        OF_GROUP,
        lambda response: response.results[0].error_code,
        ((Res.GROUP, Op.DESCRIBE_CONFIGS),),
    ),
    Case(
        ApiKey.DESCRIBE_CONFIGS,
        lambda _: configs.DescribeConfigsRequest([configs.DescribeConfigsResource(4, "1")]),
        OF_CLUSTER,
        lambda response: response.results[0].error_code,
        ((Res.CLUSTER, Op.DESCRIBE_CONFIGS),),
    ),
    Case(
        ApiKey.ALTER_CONFIGS,
        lambda _: alter_configs.AlterConfigsRequest(
            [alter_configs.AlterConfigsResource(2, TOPIC, [])], validate_only=True
        ),
        OF_TOPIC,
        lambda response: response.responses[0].error_code,
        ((Res.TOPIC, Op.ALTER_CONFIGS),),
    ),
    Case(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        lambda _: _alter(2, TOPIC),
        OF_TOPIC,
        lambda response: response.responses[0].error_code,
        ((Res.TOPIC, Op.ALTER_CONFIGS),),
    ),
    Case(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        lambda _: _alter(8, "1"),
        OF_CLUSTER,
        lambda response: response.responses[0].error_code,
        ((Res.CLUSTER, Op.ALTER_CONFIGS),),
    ),
    Case(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        lambda _: _alter(32, GROUP),
        OF_GROUP,
        lambda response: response.responses[0].error_code,
        ((Res.GROUP, Op.ALTER_CONFIGS),),
    ),
    Case(
        ApiKey.LIST_CONFIG_RESOURCES,
        lambda _: ListConfigResourcesRequest(),
        OF_CLUSTER,
        _code,
        ((Res.CLUSTER, Op.DESCRIBE_CONFIGS),),
    ),
    Case(ApiKey.ELECT_LEADERS, lambda _: ElectLeadersRequest(0, None), OF_CLUSTER, _code, (CLUSTER_ALTER,)),
    Case(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        lambda _: reassigning.AlterPartitionReassignmentsRequest(),
        OF_CLUSTER,
        _code,
        (CLUSTER_ALTER,),
    ),
    Case(
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        lambda _: ListPartitionReassignmentsRequest(),
        OF_CLUSTER,
        _code,
        (CLUSTER_DESCRIBE,),
    ),
    Case(ApiKey.DESCRIBE_LOG_DIRS, lambda _: DescribeLogDirsRequest(None), OF_CLUSTER, _code, (CLUSTER_DESCRIBE,)),
    Case(
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        lambda _: moving.AlterReplicaLogDirsRequest(
            [moving.AlterReplicaLogDir("/x", [moving.AlterReplicaLogDirTopic(TOPIC, [PARTITION])])]
        ),
        OF_CLUSTER,
        lambda response: response.results[0].partitions[0].error_code,
        (CLUSTER_ALTER,),
    ),
    Case(ApiKey.INIT_PRODUCER_ID, lambda _: InitProducerIdRequest(None), OF_CLUSTER, _code, (IDEMPOTENT_WRITE,)),
    Case(ApiKey.INIT_PRODUCER_ID, lambda _: InitProducerIdRequest(None), OF_CLUSTER, _code, (TOPIC_WRITE,)),
    Case(ApiKey.INIT_PRODUCER_ID, lambda _: InitProducerIdRequest(TRANSACTION, 60000), OF_TXN, _code, (TXN_WRITE,)),
    Case(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        lambda _: adding.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TRANSACTION,
            v3_and_below_topics=[adding.AddPartitionsToTxnTopic(TOPIC, [PARTITION])],
        ),
        OF_TXN,
        lambda response: response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
        (TXN_WRITE, TOPIC_WRITE),
        3,
    ),
    Case(
        ApiKey.ADD_PARTITIONS_TO_TXN, lambda _: adding.AddPartitionsToTxnRequest(), OF_CLUSTER, _code, (CLUSTER_ACTION,)
    ),
    Case(
        ApiKey.ADD_OFFSETS_TO_TXN,
        lambda _: AddOffsetsToTxnRequest(TRANSACTION, 1, 1, GROUP),
        OF_TXN,
        _code,
        (TXN_WRITE, GROUP_READ),
    ),
    Case(ApiKey.END_TXN, lambda _: EndTxnRequest(TRANSACTION, 1, 1), OF_TXN, _code, (TXN_WRITE,)),
    Case(
        ApiKey.TXN_OFFSET_COMMIT,
        lambda _: txn_offsets.TxnOffsetCommitRequest(
            TRANSACTION,
            GROUP,
            1,
            1,
            topics=[
                txn_offsets.TxnOffsetCommitRequestTopic(TOPIC, [txn_offsets.TxnOffsetCommitRequestPartition(PARTITION)])
            ],
        ),
        OF_TXN,
        _partition_code,
        (TXN_WRITE, GROUP_READ, TOPIC_READ),
    ),
    *(
        Case(
            ApiKey.WRITE_TXN_MARKERS,
            lambda _: marking.WriteTxnMarkersRequest(
                [marking.WritableTxnMarker(1, 1, topics=[marking.WritableTxnMarkerTopic(TOPIC, [PARTITION])])]
            ),
            OF_CLUSTER,
            lambda response: response.markers[0].topics[0].partitions[0].error_code,
            (needed,),
        )
        for needed in (CLUSTER_ACTION, CLUSTER_ALTER)
    ),
    Case(
        ApiKey.DESCRIBE_TRANSACTIONS,
        lambda _: DescribeTransactionsRequest([TRANSACTION]),
        OF_TXN,
        lambda response: response.transaction_states[0].error_code,
        (TXN_DESCRIBE,),
    ),
    Case(
        ApiKey.DESCRIBE_ACLS,
        lambda _: DescribeAclsRequest(1, None, 1, None, None, 1, 1),
        OF_CLUSTER,
        _code,
        (CLUSTER_DESCRIBE,),
    ),
    Case(
        ApiKey.CREATE_ACLS,
        lambda _: CreateAclsRequest([AclCreation(2, "t", 3, "User:a", "*", 2, 3)]),
        OF_CLUSTER,
        lambda response: response.results[0].error_code,
        (CLUSTER_ALTER,),
    ),
    Case(
        ApiKey.DELETE_ACLS,
        lambda _: delete_acls.DeleteAclsRequest([delete_acls.DeleteAclsFilter(2, "t", 3, None, None, 1, 1)]),
        OF_CLUSTER,
        lambda response: response.filter_results[0].error_code,
        (CLUSTER_ALTER,),
    ),
    # the topic is deleted last
    Case(
        ApiKey.DELETE_TOPICS,
        lambda _: DeleteTopicsRequest([DeleteTopicState(TOPIC)], timeout_ms=5000),
        OF_TOPIC,
        lambda response: response.responses[0].error_code,
        ((Res.TOPIC, Op.DELETE),),
    ),
]
"""The cases, with the APIs of AuthorizerIntegrationTest and those that it leaves out."""


async def _codes(authorized: AuthorizedSpu, case: Case, topic_id: UUID) -> tuple[int, list[int], int]:
    """Returns the error without rules, the errors with all needed rules but one, and the error with all of them."""

    async def code() -> int:
        return case.code_of(await authorized.request(case.api, case.request(topic_id), case.version))

    without = await code()
    almost = []
    for missing in case.rules if len(case.rules) > 1 else ():
        authorized.allow(*(each for each in case.rules if each != missing))
        almost.append(await code())
        authorized.remove_all()
    authorized.allow(*case.rules)
    allowed = await code()
    authorized.remove_all()
    return without, almost, allowed


async def test_each_api_is_refused_without_its_rules_and_not_with_them(autojump_clock: object) -> None:
    wrong: dict[str, object] = {}
    async with authorized_spu() as authorized:
        await authorized.create(TOPIC)
        topic_id = authorized.spu.cluster.topics[TOPIC].id
        for number, case in enumerate(CASES):
            without, almost, allowed = await _codes(authorized, case, topic_id)
            is_right = without == case.error and (not case.rules or allowed not in AUTHORIZATION_ERRORS)
            if not is_right:
                wrong[f"{number} {case.api.name} v{case.version}"] = without, almost, allowed
    assert not wrong


async def test_a_topic_that_does_not_exist_looks_like_one_that_may_not_be_seen(autojump_clock: object) -> None:
    by_name = {
        ApiKey.METADATA,
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.DELETE_RECORDS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.DELETE_TOPICS,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.DESCRIBE_PRODUCERS,
    }
    unknown = UUID(int=77)
    wrong: dict[str, object] = {}
    async with authorized_spu(auto_create_topics_enable="false") as authorized:
        for number, case in enumerate(CASES):
            if case.api in by_name and len(case.rules) == 1 and CLUSTER_ACTION not in case.rules:
                without, _, allowed = await _codes(authorized, case, unknown)
                by_id = case.api in (ApiKey.PRODUCE, ApiKey.FETCH) and (case.version or 99) >= 13
                expected = ErrorCode.UNKNOWN_TOPIC_ID if by_id else OF_TOPIC
                there_is_none = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if (without, allowed) != (expected, there_is_none):
                    wrong[f"{number} {case.api.name} v{case.version}"] = without, allowed
    assert not wrong
