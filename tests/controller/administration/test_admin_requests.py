from collections.abc import Sequence

import pytest
import trio.testing
from msgspec.structs import replace
from running_workflow import put, registered, running_workflow
from security_samples import ALICE, CREDENTIAL, RECORDS
from structlog.testing import capture_logs

from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.configs.config_changes import Alteration, ConfigChange, Operation, ResourceKind
from tailrace.cluster.specs import TopicSpec
from tailrace.cluster.topic_planning import MorePartitions, NewTopic
from tailrace.controller.administration.object_planning import list_objects
from tailrace.controller.key_value.interface import Change, Entry
from tailrace.controller.key_value.interface import Put as StorePut
from tailrace.controller.key_value.memory import MemoryStore
from tailrace.controller.objects.objects import PartitionResolution, TopicResolution
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import SpuId
from tailrace.security.records.security_records import SecurityRecord, key_of, kind_of
from tailrace.security.records.user_record import UserRecord
from tailrace.server.administration import SecurityEdit


def codes(outcomes: list[TopicSpec | KafkaError]) -> list[ErrorCode]:
    return [outcome.code if isinstance(outcome, KafkaError) else ErrorCode.NONE for outcome in outcomes]


def topic_of(outcome: TopicSpec | KafkaError) -> TopicSpec:
    assert isinstance(outcome, TopicSpec), outcome
    return outcome


async def store_with(*spus: int) -> MemoryStore:
    store = MemoryStore()
    await put(store, *registered(*spus))
    return store


async def test_a_created_topic_is_served_when_the_answer_is_there() -> None:
    async with running_workflow(await store_with(0, 1, 2)) as running:
        await running.connect(0, 1, 2)
        (made,) = await running.administration.create_topics([NewTopic("orders", 6, 3)])
        topic = topic_of(made)
        local = running.workflow.local
        assert local.topics["orders"].status.resolution is TopicResolution.PROVISIONED
        partitions = local.partitions_of(topic.id)
        assert {each.status.resolution for each in partitions.values()} == {PartitionResolution.ONLINE}
        assert sorted(partitions) == list(range(6))
        assert running.workflow.cluster.topics["orders"] == topic
        assert {len(each.replicas) for each in topic.partitions} == {3}
        leaders = [each.leader for each in topic.partitions]
        assert sorted(leaders) == [0, 0, 1, 1, 2, 2]


async def test_invalid_items_are_refused_and_the_others_carried_out() -> None:
    async with running_workflow(await store_with(1)) as running:
        await running.connect(1)
        await running.administration.create_topics([NewTopic("there", 1, 1), NewTopic("a.b", 1, 1)])
        outcomes = await running.administration.create_topics(
            [
                NewTopic("there", 1, 1),
                NewTopic("a_b", 1, 1),
                NewTopic("bad name", 1, 1),
                NewTopic("none", 0, 1),
                NewTopic("many", 1, 2),
                NewTopic("new", 1, 1),
                NewTopic("new", 1, 1),
                NewTopic("configured", 1, 1, configs={"retention.ms": "soon"}),
                NewTopic("manual", -1, -1, {0: (SpuId(7),)}),
            ]
        )
        assert codes(outcomes) == [
            ErrorCode.TOPIC_ALREADY_EXISTS,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            ErrorCode.INVALID_PARTITIONS,
            ErrorCode.INVALID_REPLICATION_FACTOR,
            ErrorCode.NONE,
            ErrorCode.TOPIC_ALREADY_EXISTS,
            ErrorCode.INVALID_CONFIG,
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ]
        assert sorted(running.workflow.local.topics) == ["a.b", "new", "there"]


async def test_nothing_is_written_over_what_cannot_be_read() -> None:
    store = await store_with(1)
    await store.write([StorePut("topic/damaged", b"not ours", 0), StorePut("configs/default", b"neither", 0)])
    async with running_workflow(store) as running:
        await running.connect(1)
        wanted = [NewTopic("damaged", 1, 1), NewTopic("whole", 1, 1)]
        damaged, whole = await running.administration.create_topics(wanted)
        assert isinstance(damaged, KafkaError)
        assert damaged.code is ErrorCode.UNKNOWN_SERVER_ERROR
        assert "topic/damaged" in damaged.message
        assert topic_of(whole).name == "whole"
        change = ConfigChange("log.retention.ms", Operation.SET, "1000")
        (refusal,) = await running.administration.alter_configs([Alteration(ResourceKind.BROKER, "", (change,))])
        assert refusal is not None
        assert "configs/default" in refusal.message


