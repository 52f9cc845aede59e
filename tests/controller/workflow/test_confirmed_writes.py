from collections.abc import Sequence

import pytest
import structlog
import trio
import trio.testing
from msgspec.structs import replace
from running_workflow import put, registered, running_workflow
from trio.testing import wait_all_tasks_blocked

from tailrace.cluster.specs import TopicSpec as ServedTopic
from tailrace.cluster.topic_planning import MorePartitions, NewTopic
from tailrace.controller.key_value.interface import Change, Entry, StoreUnavailable
from tailrace.controller.key_value.interface import Delete as StoreDelete
from tailrace.controller.key_value.interface import Put as StorePut
from tailrace.controller.key_value.memory import MemoryStore
from tailrace.controller.objects.objects import ConfigOverrides, Partition, PartitionSpec, SpuGroup, Topic, TopicSpec
from tailrace.controller.partitions.election import offline
from tailrace.controller.state.actions import Delete, Put
from tailrace.controller.state.events import Removed, Stored
from tailrace.controller.state.local_store import LocalStore
from tailrace.controller.state.object_codec import key_of
from tailrace.controller.workflow.confirmed_writes import ConfirmedWrites
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import NO_TOPIC_ID, SpuId, TopicId
from tailrace.server.administration import PartitionName, Reassignment


def overrides(configs: dict[str, str] | None = None, version: int = 0) -> ConfigOverrides:
    return ConfigOverrides("", configs or {}, version)


async def test_a_write_is_done_when_the_local_store_has_it() -> None:
    async with running_workflow() as running:
        assert await running.workflow.writes.write([Put(overrides({"num.partitions": "2"}))]) == [True]
        assert running.workflow.local.config_overrides[""].configs == {"num.partitions": "2"}


async def test_a_write_that_lost_returns_when_the_local_store_knows_why() -> None:
    store = MemoryStore()
    async with running_workflow(store) as running:
        await put(store, overrides({"num.partitions": "5"}))
        assert await running.workflow.writes.write([Put(overrides())]) == [False]
        assert running.workflow.local.config_overrides[""].configs == {"num.partitions": "5"}
        assert await running.workflow.writes.write([Delete(overrides(version=7))]) == [False]


class Doubtful(MemoryStore):
    """A store that carries out each write and then claims to be unavailable."""

    def __init__(self) -> None:
        super().__init__()
        self.doubtful = 0

    async def write(self, changes: Sequence[Change], guard: Entry | None = None) -> Sequence[int | None]:
        versions = await super().write(changes, guard)
        if self.doubtful:
            self.doubtful -= 1
            raise StoreUnavailable("no answer")
        return versions


async def test_a_write_that_was_done_but_not_answered_counts_as_done(autojump_clock: trio.testing.MockClock) -> None:
    store = Doubtful()
    async with running_workflow(store) as running:
        writes = running.workflow.writes
        store.doubtful = 3
        assert await writes.write([Put(overrides({"num.partitions": "2"}))]) == [True]
        found = running.workflow.local.config_overrides[""]
        store.doubtful = 1
        assert await writes.write([Delete(found)]) == [True]
        store.doubtful = 1
        assert await writes.write([Delete(found), Put(overrides(version=99))]) == [True, False]


async def test_a_write_that_controllers_built_upon_counts_as_written(autojump_clock: trio.testing.MockClock) -> None:
    """Otherwise the client would be told that someone else had made the change, or that there is nothing to do."""
    store = Doubtful()
    await put(store, *registered(1, 2, 3))
    async with running_workflow(store) as running:
        administration, local = running.administration, running.workflow.local
        await running.connect(1, 2, 3)
        store.doubtful = 1
        (made,) = await administration.create_topics([NewTopic("orders", 2, 3)])
        assert isinstance(made, ServedTopic), made
        store.doubtful = 1
        (grown,) = await administration.create_partitions([MorePartitions("orders", 4)])
        assert isinstance(grown, ServedTopic), grown
        backwards = made.partitions[0].replicas[::-1]
        store.doubtful = 1
        assert await administration.reassign([Reassignment("orders", 0, backwards)]) == [None]
        await wait_all_tasks_blocked()
        store.doubtful = 1
        assert await administration.elect_leaders([PartitionName("orders", 0)], unclean=False) == [None]
        assert local.partitions[made.id, 0].status.leader == backwards[0]
        store.doubtful = 1
        assert isinstance(
            await running.objects.create("spu-group", '{"name": "more", "spec": {"minId": 7}}', 0), SpuGroup
        )


