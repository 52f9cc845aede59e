"""Producers and transactions with access rules: cases of Kafka's AuthorizerIntegrationTest about them."""

from typing import Any

from authorized_spu import AuthorizedSpu, authorized_spu, rule
from spus import batch

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tailrace.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from tailrace.protocol.messages.describe_transactions import DescribeTransactionsRequest
from tailrace.protocol.messages.end_txn import EndTxnRequest
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest
from tailrace.protocol.messages.list_transactions import ListTransactionsRequest
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tailrace.security.acls.acl_codes import Operation as Op
from tailrace.security.acls.acl_codes import PatternType, Permission
from tailrace.security.acls.acl_codes import ResourceType as Res

WRITE, DESCRIBE = (Res.TRANSACTIONAL_ID, Op.WRITE), (Res.TRANSACTIONAL_ID, Op.DESCRIBE)
TOPIC_WRITE, TOPIC_READ, TOPIC_DESCRIBE = (Res.TOPIC, Op.WRITE), (Res.TOPIC, Op.READ), (Res.TOPIC, Op.DESCRIBE)
GROUP_READ, GROUP_DESCRIBE = (Res.GROUP, Op.READ), (Res.GROUP, Op.DESCRIBE)
IDEMPOTENT_WRITE = (Res.CLUSTER, Op.IDEMPOTENT_WRITE)
NONE, OF_TXN = ErrorCode.NONE, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
OF_CLUSTER, OF_TOPIC, OF_GROUP = (
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
)
PRODUCER_EPOCHS_FROM = 4


async def _init(authorized: AuthorizedSpu, transactional_id: str | None = None) -> Any:
    return await authorized.request(ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest(transactional_id, 60_000), 4)


async def _add(authorized: AuthorizedSpu, producer: Any, *topics: str) -> dict[str, int]:
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="transaction",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name, [0]) for name in topics],
    )
    response = await authorized.request(ApiKey.ADD_PARTITIONS_TO_TXN, request, 3)
    return {
        topic.name: topic.results_by_partition[0].partition_error_code
        for topic in response.results_by_topic_v3_and_below
    }


async def test_an_idempotent_producer_needs_the_cluster_or_some_topic(autojump_clock: object) -> None:
    """testIdempotentProducerNoIdempotentWriteAclInInitProducerId, shouldSendSuccessfullyWhenIdempotentAndHasCorrectACL,
    and the cases testAuthorizeByResourceType…"""
    deny = rule(*TOPIC_WRITE, permission=Permission.DENY)
    deny_prefix = rule(*TOPIC_WRITE, "t", pattern=PatternType.PREFIXED, permission=Permission.DENY)
    deny_all = rule(*TOPIC_WRITE, "*", permission=Permission.DENY)
    allow_prefix = rule(*TOPIC_WRITE, "to", pattern=PatternType.PREFIXED)
    async with authorized_spu() as authorized:
        await authorized.coordinate()
        for rules, code in (
            ((), OF_CLUSTER),
            ((TOPIC_READ,), OF_CLUSTER),
            ((IDEMPOTENT_WRITE,), NONE),
            ((TOPIC_WRITE,), NONE),
            ((allow_prefix,), NONE),
            ((rule(*TOPIC_WRITE, who="User:other"),), OF_CLUSTER),
            ((TOPIC_WRITE, rule(*TOPIC_WRITE, who="User:other", permission=Permission.DENY)), NONE),
            ((TOPIC_WRITE, rule(*TOPIC_WRITE, "other", permission=Permission.DENY)), NONE),
            ((TOPIC_WRITE, deny), OF_CLUSTER),
            ((TOPIC_WRITE, allow_prefix, deny_all), OF_CLUSTER),
            ((TOPIC_WRITE, deny_prefix), OF_CLUSTER),
            ((allow_prefix, deny), NONE),
            # Once it may, it may until the rule is gone: testAuthorizeByResourceTypeMultipleAddAndRemove
            ((TOPIC_WRITE, TOPIC_READ), NONE),
            ((), OF_CLUSTER),
        ):
            authorized.remove_all()
            authorized.allow(*rules)
            assert (await _init(authorized)).error_code == code, rules


async def test_a_producer_that_was_refused_succeeds_on_its_connection_once_its_rules_are_right(
    autojump_clock: object,
) -> None:
    """testRetryProducerInitializationAfterPermissionFix"""
    deny_all = rule(*TOPIC_WRITE, "*", permission=Permission.DENY)
    async with authorized_spu() as authorized:
        await authorized.create()
        authorized.allow(deny_all)
        client = await authorized.client()
        init = InitProducerIdRequest(None, 60_000)
        assert (await client.request(ApiKey.INIT_PRODUCER_ID, 4, init)).error_code == OF_CLUSTER
        authorized.remove(deny_all)
        authorized.allow(rule(*TOPIC_WRITE, "t", pattern=PatternType.PREFIXED), TOPIC_WRITE)
        producer = await client.request(ApiKey.INIT_PRODUCER_ID, 4, init)
        assert producer.error_code == NONE
        records = batch(b"hi", producer_id=producer.producer_id, producer_epoch=0, base_sequence=0)
        data = [TopicProduceData("topic", partition_data=[PartitionProduceData(0, records)])]
        response = await client.request(ApiKey.PRODUCE, 11, ProduceRequest(None, -1, 1000, data))
        assert response.responses[0].partition_responses[0].error_code == NONE


