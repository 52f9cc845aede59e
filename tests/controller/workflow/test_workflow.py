from functools import partial

import pytest
import structlog
import trio
import trio.testing
from controller_model import reported
from mortal_store import MortalStore
from running_workflow import ObedientSpus, put, registered, running_workflow
from spus import SteadyClock
from structlog.testing import capture_logs
from trio.testing import wait_all_tasks_blocked

from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.configs.config_changes import Alteration, ConfigChange, Operation, ResourceKind
from tailrace.cluster.topic_planning import NewTopic
from tailrace.controller.key_value.interface import LeadershipLost
from tailrace.controller.key_value.memory import MemoryStore
from tailrace.controller.objects.objects import (
    ConfigOverrides,
    PartitionResolution,
    SpuGroup,
    SpuGroupSpec,
    Topic,
    TopicResolution,
)
from tailrace.controller.state.events import LeaseGracePeriodOver
from tailrace.controller.state.local_store import LocalStore
from tailrace.controller.workflow.updaters import NoProvisioner
from tailrace.controller.workflow.workflow import Workflow
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.ids import SpuId


async def test_the_workflow_has_started_when_everything_in_the_store_was_handled() -> None:
    store = MemoryStore()
    await put(store, *registered(*range(2500)))
    async with running_workflow(store) as running:
        assert len(running.workflow.local.spus) == 2500
        assert len(running.workflow.cluster.spus) == 2500
        assert running.workflow.counts.turns < 2500, "many events are decided about in one turn"


async def test_the_log_shows_each_stage_of_the_workflow() -> None:
    store = MemoryStore()
    await put(store, *registered(1))
    with capture_logs() as logs:
        async with running_workflow(store) as running:
            await running.connect(1)
    stages = [log["event"] for log in logs]
    for stage in ("event_read", "controllers_decided", "actions_dispatched", "update_written"):
        assert stage in stages


async def test_one_topic_can_be_followed_through_all_stages_by_its_name() -> None:
    store = MemoryStore()
    await put(store, *registered(1, 2))
    with capture_logs() as logs:
        async with running_workflow(store) as running:
            await running.connect(1, 2)
            await running.administration.create_topics([NewTopic("orders", 1, 2), NewTopic("parcels", 1, 2)])
            (partition,) = [each for each in running.workflow.local.partitions.values() if each.topic == "orders"]
            await running.workflow.events.send(reported(partition, ((1, "store-1"),)))
            await running.lose(partition.status.leader)
    found = [log for log in logs if "/orders" in str(log)]
    stages = {log["event"] for log in found}
    assert stages >= {"event_read", "controllers_decided", "actions_dispatched", "update_written"}
    updaters = {log["updater"] for log in found if log["event"] == "update_written"}
    assert updaters == {"administration", "store", "connections"}
    assert ["partition/orders/0"] in [log.get("objects") for log in found]


async def test_elections_are_counted_and_told_but_for_the_first() -> None:
    store = MemoryStore()
    await put(store, *registered(1, 2))
    with capture_logs() as logs:
        async with running_workflow(store) as running:
            await running.connect(1, 2)
            (made,) = await running.administration.create_topics([NewTopic("t", 1, 2)])
            assert not isinstance(made, KafkaError)
            (partition,) = running.workflow.local.partitions.values()
            leader = partition.status.leader
            await running.lose(leader)
            local = running.workflow.local
            await running.workflow.writes.wait_until(lambda: next(iter(local.partitions.values())).status.epoch == 1)
            assert (running.workflow.counts.elections, running.workflow.counts.unclean_elections) == (2, 0)
    (told,) = [log for log in logs if log["event"].startswith("leader_elected")]
    assert (told["topic"], told["partition"], told["leader"], told["epoch"]) == ("t", 0, 3 - leader, 1)
    assert (told["before"], told["event"]) == (leader, "leader_elected")


