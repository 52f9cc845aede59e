"""DescribePositions, over the wire."""

from simulation.client import WireClient
from spus import ADDRESS, batch, newest, running_spu

from tailrace.broker.spu_counters import KNOWN
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.internal.describe_positions import AskedPartition, AskedTopic, DescribePositionsRequest
from tailrace.protocol.internal_apis import InternalApiKey
from tailrace.protocol.messages.api_versions import ApiVersionsRequest
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


async def test_another_spu_gets_a_response_and_clients_do_not_see_the_api(autojump_clock: object) -> None:
    async with running_spu() as running:
        topic = await running.create("t")
        client = WireClient(await running.world.network.connect(ADDRESS), apis=KNOWN)
        data = [TopicProduceData(name="t", partition_data=[PartitionProduceData(0, batch(b"a", timestamp=7))])]
        await client.request(ApiKey.PRODUCE, 9, ProduceRequest(acks=1, timeout_ms=1000, topic_data=data))
        request = DescribePositionsRequest([AskedTopic(topic.id, [AskedPartition(0, [0])])])
        response = await client.request(InternalApiKey.DESCRIBE_POSITIONS, 0, request)
        (described,) = response.topics[0].partitions
        assert (described.end, described.timestamps_ms) == (1, [7])
        versions = await client.request(ApiKey.API_VERSIONS, newest(ApiKey.API_VERSIONS), ApiVersionsRequest("t", "1"))
        assert max(api.api_key for api in versions.api_keys) <= max(ApiKey)
