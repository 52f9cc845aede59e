"""The source of specs: what it decides, in which order it takes effect, and what a restart or a crash finds."""

from dataclasses import dataclass, field
from random import Random
from uuid import UUID

import pytest
import trio
from simulation.files import Keep, SimulatedFiles
from spus import SteadyClock

from tailrace.broker.controller_state import StateError, decode_state
from tailrace.broker.local_controller import PRODUCER_IDS_PER_BLOCK, STATE_FILE, LocalController
from tailrace.broker.topic_settings import TopicSettings
from tailrace.cluster.broker_configs import BrokerConfigs
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.config_changes import Alteration, ConfigChange, Operation, ResourceKind
from tailrace.cluster.specs import SpuSpec, TopicSpec
from tailrace.cluster.topic_planning import MorePartitions, NewTopic
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import SpuId, TopicId
from tailrace.runtime.chance import RandomChance

DIRECTORY = "/data"
PATH = f"{DIRECTORY}/{STATE_FILE}"


@dataclass
class Sink:
    """Remembers what took effect; `files` shows what a power loss at that moment would have left."""

    files: SimulatedFiles
    topics: dict[TopicId, tuple[TopicSpec, TopicSettings]] = field(default_factory=dict)
    durable_when_applied: list[bool] = field(default_factory=list)

    async def apply_topic(self, topic: TopicSpec, settings: TopicSettings) -> None:
        self.topics[topic.id] = (topic, settings)
        self.durable_when_applied.append(topic in self._on_disk())

    async def remove_topic(self, topic_id: TopicId) -> None:
        self.durable_when_applied.append(all(topic.id != topic_id for topic in self._on_disk()))
        del self.topics[topic_id]

    def _on_disk(self) -> list[TopicSpec]:
        return list(decode_state(self.files.crash("synced").read(PATH)).topics.values())


class Home:
    """A controller with what surrounds it; another one on the same files is a restart."""

    def __init__(self, files: SimulatedFiles | None = None, clock: SteadyClock | None = None) -> None:
        self.files = files or SimulatedFiles()
        self.clock = clock or SteadyClock()
        self.cluster = Cluster()
        self.broker_configs = BrokerConfigs({})
        self.sink = Sink(self.files)
        self.controller = LocalController(
            SpuSpec(SpuId(1)),
            DIRECTORY,
            self.files,
            self.clock,
            RandomChance(5),
            self.cluster,
            self.broker_configs,
            self.sink,
        )

    async def started(self, *, clean: bool = True) -> "Home":
        self.files.make_directories(DIRECTORY)
        await self.files.sync_directory("")
        await self.controller.start(clean=clean)
        return self

    async def create(self, name: str, partitions: int = 1) -> TopicSpec:
        (made,) = await self.controller.create_topics([NewTopic(name, partitions, 1)])
        assert isinstance(made, TopicSpec), made
        return made

    async def alter(self, kind: ResourceKind, name: str, **configs: str) -> KafkaError | None:
        changes = tuple(ConfigChange(name.replace("_", "."), Operation.SET, text) for name, text in configs.items())
        (error,) = await self.controller.alter_configs([Alteration(kind, name, changes)])
        return error


def code(result: TopicSpec | KafkaError | None) -> ErrorCode:
    return result.code if isinstance(result, KafkaError) else ErrorCode.NONE


# topics


async def test_a_topic_is_on_the_disk_before_anyone_sees_it() -> None:
    home = await Home().started()
    topic = await home.create("t", 3)
    assert home.cluster.topics["t"] is topic
    assert home.sink.topics[topic.id][0] is topic
    await home.controller.delete_topics([topic.id])
    assert not home.cluster.topics
    assert not home.sink.topics
    assert home.sink.durable_when_applied == [True, True]