async def test_unknown_configs_in_the_store_are_ignored() -> None:
    store = MemoryStore()
    await put(store, ConfigOverrides("", {"num.partitions": "plenty"}))
    with capture_logs() as logs:
        async with running_workflow(store):
            pass
    assert [log["event"] for log in logs if log["log_level"] == "error"] == ["stored_configs_refused"]


async def test_a_config_of_all_spus_that_allows_an_election_brings_it_about() -> None:
    store = MemoryStore()
    await put(store, *registered(1, 2))
    async with running_workflow(store) as running:
        await running.connect(1, 2)
        await running.administration.create_topics([NewTopic("t", 1, 2)])
        local, send = running.workflow.local, running.workflow.events.send
        ((key, partition),) = local.partitions.items()
        leader = partition.status.leader
        await send(reported(partition, ((leader, f"store-{leader}"),)))
        await send(LeaseGracePeriodOver())
        await running.lose(leader)
        await wait_all_tasks_blocked()
        assert local.partitions[key].status.resolution is PartitionResolution.OFFLINE
        change = ConfigChange("unclean.leader.election.enable", Operation.SET, "true")
        assert await running.administration.alter_configs([Alteration(ResourceKind.BROKER, "", (change,))]) == [None]
        await wait_all_tasks_blocked()
        assert local.partitions[key].status.leads == 3 - leader


async def test_an_sc_that_lost_its_lease_writes_nothing_more() -> None:
    store = MemoryStore()
    lease = await store.take("leader", b"sc-1", 10)
    assert lease is not None
    await store.give_up(lease)
    await put(store, SpuGroup("main", SpuGroupSpec(1)))
    before = (await store.list("")).entries
    logger = structlog.get_logger()
    workflow = Workflow(store, NoProvisioner(logger), BrokerConfigs({}), SteadyClock(), logger, lease)
    with pytest.RaisesGroup(LeadershipLost, flatten_subgroups=True):
        await workflow.run(ObedientSpus())
    assert (await store.list("")).entries == before


def is_finished(local: LocalStore, topic: Topic) -> bool:
    held = local.partitions_of(topic.id).values()
    return len(held) == 6 and all(each.status.resolution is PartitionResolution.ONLINE for each in held)


async def create_six_by_three(store: MortalStore) -> None:
    async with running_workflow(store) as running:
        await running.connect(0, 1, 2)
        await running.administration.create_topics([NewTopic("orders", 6, 3)])


@pytest.mark.parametrize("does_the_last", [False, True])
async def test_an_sc_that_is_killed_at_any_write_leaves_what_the_next_one_finishes(
    does_the_last: bool, autojump_clock: trio.testing.MockClock
) -> None:
    write = 0
    while True:
        store = MortalStore()
        await put(store, *registered(0, 1, 2))
        store.writes_left, store.does_the_last = write, does_the_last
        with store.killed:
            await create_six_by_three(store)
        store.writes_left = -1
        if not store.killed.cancelled_caught:
            break

        async with running_workflow(store, chance_seed=2) as running:
            await running.connect(0, 1, 2)
            local = running.workflow.local
            if "orders" not in local.topics:
                await running.administration.create_topics([NewTopic("orders", 6, 3)])
            topic = local.topics["orders"]
            (again,) = await running.administration.create_topics([NewTopic("orders", 6, 3)])
            assert isinstance(again, KafkaError)

            await running.workflow.writes.wait_until(partial(is_finished, local, topic))
            topic = local.topics["orders"]
            assert topic.status.resolution is TopicResolution.PROVISIONED
            assert len(local.partitions) == 6, "no partition is there twice"
            for number, partition in local.partitions_of(topic.id).items():
                assert partition.spec.replicas == topic.status.replica_map[number]
                assert partition.status.leader in partition.spec.replicas
                assert partition.status.epoch in (0, 1)
            leaders = [partition.status.leader for partition in local.partitions.values()]
            assert {leaders.count(SpuId(spu)) for spu in (0, 1, 2)} == {2}
        write += 1
    assert write > 5, "it was killed at every write, until none was left"
