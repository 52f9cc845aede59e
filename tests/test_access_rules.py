"""A cluster of SPUs with access rules: servers need none for their requests to each other."""

import trio
from authorized_spu import rule
from clusters import ClusterOfSpus, cluster_of
from spus import batch, newest

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.end_txn import EndTxnRequest
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tailrace.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from tailrace.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tailrace.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from tailrace.security.acls.acl_codes import Operation as Op
from tailrace.security.acls.acl_codes import ResourceType as Res

BROKER = {
    "authorizer.class.name": "tailrace",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
BY_NAME = 12
CREATE = rule(Res.CLUSTER, Op.CREATE)


def _allow(cluster: ClusterOfSpus) -> None:
    for running in cluster.spus.values():
        for each in (rule(Res.TOPIC, Op.WRITE), rule(Res.TRANSACTIONAL_ID, Op.WRITE), CREATE):
            running.spu.cluster.put_security(each)


async def test_a_transaction_over_two_spus_needs_only_the_rules_of_its_client(autojump_clock: object) -> None:
    """The leader of a partition asks the coordinator on the other SPU, which later sends markers to the leader."""
    async with cluster_of(1, 2, broker=BROKER) as cluster:
        _allow(cluster)
        assert await cluster.create(1, "topic", 2, 1) == ErrorCode.NONE
        await trio.testing.wait_all_tasks_blocked()
        client = await cluster.client_of(1)
        find = FindCoordinatorRequest(key_type=1, coordinator_keys=["transaction"])
        while True:
            (found,) = (
                await client.request(ApiKey.FIND_COORDINATOR, newest(ApiKey.FIND_COORDINATOR), find)
            ).coordinators
            if not found.error_code:
                break
            await trio.sleep(0.1)
        coordinator = await cluster.client_of(found.node_id)
        while True:
            request = InitProducerIdRequest("transaction", 60_000)
            producer = await coordinator.request(ApiKey.INIT_PRODUCER_ID, newest(ApiKey.INIT_PRODUCER_ID), request)
            if not producer.error_code:
                break
            await trio.sleep(0.1)
        response = await cluster.metadata(1, "topic")
        leaders = {each.partition_index: each.leader_id for each in response.topics[0].partitions}
        partition = next(number for number, leader in leaders.items() if leader != found.node_id)
        records = batch(
            b"x",
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=0,
            is_transactional=True,
        )
        data = [TopicProduceData("topic", partition_data=[PartitionProduceData(partition, records)])]
        leader = await cluster.client_of(leaders[partition])
        produced = await leader.request(ApiKey.PRODUCE, BY_NAME, ProduceRequest("transaction", -1, 5000, data))
        assert produced.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        end = EndTxnRequest("transaction", producer.producer_id, producer.producer_epoch, committed=True)
        ended = await coordinator.request(ApiKey.END_TXN, newest(ApiKey.END_TXN), end)
        assert ended.error_code == ErrorCode.NONE
        # The next producer waits for the markers, which the coordinator writes on the other SPU.
        again = await coordinator.request(ApiKey.INIT_PRODUCER_ID, newest(ApiKey.INIT_PRODUCER_ID), request)
        assert again.error_code == ErrorCode.NONE
        refused = await leader.request(ApiKey.WRITE_TXN_MARKERS, 1, WriteTxnMarkersRequest())
        assert refused.markers == []


async def test_all_servers_give_an_unknown_user_the_same_salt(autojump_clock: object) -> None:
    """Otherwise, somebody who asks two servers for the salt of a name could tell whether the user exists."""
    broker = {"listener.security.protocol.map": "PUBLIC:SASL_PLAINTEXT"}
    async with cluster_of(1, 2, broker=broker) as cluster:
        salts = []
        for spu in (1, 2):
            client = await cluster.client_of(spu)
            await client.request(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("SCRAM-SHA-256"))
            first = SaslAuthenticateRequest(b"n,,n=mallory,r=nonce")
            answer = await client.request(ApiKey.SASL_AUTHENTICATE, 2, first)
            salts.append(bytes(answer.auth_bytes).partition(b",s=")[2])
        assert salts[0] == salts[1] != b""
        assert cluster.spus[1].spu.cluster.security.login_secret
        await cluster.kill_sc()
        await cluster.start_sc()
        await trio.sleep(5)
        client = await cluster.client_of(2)
        await client.request(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("SCRAM-SHA-256"))
        answer = await client.request(ApiKey.SASL_AUTHENTICATE, 2, first)
        assert bytes(answer.auth_bytes).partition(b",s=")[2] == salts[0], "also after a restart"