async def test_of_several_topics_those_that_can_be_are_created() -> None:
    home = await Home().started()
    wanted = [
        NewTopic("a", 1, 1),
        NewTopic("b", 0, 1),
        NewTopic("a", 1, 1),
        NewTopic("c.d", 1, 1),
        NewTopic("c_d", 1, 1),
    ]
    results = await home.controller.create_topics(wanted)
    assert list(map(code, results)) == [
        ErrorCode.NONE,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.NONE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]
    assert set(home.cluster.topics) == {"a", "c.d"}


async def test_one_request_adds_only_so_many_partitions_in_all() -> None:
    home = await Home().started()
    results = await home.controller.create_topics(
        [NewTopic("a", 6000, 1), NewTopic("b", 6000, 1), NewTopic("c", 4000, 1)], validate_only=True
    )
    assert list(map(code, results)) == [ErrorCode.NONE, ErrorCode.POLICY_VIOLATION, ErrorCode.NONE]


async def test_validating_changes_nothing() -> None:
    home = await Home().started()
    topic = await home.create("t")
    before = home.files.read(PATH)
    await home.controller.create_topics([NewTopic("u", 1, 1)], validate_only=True)
    await home.controller.create_partitions([MorePartitions("t", 5)], validate_only=True)
    change = Alteration(ResourceKind.TOPIC, "t", (ConfigChange("retention.ms", Operation.SET, "5"),))
    await home.controller.alter_configs([change], validate_only=True)
    assert home.files.read(PATH) == before
    assert dict(home.cluster.topics) == {"t": topic}


async def test_partitions_are_added() -> None:
    home = await Home().started()
    topic = await home.create("t", 2)
    results = await home.controller.create_partitions([MorePartitions("t", 5), MorePartitions("nope", 5)])
    assert list(map(code, results)) == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert len(home.cluster.topics["t"].partitions) == 5
    assert home.cluster.topics["t"].partitions[:2] == topic.partitions
    assert home.sink.durable_when_applied == [True, True]


async def test_a_deleted_topic_can_come_back_for_as_long_as_it_is_kept() -> None:
    home = await Home().started()
    topic = await home.create("t", 2)
    await home.controller.delete_topics([topic.id])
    assert [deleted.topic for deleted in home.controller.deleted_topics] == [topic]
    back = await home.controller.undelete_topic(topic.id)
    assert (back.id, back.name, len(back.partitions)) == (topic.id, "t", 2)
    assert all(partition.epoch == 1 for partition in back.partitions), "what was appended before is another epoch's"
    assert home.cluster.topics["t"] is back
    await home.controller.delete_topics([topic.id])
    home.clock.time_ms += home.broker_configs.settings.deleted_topic_retention_ms
    with pytest.raises(KafkaError, match="is kept"):
        await home.controller.undelete_topic(topic.id)


async def test_a_topic_does_not_come_back_over_another_of_its_name() -> None:
    home = await Home().started()
    first = await home.create("t")
    await home.controller.delete_topics([first.id])
    second = await home.create("t")
    assert second.id != first.id
    with pytest.raises(KafkaError, match="there is another topic t now"):
        await home.controller.undelete_topic(first.id)
    assert home.cluster.topics["t"] is second


async def test_what_is_deleted_twice_or_unknown_is_an_error_for_itself() -> None:
    home = await Home().started()
    topic = await home.create("t")
    results = await home.controller.delete_topics([topic.id, topic.id, UUID(int=9)])
    assert list(map(code, results)) == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_ID]


# configs


async def test_a_config_reaches_the_replicas() -> None:
    home = await Home().started()
    topic = await home.create("t")
    assert await home.alter(ResourceKind.TOPIC, "t", retention_ms="5") is None
    assert home.cluster.topics["t"].configs == {"retention.ms": "5"}
    assert home.sink.topics[topic.id][1].log.retention_ms == 5
    assert home.sink.durable_when_applied == [True, True]