async def test_replicas_chosen_by_hand_are_kept_to_the_letter() -> None:
    async with running_workflow(await store_with(0, 1, 2)) as running:
        await running.connect(0, 1, 2)
        rows = {0: (SpuId(2), SpuId(1)), 1: (SpuId(0), SpuId(2))}
        (made,) = await running.administration.create_topics([NewTopic("manual", -1, -1, rows)])
        assert {each.partition: each.replicas for each in topic_of(made).partitions} == rows
        assert [each.leader for each in topic_of(made).partitions] == [2, 0]


async def test_to_validate_changes_nothing() -> None:
    store = await store_with(1)
    async with running_workflow(store) as running:
        await running.connect(1)
        revision = (await store.list("")).revision
        outcomes = await running.administration.create_topics(
            [NewTopic("a", 2, 1), NewTopic("b", 1, 5)], validate_only=True
        )
        assert codes(outcomes) == [ErrorCode.NONE, ErrorCode.INVALID_REPLICATION_FACTOR]
        assert len(topic_of(outcomes[0]).partitions) == 2
        assert (await store.list("")).revision == revision


async def test_a_leader_that_does_not_report_in_time_is_waited_for_no_longer(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with running_workflow(await store_with(1, 2)) as running:
        await running.connect(1, 2)
        running.spus.silent = {2}
        outcomes = await running.administration.create_topics(
            [NewTopic("slow", -1, -1, {0: (SpuId(2),)}), NewTopic("fast", -1, -1, {0: (SpuId(1),)})], timeout_ms=3000
        )
        assert codes(outcomes) == [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE]
        assert trio.current_time() == pytest.approx(3, abs=0.1)
        assert "slow" in running.workflow.local.topics


async def test_a_topic_whose_spus_are_away_is_created_without_waiting_for_them() -> None:
    async with running_workflow(await store_with(1, 2)) as running:
        await running.connect(1)
        (made,) = await running.administration.create_topics([NewTopic("away", -1, -1, {0: (SpuId(2),)})])
        assert topic_of(made).partitions[0].leader == -1


async def test_a_request_does_not_delay_another(autojump_clock: trio.testing.MockClock) -> None:
    async with running_workflow(await store_with(1, 2)) as running, trio.open_nursery() as nursery:
        await running.connect(1, 2)
        running.spus.silent = {2}
        slow = [NewTopic("slow", -1, -1, {0: (SpuId(2),)})]
        nursery.start_soon(running.administration.create_topics, slow)
        await trio.sleep(1)
        await running.administration.create_topics([NewTopic("fast", -1, -1, {0: (SpuId(1),)})])
        assert trio.current_time() == pytest.approx(1, abs=0.1)
        nursery.cancel_scope.cancel()


async def test_the_growth_of_a_topic_is_logged_and_a_refused_one_is_not() -> None:
    with capture_logs() as logged:
        async with running_workflow(await store_with(1)) as running:
            await running.connect(1)
            await running.administration.create_topics([NewTopic("orders", 1, 1)])
            await running.administration.create_partitions([MorePartitions("orders", 3), MorePartitions("none", 3)])
    grown = [each for each in logged if each["event"] == "partitions_added"]
    assert grown == [{"event": "partitions_added", "log_level": "info", "topic": "orders", "partitions": 3}]


async def test_a_taken_name_of_a_topic_that_waits_says_what_it_waits_for() -> None:
    async with running_workflow(await store_with(1)) as running:
        await running.connect(1)
        await running.objects.create("topic", '{"name": "wide", "replicationFactor": 2}', 0)
        (outcome,) = await running.administration.create_topics([NewTopic("wide", 1, 1)])
        assert isinstance(outcome, KafkaError)
        assert outcome.code is ErrorCode.TOPIC_ALREADY_EXISTS
        assert outcome.message.endswith(
            "no client can use it yet: a replication factor of 2 needs 2 SPUs, and 1 is available"
        )


async def test_partitions_are_added_to_those_that_there_are() -> None:
    async with running_workflow(await store_with(0, 1)) as running:
        await running.connect(0, 1)
        (before,) = await running.administration.create_topics([NewTopic("orders", 2, 1)])
        outcomes = await running.administration.create_partitions(
            [
                MorePartitions("orders", 4, ((SpuId(1),), (SpuId(1),))),
                MorePartitions("nowhere", 4),
            ]
        )
        assert codes(outcomes) == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        after = topic_of(outcomes[0])
        assert after.partitions[:2] == topic_of(before).partitions
        assert [each.replicas for each in after.partitions[2:]] == [(1,), (1,)]
        (more,) = await running.administration.create_partitions([MorePartitions("orders", 6)])
        assert len(topic_of(more).partitions) == 6
        assert topic_of(more).partitions[:4] == after.partitions
        (fewer,) = await running.administration.create_partitions([MorePartitions("orders", 3)])
        assert codes([fewer]) == [ErrorCode.INVALID_PARTITIONS]


async def test_a_deleted_topic_can_be_brought_back_as_it_was() -> None:
    async with running_workflow(await store_with(1)) as running:
        await running.connect(1)
        local = running.workflow.local
        (made,) = await running.administration.create_topics([NewTopic("orders", 2, 1, configs={"retention.ms": "5"})])
        before = topic_of(made)
        outcomes = await running.administration.delete_topics([before.id, before.id])
        assert codes(outcomes) == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID]
        assert not running.workflow.cluster.topics
        assert list(local.deleted_topics) == [before.id]

        await running.administration.undelete_topic("orders")
        after = running.workflow.cluster.topics["orders"]
        assert (after.id, after.configs) == (before.id, before.configs)
        assert [each.replicas for each in after.partitions] == [each.replicas for each in before.partitions]
        assert [each.epoch for each in after.partitions] >= [each.epoch for each in before.partitions]
        assert not local.deleted_topics


