"""Creating and deleting topics, and configs, with access rules."""

from typing import Any
from uuid import UUID

from authorized_spu import authorized_spu, rule
from hosts import request_of

from tailrace.cluster.cluster import Cluster
from tailrace.cluster.specs import WaitingTopic
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import NO_TOPIC_ID
from tailrace.protocol.messages import alter_configs as altering
from tailrace.protocol.messages import incremental_alter_configs as incremental
from tailrace.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tailrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tailrace.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from tailrace.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from tailrace.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tailrace.security.acls.acl_codes import Operation as Op
from tailrace.security.acls.acl_codes import PatternType
from tailrace.security.acls.acl_codes import ResourceType as Res
from tailrace.security.acls.authorizer import Authorizer
from tailrace.server.authorization.authorization import Authorization
from tailrace.server.request_context import RequestContext

CREATE, DELETE, DESCRIBE = (Res.TOPIC, Op.CREATE), (Res.TOPIC, Op.DELETE), (Res.TOPIC, Op.DESCRIBE)
NONE, DENIED = ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED
TOPIC_KIND, BROKER_KIND, LOGGER_KIND, GROUP_KIND = 2, 4, 8, 32


async def test_topics_are_created_with_permission_and_their_configs_shown_with_another(autojump_clock: object) -> None:
    """testCreateTopicAuthorizationWithClusterCreate, testPrefixAcls, and configs in the response"""
    async with authorized_spu() as authorized:
        request = CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in ("foobar", "other")], 5000)
        response = await authorized.request(ApiKey.CREATE_TOPICS, request)
        assert [topic.error_code for topic in response.topics] == [DENIED] * 2
        authorized.allow(rule(*CREATE, "f", pattern=PatternType.PREFIXED))
        response = await authorized.request(ApiKey.CREATE_TOPICS, request)
        created, denied = response.topics
        assert (created.name, created.error_code, created.topic_config_error_code) == ("foobar", NONE, DENIED)
        assert (created.num_partitions, created.configs) == (-1, [])
        assert (denied.name, denied.error_code) == ("other", DENIED)
        assert "may not create topic other" in denied.error_message
        authorized.allow((Res.CLUSTER, Op.CREATE), rule(Res.TOPIC, Op.DESCRIBE_CONFIGS, "other"))
        request = CreateTopicsRequest([CreatableTopic("other", 2, 1)], 5000)
        (created,) = (await authorized.request(ApiKey.CREATE_TOPICS, request)).topics
        assert (created.error_code, created.topic_config_error_code, created.num_partitions) == (NONE, NONE, 2)
        assert created.configs