async def test_a_broker_config_reaches_the_topics_that_do_not_set_their_own() -> None:
    home = await Home().started()
    own, other = await home.create("own"), await home.create("other")
    await home.alter(ResourceKind.TOPIC, "own", retention_ms="5")
    assert await home.alter(ResourceKind.BROKER, "", log_retention_ms="6") is None
    assert home.sink.topics[own.id][1].log.retention_ms == 5
    assert home.sink.topics[other.id][1].log.retention_ms == 6
    assert await home.alter(ResourceKind.BROKER, "1", log_retention_ms="7") is None
    assert home.sink.topics[other.id][1].log.retention_ms == 7


async def test_topics_that_set_the_same_share_their_settings() -> None:
    home = await Home().started()
    topics = [await home.create(name) for name in "ab"]
    first, second = (home.sink.topics[topic.id][1] for topic in topics)
    assert first is second


async def test_of_each_resource_all_changes_are_made_or_none() -> None:
    home = await Home().started()
    for name in "ab":
        await home.create(name)
    good = ConfigChange("retention.ms", Operation.SET, "5")
    bad = ConfigChange("segment.ms", Operation.SET, "0")
    errors = await home.controller.alter_configs(
        [Alteration(ResourceKind.TOPIC, "a", (good, bad)), Alteration(ResourceKind.TOPIC, "b", (good,))]
    )
    assert list(map(code, errors)) == [ErrorCode.INVALID_CONFIG, ErrorCode.NONE]
    assert [home.cluster.topics[name].configs for name in "ab"] == [{}, {"retention.ms": "5"}]


