"""Clients of three SPUs whose requests arrive at the same time."""

import pytest
import trio
from calling import Caller
from clusters import PRODUCE_VERSION, address_of, cluster_of
from simulation.client import WireClient
from simulation.network import connected_pair
from spus import batch

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.api_versions import ApiVersionsRequest
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


async def test_records_of_several_clients_in_one_turn_reach_each_follower_in_one_message(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster_of(1, 2, 3) as cluster:
        await cluster.create(1, "orders", 1, 3)
        await trio.sleep(1)
        leader, _ = (await cluster.leaders(1, "orders"))[0]
        spu = cluster.spus[leader].spu
        clients: list[WireClient] = []
        callers: list[Caller] = []
        for _ in range(4):
            client_side, server_side = connected_pair()
            callers.append(Caller(monkeypatch))
            callers[-1].takes(server_side)
            cluster.world.network.listeners[address_of(leader)].arrive(server_side)
            clients.append(WireClient(client_side))
            # A new client takes its first turn alone.
            await clients[-1].send(clients[-1].encode(ApiKey.API_VERSIONS, 0, ApiVersionsRequest()))
            await clients[-1].response()
        await trio.testing.wait_all_tasks_blocked()
        for number, client in enumerate(clients):
            data = [TopicProduceData("orders", partition_data=[PartitionProduceData(0, batch(b"%d" % number))])]
            request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=data)
            await client.send(client.encode(ApiKey.PRODUCE, PRODUCE_VERSION, request))
        await trio.testing.wait_all_tasks_blocked()

        sent_before = {each.spu: each.traffic.sent_messages for each in spu.peers.gauges(0)}
        assert all(caller.on_readable() for caller in callers)
        callers[0].turn_ended()
        answers = [(await client.response()).responses[0].partition_responses[0] for client in clients]
        assert [each.error_code for each in answers] == [ErrorCode.NONE] * 4
        assert [each.base_offset for each in answers] == [0, 1, 2, 3]
        sent = {each.spu: each.traffic.sent_messages - sent_before[each.spu] for each in spu.peers.gauges(0)}
        assert sent == dict.fromkeys({1, 2, 3} - {leader}, 1)