async def test_topics_are_deleted_by_name_with_permission(autojump_clock: object) -> None:
    """testUnauthorizedDeleteTopicsWithoutDescribe, …WithDescribe, testDeleteTopicsWithWildCardAuth"""
    async with authorized_spu() as authorized:
        for version in (1, 5, 6):
            await authorized.create()
            by_name = DeleteTopicsRequest([DeleteTopicState("topic"), DeleteTopicState("other")], ["topic", "other"])
            for rules in ((), (DESCRIBE,)):
                authorized.allow(*rules)
                response = await authorized.request(ApiKey.DELETE_TOPICS, by_name, version)
                assert [each.error_code for each in response.responses] == [DENIED] * 2
            authorized.remove_all()
            authorized.allow(rule(*DELETE, "*"))
            response = await authorized.request(ApiKey.DELETE_TOPICS, by_name, version)
            codes = {each.name: each.error_code for each in response.responses}
            assert codes == {"topic": NONE, "other": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
            authorized.remove_all()


async def test_an_id_tells_the_name_of_the_topic_only_to_whom_may_describe_it(autojump_clock: object) -> None:
    """testTopicIdAuthorization, with an existing topic and without"""
    async with authorized_spu() as authorized:
        await authorized.create()
        topic_id = authorized.spu.cluster.topics["topic"].id

        async def deleted(asked: UUID) -> tuple[int, str | None]:
            request = DeleteTopicsRequest([DeleteTopicState(None, asked)], timeout_ms=5000)
            (result,) = (await authorized.request(ApiKey.DELETE_TOPICS, request)).responses
            assert result.topic_id == asked
            return result.error_code, result.name

        assert await deleted(UUID(int=99)) == (ErrorCode.UNKNOWN_TOPIC_ID, None)
        assert await deleted(topic_id) == (DENIED, None)
        authorized.allow(DESCRIBE)
        assert await deleted(topic_id) == (DENIED, "topic")
        authorized.allow(DELETE)
        assert await deleted(topic_id) == (NONE, "topic")
        assert await deleted(UUID(int=99)) == (ErrorCode.UNKNOWN_TOPIC_ID, None)
        both = DeleteTopicsRequest([DeleteTopicState("topic", UUID(int=1)), DeleteTopicState(None, NO_TOPIC_ID)])
        response = await authorized.request(ApiKey.DELETE_TOPICS, both)
        assert {each.error_code for each in response.responses} == {ErrorCode.INVALID_REQUEST}


async def test_a_topic_that_waits_is_guarded_under_its_id_as_well() -> None:
    cluster = Cluster()
    waiting = WaitingTopic(UUID(int=7), "topic", ErrorCode.INVALID_REPLICATION_FACTOR)
    cluster.put_waiting_topics([waiting])
    authorization = Authorization(Authorizer(cluster.security), cluster, lambda: True)
    passed: list[object] = []

    def delete(context: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
        passed.extend(each.topic_id for each in request.topics)
        return DeleteTopicsResponse()

    def codes(*ids: int) -> list[int]:
        context = request_of(ApiKey.DELETE_TOPICS)
        request = DeleteTopicsRequest([DeleteTopicState(None, UUID(int=each)) for each in ids])
        response: Any = authorization.guarded(ApiKey.DELETE_TOPICS, delete)(context, request)
        return [each.error_code for each in (context.amend(response) if context.amend else response).responses]

    assert codes(7, 8) == [ErrorCode.UNKNOWN_TOPIC_ID, DENIED]
    assert passed == []
    cluster.put_security(rule(*DELETE))
    assert codes(7, 8) == [ErrorCode.UNKNOWN_TOPIC_ID]
    assert passed == [waiting.id]


async def test_delete_on_the_cluster_suffices(autojump_clock: object) -> None:
    async with authorized_spu() as authorized:
        await authorized.create()
        authorized.allow((Res.CLUSTER, Op.DELETE))
        request = DeleteTopicsRequest([DeleteTopicState("topic")], timeout_ms=5000)
        assert (await authorized.request(ApiKey.DELETE_TOPICS, request)).responses[0].error_code == NONE


async def test_records_and_partitions_need_rules_of_their_own(autojump_clock: object) -> None:
    """testUnauthorizedDeleteRecords…, testDeleteRecordsWithWildCardAuth, and the same for CreatePartitions"""
    async with authorized_spu() as authorized:
        await authorized.create()
        records = DeleteRecordsRequest([DeleteRecordsTopic("topic", [DeleteRecordsPartition(0, 0)])], 1000)
        partitions = CreatePartitionsRequest([CreatePartitionsTopic("topic", 10, None)], 1000, validate_only=True)

        async def codes() -> tuple[int, int]:
            purged = await authorized.request(ApiKey.DELETE_RECORDS, records)
            more = await authorized.request(ApiKey.CREATE_PARTITIONS, partitions)
            return purged.topics[0].partitions[0].error_code, more.results[0].error_code

        assert await codes() == (DENIED, DENIED)
        authorized.allow(DESCRIBE)
        assert await codes() == (DENIED, DENIED)
        authorized.allow(rule(*DELETE, "*"))
        assert await codes() == (NONE, DENIED)
        authorized.allow(rule(Res.TOPIC, Op.ALTER, "*"))
        assert await codes() == (NONE, NONE)


async def test_configs_are_described_per_resource(autojump_clock: object) -> None:
    """testDescribeGroupConfigs…, testDescribeTopicConfigsAclWithOperationAll"""
    async with authorized_spu() as authorized:
        await authorized.create()
        kinds = {TOPIC_KIND: "topic", GROUP_KIND: "group", BROKER_KIND: "1"}
        request = DescribeConfigsRequest([DescribeConfigsResource(*each) for each in kinds.items()])

        async def codes() -> dict[int, int]:
            response = await authorized.request(ApiKey.DESCRIBE_CONFIGS, request)
            assert all(bool(each.configs) == (each.error_code == NONE) for each in response.results)
            return {each.resource_type: each.error_code for each in response.results}

        of_group, of_cluster = ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert await codes() == {TOPIC_KIND: DENIED, GROUP_KIND: of_group, BROKER_KIND: of_cluster}
        authorized.allow((Res.TOPIC, Op.ALL))
        assert await codes() == {TOPIC_KIND: NONE, GROUP_KIND: of_group, BROKER_KIND: of_cluster}
        authorized.allow((Res.GROUP, Op.ALTER_CONFIGS), (Res.CLUSTER, Op.DESCRIBE_CONFIGS))
        assert await codes() == dict.fromkeys(kinds, NONE)


async def test_configs_are_altered_per_resource(autojump_clock: object) -> None:
    """testIncrementalAlterGroupConfigs…"""
    async with authorized_spu() as authorized:
        await authorized.create()
        kinds = {TOPIC_KIND: "topic", GROUP_KIND: "group", BROKER_KIND: "1"}
        requests = {
            ApiKey.ALTER_CONFIGS: altering.AlterConfigsRequest(
                [altering.AlterConfigsResource(*each) for each in kinds.items()], validate_only=True
            ),
            ApiKey.INCREMENTAL_ALTER_CONFIGS: incremental.IncrementalAlterConfigsRequest(
                [incremental.AlterConfigsResource(*each) for each in kinds.items()], validate_only=True
            ),
        }
        for api, request in requests.items():

            async def codes(api: ApiKey = api, request: object = request) -> dict[int, int]:
                response = await authorized.request(api, request)
                return {each.resource_type: each.error_code for each in response.responses}

            authorized.remove_all()
            of_group, of_cluster = ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            assert await codes() == {TOPIC_KIND: DENIED, GROUP_KIND: of_group, BROKER_KIND: of_cluster}
            authorized.allow((Res.GROUP, Op.ALL))
            assert await codes() == {TOPIC_KIND: DENIED, GROUP_KIND: NONE, BROKER_KIND: of_cluster}
            authorized.allow((Res.CLUSTER, Op.ALTER_CONFIGS), (Res.TOPIC, Op.ALTER_CONFIGS))
            assert await codes() == dict.fromkeys(kinds, NONE)


async def test_loggers_belong_to_the_cluster(autojump_clock: object) -> None:
    """testIncrementalAlterConfigsRequestRequiresClusterPermissionForBrokerLogger"""
    change = incremental.AlterableConfig("kafka", 0, "DEBUG")
    asked = incremental.AlterConfigsResource(LOGGER_KIND, "1", [change])
    request = incremental.IncrementalAlterConfigsRequest([asked], validate_only=True)
    of_cluster = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    async with authorized_spu() as authorized:

        async def code() -> int:
            found: int = (await authorized.request(ApiKey.INCREMENTAL_ALTER_CONFIGS, request)).responses[0].error_code
            return found

        authorized.allow((Res.TOPIC, Op.ALL), (Res.CLUSTER, Op.ALTER))
        assert await code() == of_cluster
        authorized.allow((Res.CLUSTER, Op.ALTER_CONFIGS))
        assert await code() != of_cluster