async def test_configs_are_checked_together_with_those_that_are_set_already() -> None:
    home = await Home().started()
    await home.create("t")
    assert await home.alter(ResourceKind.TOPIC, "t", max_compaction_lag_ms="5") is None
    assert code(await home.alter(ResourceKind.TOPIC, "t", min_compaction_lag_ms="6")) == ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    ("kind", "name", "config", "expected"),
    [
        (ResourceKind.TOPIC, "", "retention_ms", ErrorCode.INVALID_REQUEST),
        (ResourceKind.TOPIC, "nope", "retention_ms", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ResourceKind.TOPIC, "t", "no_such_config", ErrorCode.INVALID_CONFIG),
        (ResourceKind.BROKER, "9", "log_retention_ms", ErrorCode.INVALID_REQUEST),
        (ResourceKind.BROKER, "x", "log_retention_ms", ErrorCode.INVALID_REQUEST),
        (ResourceKind.BROKER, "1", "broker_id", ErrorCode.INVALID_REQUEST),
        (ResourceKind.BROKER, "1", "no_such_config", ErrorCode.INVALID_REQUEST),
        (ResourceKind.BROKER_LOGGER, "1", "root", ErrorCode.INVALID_REQUEST),
        (ResourceKind.GROUP, "g", "x", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_an_alteration_that_cannot_be(kind: ResourceKind, name: str, config: str, expected: ErrorCode) -> None:
    home = await Home().started()
    await home.create("t")
    before = home.files.read(PATH)
    assert code(await home.alter(kind, name, **{config: "1"})) == expected
    assert home.files.read(PATH) == before


async def test_a_resource_that_is_named_twice_is_refused_both_times() -> None:
    home = await Home().started()
    await home.create("t")
    change = Alteration(ResourceKind.TOPIC, "t", (ConfigChange("retention.ms", Operation.SET, "5"),))
    errors = await home.controller.alter_configs([change, change])
    assert list(map(code, errors)) == [ErrorCode.INVALID_REQUEST] * 2
    assert home.cluster.topics["t"].configs == {}


# producer ids


async def test_no_block_of_producer_ids_is_given_out_twice_even_after_a_crash() -> None:
    home = await Home().started()
    first = await home.controller.allocate_producer_ids()
    again = await Home(home.files.crash("synced")).started(clean=False)
    second = await again.controller.allocate_producer_ids()
    assert len(first) == len(second) == PRODUCER_IDS_PER_BLOCK
    assert set(first).isdisjoint(second)


# restarts, crashes and failures


async def test_a_clean_restart_finds_everything_as_it_was() -> None:
    home = await Home().started()
    topic = await home.create("t", 2)
    gone = await home.create("gone")
    await home.controller.delete_topics([gone.id])
    await home.alter(ResourceKind.TOPIC, "t", retention_ms="5")
    await home.alter(ResourceKind.BROKER, "", num_partitions="6")
    before = home.files.read(PATH)
    again = await Home(home.files).started()
    assert again.cluster.cluster_id == home.cluster.cluster_id != ""
    assert again.cluster.topics == home.cluster.topics
    assert again.sink.topics[topic.id] == home.sink.topics[topic.id]
    assert again.broker_configs.settings.partitions_default == 6
    assert again.controller.deleted_topics == home.controller.deleted_topics
    assert again.files.read(PATH) == before


async def test_an_unclean_restart_gives_every_partition_another_epoch_durably() -> None:
    home = await Home().started()
    await home.create("t", 2)
    again = await Home(home.files.crash("synced")).started(clean=False)
    assert [partition.epoch for partition in again.cluster.topics["t"].partitions] == [1, 1]
    assert again.sink.durable_when_applied == [True]
    third = await Home(again.files.crash("synced")).started(clean=False)
    assert [partition.epoch for partition in third.cluster.topics["t"].partitions] == [2, 2]


@pytest.mark.parametrize("keep", ["synced", "all", Random(3), Random(4)])
async def test_a_crash_at_any_moment_of_a_change_leaves_the_old_state_or_the_new(keep: Keep) -> None:
    home = await Home().started()
    await home.create("old")
    crashes: list[SimulatedFiles] = []
    home.files.on_operation = lambda: crashes.append(home.files.crash(keep))
    await home.create("new")
    assert len(crashes) > 3
    found = []
    for files in crashes:
        again = await Home(files).started(clean=False)
        found.append(set(again.cluster.topics))
    assert all(topics in ({"old"}, {"old", "new"}) for topics in found)
    assert found[-1] == {"old", "new"}


async def test_a_change_that_cannot_be_written_does_not_happen() -> None:
    home = await Home().started()
    topic = await home.create("t")
    home.files.syncs_fail = True
    for change in (
        home.controller.create_topics([NewTopic("u", 1, 1)]),
        home.controller.delete_topics([topic.id]),
        home.controller.create_partitions([MorePartitions("t", 2)]),
        home.controller.allocate_producer_ids(),
        home.alter(ResourceKind.TOPIC, "t", retention_ms="5"),
        home.alter(ResourceKind.BROKER, "", num_partitions="5"),
    ):
        with pytest.raises(KafkaError, match="could not be written"):
            await change
    assert dict(home.cluster.topics) == {"t": topic}
    assert home.broker_configs.settings.partitions_default == 1
    home.files.syncs_fail = False
    await home.create("u")


async def test_who_stops_waiting_does_not_stop_a_change_half_way() -> None:
    home = await Home().started()
    with trio.CancelScope() as impatient:
        home.files.on_operation = impatient.cancel
        await home.controller.create_topics([NewTopic("t", 1, 1)])
    assert impatient.cancel_called
    on_disk = decode_state(home.files.read(PATH)).topics
    assert set(on_disk) == set(home.cluster.topics) == {"t"}
    assert len(home.sink.topics) == 1


async def test_changes_that_come_at_once_happen_one_after_the_other() -> None:
    home = await Home().started()
    async with trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(home.create, f"t{number}")
            nursery.start_soon(home.controller.allocate_producer_ids)
    assert len(home.cluster.topics) == 10
    again = await Home(home.files).started()
    assert len(again.cluster.topics) == 10
    assert (await again.controller.allocate_producer_ids()).start == 10 * PRODUCER_IDS_PER_BLOCK


async def test_a_file_that_is_no_state_stops_the_start_and_stays_as_it_is() -> None:
    home = Home()
    home.files.make_directories(DIRECTORY)
    await home.files.replace(PATH, b"precious")
    with pytest.raises(StateError, match=rf"{PATH} cannot be used as the controller's state: it is not JSON"):
        await home.started()
    assert home.files.read(PATH) == b"precious"
