import pytest
import trio
from clusters import address_of, cluster_of

from tailrace.client.admin_client import TOPIC_RESOURCE, AdminClient, ConfigResource
from tailrace.client.missing_topics import HEADERS_BYTES_MAX, create_missing
from tailrace.client.server_connection import RefusedError
from tailrace.client.spu_client import BOOTSTRAP, SpuClient


async def test_a_missing_topic_is_made_like_its_model_and_only_once(autojump_clock: object) -> None:
    async with cluster_of(1, 2) as cluster:
        await cluster.create(1, "orders", 3, 2, max_message_bytes="5000")
        clients = [SpuClient(cluster.world.network, [address_of(spu)], BOOTSTRAP) for spu in (1, 2)]
        created = []

        async def create(spus: SpuClient) -> None:
            created.append(await create_missing(spus, "orders.dead", "orders"))

        async with trio.open_nursery() as nursery:
            for each in clients:
                nursery.start_soon(create, each)
        assert sorted(created) == [False, True]
        assert not await create_missing(clients[0], "orders.dead", "orders")
        admin = AdminClient(clients[0])
        (topic,) = await admin.topics(["orders.dead"])
        assert [len(each.replica_nodes) for each in topic.partitions] == [2, 2, 2]
        configs = await admin.configs(ConfigResource(TOPIC_RESOURCE, "orders.dead"), documented=False)
        assert {each.value for each in configs if each.name == "max.message.bytes"} == {str(5000 + HEADERS_BYTES_MAX)}
        with pytest.raises(RefusedError, match=r"a b"):
            await create_missing(clients[0], "a b", "orders")
        for each in clients:
            each.close()
