import pytest
import trio
from clusters import address_of, cluster_of

from tailrace.client.admin_client import TOPIC_RESOURCE, AdminClient, ConfigResource
from tailrace.client.server_connection import RefusedError
from tailrace.client.spu_client import BOOTSTRAP, SpuClient
from tailrace.trigger.replica.missing_topics import HEADERS_BYTES_MAX, Ensured, ensure_topic


async def test_a_missing_topic_is_made_like_its_model_and_only_once(autojump_clock: object) -> None:
    async with cluster_of(1, 2) as cluster:
        await cluster.create(1, "orders", 3, 2, max_message_bytes="5000")
        clients = [SpuClient(cluster.world.network, [address_of(spu)], BOOTSTRAP) for spu in (1, 2)]
        ensured: list[Ensured] = []

        async def create(spus: SpuClient) -> None:
            ensured.append(await ensure_topic(spus, "orders.dead", "orders"))

        async with trio.open_nursery() as nursery:
            for each in clients:
                nursery.start_soon(create, each)
        assert sorted(each.before for each in ensured) == [0, 3]
        assert await ensure_topic(clients[0], "orders.dead", "orders") == Ensured(3, 3)
        admin = AdminClient(clients[0])
        (topic,) = await admin.topics(["orders.dead"])
        assert [len(each.replica_nodes) for each in topic.partitions] == [2, 2, 2]
        configs = await admin.configs(ConfigResource(TOPIC_RESOURCE, "orders.dead"), documented=False)
        assert {each.value for each in configs if each.name == "max.message.bytes"} == {str(5000 + HEADERS_BYTES_MAX)}
        with pytest.raises(RefusedError, match=r"a b"):
            await ensure_topic(clients[0], "a b", "orders")
        for each in clients:
            each.close()


async def test_a_topic_gets_the_partitions_that_its_model_has_got(autojump_clock: object) -> None:
    async with cluster_of(1) as cluster:
        await cluster.create(1, "orders", 1, 1)
        spus = SpuClient(cluster.world.network, [address_of(1)], BOOTSTRAP)
        assert await ensure_topic(spus, "orders.retry", "orders", 1) == Ensured(0, 1)
        await AdminClient(spus).add_partitions("orders", 4)
        assert await ensure_topic(spus, "orders.retry", "orders", 1) == Ensured(1, 1)
        assert await ensure_topic(spus, "orders.retry", "orders", 2) == Ensured(1, 4)
        assert await ensure_topic(spus, "orders.retry", "orders", 4) == Ensured(4, 4)
        spus.close()