async def test_a_write_of_someone_else_does_not_count(autojump_clock: trio.testing.MockClock) -> None:
    store = Doubtful()
    async with running_workflow(store) as running:
        writes, local = running.workflow.writes, running.workflow.local
        topic = Topic("orders", TopicId(int=1), TopicSpec(replication_factor=2))
        partition = Partition("orders", topic.id, 0, PartitionSpec(SpuId(1), (SpuId(1), SpuId(2))))
        await writes.write([Put(topic), Put(partition)])
        topic, partition = local.topics["orders"], local.partitions[topic.id, 0]
        rows = replace(topic, version=99, status=replace(topic.status, replica_map={0: (SpuId(2), SpuId(1))}))
        for lost in (
            replace(topic, version=99, id=TopicId(int=2)),
            replace(topic, version=99, spec=TopicSpec(partitions=2)),
            rows,
            replace(partition, version=99, status=offline(partition, "it was deleted")),
        ):
            store.doubtful = 1
            assert await writes.write([Put(lost)]) == [False]


async def test_a_deletion_that_was_not_answered_is_waited_for() -> None:
    local = LocalStore()
    writes = ConfirmedWrites(MemoryStore(), local, structlog.get_logger())
    found = overrides(version=2)
    local.apply(Stored(found))
    writes.on_applied(5)
    assert not writes.has_seen(StoreDelete(key_of(found), 2), 3)


async def test_an_object_that_the_store_would_not_take_is_refused() -> None:
    async with running_workflow() as running:
        with pytest.raises(KafkaError) as refused:
            await running.workflow.writes.write(
                [Put(Topic("large", NO_TOPIC_ID, TopicSpec(configs={"a": "x" * 1024 * 1024})))]
            )
        assert refused.value.code is ErrorCode.POLICY_VIOLATION


async def test_nothing_is_written_once_somebody_else_leads() -> None:
    store = MemoryStore()
    lease = await store.take("leader", b"sc-1", 10)
    assert lease is not None
    await store.give_up(lease)
    writes = ConfirmedWrites(store, LocalStore(), structlog.get_logger(), lease)
    with pytest.raises(KafkaError) as refused:
        await writes.write([Put(overrides())])
    assert refused.value.code is ErrorCode.NOT_CONTROLLER
    assert await store.get("configs/default") is None


def test_changes_written_together_share_a_version_and_arrive_one_by_one() -> None:
    """etcd gives all changes of a transaction the same revision."""
    local = LocalStore()
    writes = ConfirmedWrites(MemoryStore(), local, structlog.get_logger())
    one, other = (ConfigOverrides(broker, {}, version=7) for broker in ("1", "2"))
    put_one, put_other = (StorePut(key_of(each), b"", 0) for each in (one, other))
    gone = StoreDelete(key_of(ConfigOverrides("3", {})), 2)
    local.apply(Stored(replace(one, spu="3", version=2)))
    asked = (put_one, put_other, gone)

    def seen() -> list[bool]:
        return [writes.has_seen(change, 7) for change in asked]

    assert seen() == [False, False, False]
    for event, known in (
        (Stored(one), [True, False, False]),
        (Removed(gone.key, 7), [True, False, True]),
        (Stored(other), [True, True, True]),
    ):
        local.apply(event)
        writes.on_applied(7)
        assert seen() == known
    local.apply(Removed(put_one.key, 8))
    writes.on_applied(8)
    assert seen() == [True, True, True]


async def test_waiting_calls_wake_when_changes_are_applied_and_when_closed(nursery: trio.Nursery) -> None:
    writes = ConfirmedWrites(MemoryStore(), LocalStore(), structlog.get_logger())
    reached: list[str] = []

    async def wait(name: str, when: list[bool]) -> None:
        try:
            await writes.wait_until(lambda: bool(when))
            reached.append(name)
        except KafkaError as error:
            reached.append(f"{name}: {error.code.name}")

    now: list[bool] = []
    nursery.start_soon(wait, "first", now)
    nursery.start_soon(wait, "second", [])
    await wait_all_tasks_blocked()
    now.append(True)
    writes.on_applied(1)
    await wait_all_tasks_blocked()
    assert reached == ["first"]
    writes.close()
    await wait_all_tasks_blocked()
    assert reached == ["first", "second: NOT_CONTROLLER"]