async def test_a_transactional_producer_needs_its_id(autojump_clock: object) -> None:
    """testTransactionalProducerInitTransactions…, shouldInitTransactionsWhenAclSet"""
    async with authorized_spu() as authorized:
        await authorized.coordinate()
        refused = await _init(authorized, "transaction")
        assert (refused.error_code, refused.producer_id, refused.producer_epoch) == (OF_TXN, -1, -1)
        authorized.allow(DESCRIBE)
        assert (await _init(authorized, "transaction")).error_code == OF_TXN
        authorized.allow(WRITE)
        assert (await _init(authorized, "transaction")).error_code == NONE


async def test_partitions_are_added_if_all_of_them_may_be(autojump_clock: object) -> None:
    """testTransactionalProducerTopicAuthorizationException…, shouldSuccessfullyAbortTransactionAfter…"""
    async with authorized_spu() as authorized:
        await authorized.coordinate()
        await authorized.create("topic")
        await authorized.create("other")
        authorized.allow(WRITE, TOPIC_DESCRIBE)
        producer = await _init(authorized, "transaction")
        assert await _add(authorized, producer, "topic") == {"topic": OF_TOPIC}
        authorized.allow(TOPIC_WRITE)
        assert await _add(authorized, producer, "topic", "other", "missing") == {
            "topic": ErrorCode.OPERATION_NOT_ATTEMPTED,
            "other": OF_TOPIC,
            "missing": OF_TOPIC,
        }
        authorized.allow(rule(*TOPIC_WRITE, "missing"))
        assert (await _add(authorized, producer, "other", "missing"))["missing"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await _add(authorized, producer, "topic") == {"topic": NONE}
        assert await _end(authorized, producer, committed=False) == NONE


async def _end(authorized: AuthorizedSpu, producer: Any, *, committed: bool = True) -> int:
    request = EndTxnRequest("transaction", producer.producer_id, producer.producer_epoch, committed)
    code: int = (await authorized.request(ApiKey.END_TXN, request, 3)).error_code
    return code


async def test_a_producer_that_loses_its_rules_can_neither_write_nor_end(autojump_clock: object) -> None:
    """shouldThrowTransactionalIdAuthorizationExceptionWhenNoTransactionAccess: DuringSend, OnEndTransaction,
    OnSendOffsetsToTxn; testIdempotentProducerNoIdempotentWriteAclInProduce"""
    async with authorized_spu() as authorized:
        await authorized.coordinate()
        await authorized.create()
        authorized.allow(WRITE, TOPIC_WRITE)
        producer = await _init(authorized, "transaction")
        assert await _add(authorized, producer, "topic") == {"topic": NONE}
        records = batch(b"x", producer_id=producer.producer_id, producer_epoch=producer.producer_epoch, base_sequence=0)
        data = [TopicProduceData("topic", partition_data=[PartitionProduceData(0, records)])]

        async def produce(transactional_id: str | None) -> int:
            response = await authorized.request(ApiKey.PRODUCE, ProduceRequest(transactional_id, -1, 1000, data), 11)
            code: int = response.responses[0].partition_responses[0].error_code
            return code

        authorized.remove(WRITE)
        assert await produce("transaction") == OF_TXN
        assert await _end(authorized, producer) == OF_TXN
        offsets = AddOffsetsToTxnRequest("transaction", producer.producer_id, producer.producer_epoch, "group")
        assert (await authorized.request(ApiKey.ADD_OFFSETS_TO_TXN, offsets, 3)).error_code == OF_TXN
        authorized.remove(TOPIC_WRITE)
        authorized.allow(TOPIC_DESCRIBE)
        assert await produce(None) == OF_TOPIC


async def test_offsets_are_sent_with_the_id_and_the_group(autojump_clock: object) -> None:
    """testSendOffsetsWithNoConsumerGroupDescribeAccess, testSendOffsetsWithNoConsumerGroupWriteAccess"""
    async with authorized_spu() as authorized:
        await authorized.coordinate()
        await authorized.create()
        authorized.allow(WRITE)
        producer = await _init(authorized, "transaction")
        request = AddOffsetsToTxnRequest("transaction", producer.producer_id, producer.producer_epoch, "group")

        async def code() -> int:
            found: int = (await authorized.request(ApiKey.ADD_OFFSETS_TO_TXN, request, 3)).error_code
            return found

        assert await code() == OF_GROUP
        authorized.allow(GROUP_DESCRIBE)
        assert await code() == OF_GROUP
        authorized.allow(GROUP_READ)
        assert await code() != OF_GROUP


async def test_transactions_and_their_topics_are_shown_to_whom_may_describe_them(autojump_clock: object) -> None:
    """testListTransactionsAuthorization, shouldNotIncludeUnauthorizedTopicsInDescribeTransactionsResponse"""
    async with authorized_spu() as authorized:
        await authorized.coordinate()
        await authorized.create()
        authorized.allow(WRITE, TOPIC_WRITE)
        producer = await _init(authorized, "transaction")
        assert await _add(authorized, producer, "topic") == {"topic": NONE}

        async def listed() -> list[str]:
            response = await authorized.request(ApiKey.LIST_TRANSACTIONS, ListTransactionsRequest())
            assert response.error_code == NONE
            return [state.transactional_id for state in response.transaction_states]

        async def described() -> tuple[int, str, list[str]]:
            request = DescribeTransactionsRequest(["transaction"])
            (state,) = (await authorized.request(ApiKey.DESCRIBE_TRANSACTIONS, request)).transaction_states
            return state.error_code, state.transaction_state, [topic.topic for topic in state.topics]

        assert await listed() == ["transaction"]
        assert await described() == (NONE, "Ongoing", ["topic"])
        authorized.remove(TOPIC_WRITE)
        assert await described() == (NONE, "Ongoing", [])
        authorized.remove(WRITE)
        assert await listed() == []
        assert await described() == (OF_TXN, "", [])
        authorized.allow(DESCRIBE)
        assert await listed() == ["transaction"]