async def test_a_topic_that_is_brought_back_while_a_late_write_arrives_has_its_leaders_elected_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The late write is a report from before the deletion.

    Without new elections, leaders that have ended would never lead again.
    """
    store = await store_with(1)
    async with running_workflow(store) as running:
        await running.connect(1)
        (made,) = await running.administration.create_topics([NewTopic("orders", 1, 1)])
        await running.administration.delete_topics([topic_of(made).id])
        (led,) = running.workflow.local.partitions_of(topic_of(made).id).values()
        assert led.status.resolution is PartitionResolution.ONLINE
        late = [replace(led, status=replace(led.status, live_version=led.status.live_version + 1))]
        write = store.write

        async def write_after_the_late_one(
            changes: Sequence[Change], guard: Entry | None = None
        ) -> Sequence[int | None]:
            while late:
                await put(store, late.pop())
            return await write(changes, guard)

        monkeypatch.setattr(store, "write", write_after_the_late_one)
        await running.administration.undelete_topic("orders")
        (back,) = running.workflow.local.partitions_of(topic_of(made).id).values()
        assert (back.status.resolution, back.status.epoch) == (PartitionResolution.ONLINE, led.status.epoch + 1)


async def test_a_topic_that_waits_for_spus_is_back_at_once_and_waits_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with running_workflow(await store_with(1)) as running:
        await running.connect(1)
        await running.objects.create("topic", '{"name": "wide", "replicationFactor": 3}', 0)
        await running.objects.delete("topic", "wide", force=False)
        before = trio.current_time()
        back = await running.administration.undelete_topic("wide")
        assert trio.current_time() == before
        assert back.status.resolution is TopicResolution.INSUFFICIENT_RESOURCES


async def test_a_topic_is_restored_even_without_leaders(autojump_clock: trio.testing.MockClock) -> None:
    async with running_workflow(await store_with(1)) as running:
        await running.connect(1)
        (made,) = await running.administration.create_topics([NewTopic("orders", 1, 1)])
        await running.administration.delete_topics([topic_of(made).id])
        running.spus.silent.add(1)
        back = await running.administration.undelete_topic("orders")
        assert back.id == topic_of(made).id
        assert list(running.workflow.local.topics) == ["orders"]


async def test_a_topic_created_under_the_name_of_a_deleted_one_is_another() -> None:
    async with running_workflow(await store_with(1)) as running:
        await running.connect(1)
        administration = running.administration
        (first,) = await administration.create_topics([NewTopic("orders", 1, 1)])
        await administration.delete_topics([topic_of(first).id])
        (second,) = await administration.create_topics([NewTopic("orders", 1, 1)])
        assert topic_of(second).id != topic_of(first).id
        with pytest.raises(KafkaError) as refused:
            await administration.undelete_topic("orders")
        assert refused.value.code is ErrorCode.TOPIC_ALREADY_EXISTS

        await administration.delete_topics([topic_of(second).id])
        with pytest.raises(KafkaError) as ambiguous:
            await administration.undelete_topic("orders")
        assert str(topic_of(first).id) in ambiguous.value.message
        await administration.undelete_topic(str(topic_of(first).id))
        assert running.workflow.cluster.topics["orders"].id == topic_of(first).id
        with pytest.raises(KafkaError) as unknown:
            await administration.undelete_topic("nothing")
        assert unknown.value.code is ErrorCode.UNKNOWN_TOPIC_ID


async def test_topics_that_were_deleted_long_ago_are_forgotten() -> None:
    async with running_workflow(await store_with(1), broker={"deleted.topic.retention.ms": "1000"}) as running:
        await running.connect(1)
        (made,) = await running.administration.create_topics([NewTopic("orders", 1, 1)])
        await running.administration.delete_topics([topic_of(made).id])
        running.clock.time_ms += 999
        await running.administration.forget_deleted_topics()
        assert running.workflow.local.deleted_topics
        running.clock.time_ms += 1
        await running.administration.forget_deleted_topics()
        assert not running.workflow.local.deleted_topics


def alteration(kind: ResourceKind, name: str, config: str, text: str, operation: int = Operation.SET) -> Alteration:
    return Alteration(kind, name, (ConfigChange(config, operation, text),))


async def test_configs_of_topics_are_altered() -> None:
    async with running_workflow(await store_with(1)) as running:
        await running.connect(1)
        await running.administration.create_topics([NewTopic("orders", 1, 1)])
        outcomes = await running.administration.alter_configs(
            [
                alteration(ResourceKind.TOPIC, "orders", "retention.ms", "7"),
                alteration(ResourceKind.TOPIC, "nowhere", "retention.ms", "7"),
                alteration(ResourceKind.CLIENT_METRICS, "g", "retention.ms", "7"),
            ]
        )
        assert [None if each is None else each.code for each in outcomes] == [
            None,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.INVALID_REQUEST,
        ]
        assert running.workflow.cluster.topics["orders"].configs == {"retention.ms": "7"}


async def test_configs_of_a_group_are_in_the_mirror_by_the_answer() -> None:
    async with running_workflow(await store_with(1)) as running:
        name = "consumer.session.timeout.ms"
        right = alteration(ResourceKind.GROUP, "g", name, "50000")
        wrong = alteration(ResourceKind.GROUP, "h", name, "7")
        outcomes = await running.administration.alter_configs([right, wrong])
        assert [None if each is None else each.code for each in outcomes] == [None, ErrorCode.INVALID_CONFIG]
        assert running.workflow.cluster.group_configs == {"g": {name: "50000"}}


async def test_configs_of_all_spus_count_for_what_the_sc_decides() -> None:
    async with running_workflow(await store_with(1)) as running:
        everywhere = alteration(ResourceKind.BROKER, "", "num.partitions", "5")
        of_one = alteration(ResourceKind.BROKER, "1", "num.partitions", "7")
        of_nobody = alteration(ResourceKind.BROKER, "8", "num.partitions", "7")
        fixed = alteration(ResourceKind.BROKER, "1", "node.id", "7")
        outcomes = await running.administration.alter_configs([everywhere, of_one, of_nobody])
        outcomes += await running.administration.alter_configs([fixed])
        assert [None if each is None else each.code for each in outcomes] == [
            None,
            None,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
        ]
        assert running.broker_configs.settings.partitions_default == 5
        assert running.workflow.local.config_overrides["1"].configs == {"num.partitions": "7"}
        unset = alteration(ResourceKind.BROKER, "", "num.partitions", "", Operation.DELETE)
        await running.administration.alter_configs([unset])
        assert running.broker_configs.settings.partitions_default == BrokerConfigs({}).settings.partitions_default


async def test_no_producer_id_is_given_twice() -> None:
    store = await store_with()
    given: list[int] = []

    async with running_workflow(store) as running, trio.open_nursery() as nursery:

        async def allocate() -> None:
            given.extend(await running.administration.allocate_producer_ids())

        for _ in range(3):
            nursery.start_soon(allocate)
    async with running_workflow(store) as running:
        given.extend(await running.administration.allocate_producer_ids())
    assert len(given) == len(set(given)) == 4000


async def test_a_store_that_does_not_answer_is_a_timeout(autojump_clock: trio.testing.MockClock) -> None:
    store = await store_with(1)
    async with running_workflow(store) as running:
        await running.connect(1)
        await store.close()
        (outcome,) = await running.administration.create_topics([NewTopic("orders", 1, 1)], timeout_ms=8000)
        assert isinstance(outcome, KafkaError)
        assert outcome.code is ErrorCode.REQUEST_TIMED_OUT
        assert trio.current_time() == pytest.approx(8, abs=0.1)


async def test_waiting_requests_fail_when_the_sc_stops() -> None:
    async with running_workflow(await store_with(1)) as running, trio.open_nursery() as nursery:
        await running.connect(1)
        running.spus.silent = {1}
        outcomes: list[TopicSpec | KafkaError] = []

        async def create() -> None:
            outcomes.extend(await running.administration.create_topics([NewTopic("orders", 1, 1)]))

        nursery.start_soon(create)
        await trio.testing.wait_all_tasks_blocked()
        running.workflow.writes.close()
        await trio.testing.wait_all_tasks_blocked()
        outcomes += await running.administration.create_topics([NewTopic("late", 1, 1)])
        assert codes(outcomes) == [ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_CONTROLLER]


async def test_users_and_rules_are_in_the_mirror_by_the_answer() -> None:
    async with running_workflow(await store_with(1)) as running:
        tables, change = running.workflow.cluster.security, running.administration.change_security
        version = running.workflow.cluster.version
        assert await change(RECORDS) == [None] * len(RECORDS)
        assert [tables.of_kind(kind_of(each)) for each in RECORDS] == [{key_of(each): each} for each in RECORDS]
        assert running.workflow.cluster.version > version
        too_long = replace(ALICE, name="a" * 2000)
        outcomes = await change([too_long], [("user", "alice"), ("user", "nobody")])
        assert [None if each is None else each.code for each in outcomes] == [ErrorCode.INVALID_REQUEST, None, None]
        assert not tables.users


async def test_edits_of_one_user_that_arrive_together_are_all_carried_out() -> None:
    def add(mechanism: str) -> SecurityEdit:
        def change(before: SecurityRecord | None) -> SecurityRecord:
            assert before is None or isinstance(before, UserRecord)
            credential = replace(CREDENTIAL, mechanism=mechanism)
            return UserRecord("alice", (*(() if before is None else before.credentials), credential))

        return SecurityEdit("user", "alice", change)

    async with running_workflow(await store_with(1)) as running:
        change = running.administration.change_security

        async def change_two(*mechanisms: str) -> None:
            assert await change(edits=[add(each) for each in mechanisms]) == [None, None]

        async with trio.open_nursery() as nursery:
            nursery.start_soon(change_two, "a", "b")
            nursery.start_soon(change_two, "c", "d")
        alice = running.workflow.cluster.security.users["alice"]
        assert sorted(each.mechanism for each in alice.credentials) == ["a", "b", "c", "d"]


async def test_users_survive_a_restart_of_the_controller_and_are_no_objects() -> None:
    store = await store_with(1)
    async with running_workflow(store) as running:
        assert await running.administration.change_security(RECORDS) == [None] * len(RECORDS)
    async with running_workflow(store) as running:
        tables = running.workflow.cluster.security
        assert [tables.of_kind(kind_of(each)) for each in RECORDS] == [{key_of(each): each} for each in RECORDS]
        for kind in ("security", "user"):
            with pytest.raises(KafkaError, match="there is no kind"):
                list_objects(kind, None, running.workflow.local)
