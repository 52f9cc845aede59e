"""The admin client takes apart what brokers answer, and keeps their reasons."""

import pytest
import trio
from administered import administered
from public_sc import ADDRESS, PublicSc, public_sc, tailrace
from quota_samples import quota

from tailrace.client.admin_client import BROKER_RESOURCE, TOPIC_RESOURCE, AdminClient, ConfigResource, NewTopic
from tailrace.client.log_facts import Partition
from tailrace.client.server_connection import RefusedError, unless_refused
from tailrace.client.spu_client import BOOTSTRAP, SpuClient
from tailrace.security.quotas.quota_filters import EXACT, EntityFilter


async def with_spus(sc: PublicSc, *ids: int) -> AdminClient:
    for each in ids:
        words = ("--id", str(each), "--public", f"spu-{each}:9005", "--private", f"spu-{each}:9006")
        assert await tailrace(sc.network, "spu", "register", *words) == 0
    await sc.running.connect(*ids)
    return AdminClient(SpuClient(sc.network, [ADDRESS], BOOTSTRAP))


async def test_topics_are_created_changed_and_deleted() -> None:
    async with public_sc() as sc:
        admin = await with_spus(sc, 1, 2)
        await admin.create_topic(NewTopic("orders", rows={0: [1, 2], 1: [2, 1]}, configs={"retention.ms": "5000"}))
        await admin.add_partitions("orders", 3)
        (topic,) = await admin.topics()
        assert [each.replica_nodes for each in topic.partitions][:2] == [[1, 2], [2, 1]]
        assert len(topic.partitions) == 3
        await admin.delete_topic("orders")
        assert await admin.topics() == []
        with pytest.raises(RefusedError, match="there is no topic 'orders'"):
            await admin.topics(["orders"])


async def test_a_dry_run_creates_nothing() -> None:
    async with public_sc() as sc:
        admin = await with_spus(sc, 1)
        result = await admin.create_topic(NewTopic("orders", 4, 1), validate_only=True)
        assert result.num_partitions == 4
        assert await admin.topics() == []


async def test_configs_have_sources_and_documentation(autojump_clock: trio.testing.MockClock) -> None:
    async with administered(1, 2) as (_, admin):
        await admin.create_topic(NewTopic("orders", 1, 1))
        orders = ConfigResource(TOPIC_RESOURCE, "orders")
        await admin.alter_configs(orders, {"retention.ms": "5000"})
        found = {each.name: each for each in await admin.configs(orders)}
        assert (found["retention.ms"].value, found["retention.ms"].source) == ("5000", 1)
        assert all(each.documentation for each in found.values())
        await admin.alter_configs(orders, {"retention.ms": None})
        found = {each.name: each for each in await admin.configs(orders)}
        assert found["retention.ms"].source == 5
        assert await admin.config_resources(TOPIC_RESOURCE) == ["orders"]
        assert await admin.config_resources(BROKER_RESOURCE) == ["1", "2"]
        with pytest.raises(RefusedError, match="'one' is not the id of a broker"):
            await admin.configs(ConfigResource(BROKER_RESOURCE, "one"))


async def test_many_resources_are_described_each_by_who_knows_it(autojump_clock: trio.testing.MockClock) -> None:
    async with administered(1, 2) as (_, admin):
        await admin.create_topic(NewTopic("orders", 1, 1))
        orders, nothing = ConfigResource(TOPIC_RESOURCE, "orders"), ConfigResource(TOPIC_RESOURCE, "nothing")
        first, second, third = (ConfigResource(BROKER_RESOURCE, name) for name in ("1", "2", "3"))
        found = await admin.configs_of([orders, first, nothing, second, third])
        assert isinstance(found[orders], list)
        assert str(found[nothing]) == "there is no topic nothing"
        assert str(found[third]) == "the broker 3 is not online"
        for resource in (first, second):
            (node,) = (each for each in unless_refused(found[resource]) if each.name == "node.id")
            assert node.value == resource.name


async def test_replicas_are_moved_and_leaders_elected() -> None:
    async with public_sc() as sc:
        admin = await with_spus(sc, 1, 2)
        await admin.create_topic(NewTopic("orders", rows={0: [1]}))
        zero = Partition("orders", 0)
        assert await admin.reassign({zero: [2, 1]}) == {zero: None}
        (move,) = (await admin.reassignments()).values()
        assert (move.replicas, move.adding, move.removing) == ((2, 1), (2,), ())
        assert await admin.reassign({zero: None}) == {zero: None}
        with trio.fail_after(20):
            while await admin.reassignments():  # noqa: ASYNC110 # The SC removes the new replica first.
                await trio.sleep(0.01)
        refused = (await admin.elect_leaders([Partition("orders", 7)]))[Partition("orders", 7)]
        assert refused is not None


async def test_quotas_are_set_and_found() -> None:
    async with public_sc() as sc:
        admin = await with_spus(sc)
        alice = quota({"producer_byte_rate": 5.0}, user="alice", client_id=None)
        await admin.alter_quotas(alice.entity, {"producer_byte_rate": 5.0}, validate_only=True)
        assert await admin.quotas() == []
        await admin.alter_quotas(alice.entity, alice.values)
        assert await admin.quotas([EntityFilter("user", EXACT, "alice")]) == [alice]
        assert await admin.quotas([EntityFilter("user", EXACT, "alice")], is_strict=True) == []
        with pytest.raises(RefusedError, match="greater than 0"):
            await admin.alter_quotas(alice.entity, {"producer_byte_rate": -1.0})
        await admin.alter_quotas(alice.entity, {"producer_byte_rate": None})
        assert await admin.quotas() == []
