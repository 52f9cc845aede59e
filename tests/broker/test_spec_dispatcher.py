from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
import structlog
from simulation.files import SimulatedFiles
from spus import SteadyClock, batch

from tailrace.broker.metrics import BrokerMetrics
from tailrace.broker.parking import Parking
from tailrace.broker.replicas import Replica, Replicas
from tailrace.broker.spec_dispatcher import SpecDispatcher
from tailrace.broker.topic_settings import TopicSettings, settings_of
from tailrace.cluster.broker_configs import BrokerConfigs
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.specs import PartitionSpec, TopicSpec
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import Epoch, SpuId, TopicId
from tailrace.protocol.record_batch import read_header, stamp
from tailrace.storage import layout
from tailrace.storage.checkpoints import save_high_watermarks

HERE, ELSEWHERE = SpuId(1), SpuId(2)
TOPIC, OTHER = TopicId(int=1), TopicId(int=2)


def _topic(
    topic_id: TopicId = TOPIC, name: str = "t", replicas: Sequence[tuple[SpuId, ...]] = ((HERE,),), epoch: int = 0
) -> TopicSpec:
    partitions = tuple(
        PartitionSpec(topic_id, name, number, each[0], Epoch(epoch), each, each) for number, each in enumerate(replicas)
    )
    return TopicSpec(topic_id, name, {}, partitions)


def _settings(**configs: str) -> TopicSettings:
    return settings_of({name.replace("_", "."): value for name, value in configs.items()}, BrokerConfigs({}))


@dataclass
class _Spu:
    """What a dispatcher works on; another one on the same files is a restart."""

    files: SimulatedFiles = field(default_factory=SimulatedFiles)
    clean: bool = True

    def __post_init__(self) -> None:
        clock = SteadyClock()
        self.cluster = Cluster()
        self.replicas = Replicas(HERE, self.cluster)
        self.metrics = BrokerMetrics()
        self.parking = Parking("/data", self.files, clock)
        self.dispatcher = SpecDispatcher(
            HERE,
            "/data",
            self.files,
            self.replicas,
            self.parking,
            self.metrics,
            structlog.get_logger(),
            clean=self.clean,
        )

    async def apply(self, topic: TopicSpec, **configs: str) -> list[Replica]:
        self.cluster.put_topic(topic)
        await self.dispatcher.apply_topic(topic, _settings(**configs))
        return self.replicas.of_topic(topic)


def _append(replica: Replica, *values: bytes) -> None:
    data = bytearray(batch(*values))
    stamp(data, 0, replica.log.log_end, replica.spec.epoch)
    replica.append(data, read_header(data))


async def test_replicas_that_belong_here_run_after_the_call() -> None:
    spu = _Spu()
    made = await spu.apply(_topic(replicas=((HERE,), (ELSEWHERE,), (ELSEWHERE, HERE))))
    assert [replica.partition for replica in made] == [0, 2]
    assert spu.files.list(f"/data/topics/t/{TOPIC}") == ["0", "2"]


async def test_applying_again_changes_spec_and_settings_of_the_replica_that_runs() -> None:
    spu = _Spu()
    (before,) = await spu.apply(_topic())
    _append(before, b"a")
    topic = _topic(epoch=7)
    (after,) = await spu.apply(topic, flush_messages="1", segment_bytes="2097152")
    assert after is before
    assert after.spec is topic.partitions[0]
    assert after.syncs_before_acknowledging
    assert after.log.config.segment_bytes_max == 2097152
    assert after.log.log_end == 1


async def test_partitions_are_added_to_a_topic_that_runs() -> None:
    spu = _Spu()
    (first,) = await spu.apply(_topic())
    assert (await spu.apply(_topic(replicas=((HERE,), (HERE,)))))[0] is first
    assert len(list(spu.replicas)) == 2


async def test_a_removed_topic_stops_tells_who_waits_and_parks_its_files() -> None:
    spu = _Spu()
    (replica,) = await spu.apply(_topic())
    _append(replica, b"a")
    refused: list[KafkaError] = []

    @dataclass
    class Waiter:
        def on_acknowledged(self) -> None:
            raise AssertionError

        def on_refused(self, error: KafkaError) -> None:
            refused.append(error)

    replica.waiting_acknowledgements.append((9, Waiter()))
    await spu.dispatcher.remove_topic(TOPIC)
    assert [error.code for error in refused] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert not replica.is_open
    assert list(spu.replicas) == []
    assert spu.files.exists(layout.parked_path("/data", "t", TOPIC))


async def test_the_same_topic_again_finds_its_records_and_another_of_its_name_starts_empty() -> None:
    spu = _Spu()
    (replica,) = await spu.apply(_topic())
    _append(replica, b"a", b"b")
    await spu.dispatcher.remove_topic(TOPIC)
    (namesake,) = await spu.apply(_topic(OTHER))
    assert namesake.log.log_end == 0
    await spu.dispatcher.remove_topic(OTHER)
    (again,) = await spu.apply(_topic())
    assert again.log.log_end == again.high_watermark == 2
    assert not spu.files.exists(layout.parked_path("/data", "t", TOPIC))


async def test_what_belongs_to_no_topic_is_parked_once_all_are_applied() -> None:
    spu = _Spu()
    (replica,) = await spu.apply(_topic(OTHER, "forgotten"))
    await replica.close()
    again = _Spu(spu.files)
    await again.apply(_topic())
    await again.dispatcher.on_all_applied()
    assert again.files.exists(layout.parked_path("/data", "forgotten", OTHER))
    assert not again.files.exists(layout.parked_path("/data", "t", TOPIC))


async def test_after_an_unclean_stop_logs_are_examined_and_counted() -> None:
    spu = _Spu()
    (replica,) = await spu.apply(_topic())
    _append(replica, b"a")
    await replica.log.sync()
    whole = replica.log.size_bytes
    log = spu.files.open(f"{replica.log.directory}/{0:020d}.log")
    log.append(bytes(batch(b"torn"))[:20])
    again = _Spu(spu.files.crash("all"), clean=False)
    (recovered,) = await again.apply(_topic())
    assert (recovered.log.log_end, recovered.log.size_bytes) == (1, whole)
    assert again.metrics.recovered_replicas == 1
    assert again.metrics.truncated_bytes == 20


async def test_a_replica_made_after_the_start_has_no_past_to_examine() -> None:
    spu = _Spu(clean=False)
    await spu.dispatcher.on_all_applied()
    await spu.apply(_topic())
    assert spu.metrics.recovered_replicas == 0


async def test_with_other_replicas_only_what_was_known_to_be_committed_is() -> None:
    spu = _Spu()
    (replica,) = await spu.apply(_topic())
    _append(replica, b"a", b"b", b"c")
    await replica.close()
    await save_high_watermarks(spu.files, "/data", {(TOPIC, 0): 2})
    assert (await _Spu(spu.files).apply(_topic()))[0].high_watermark == 3, "alone, all of it is"
    followed = _topic(replicas=((HERE, ELSEWHERE),))
    assert (await _Spu(spu.files).apply(followed))[0].high_watermark == 2


@pytest.mark.parametrize("damaged", [0, 1])
async def test_a_log_that_does_not_open_takes_no_neighbour_with_it(damaged: int) -> None:
    files = SimulatedFiles()

    real_make = files.make_directories

    def make(path: str) -> None:
        if path.endswith(f"/{TOPIC}/{damaged}"):
            raise OSError("the disk does not answer")
        real_make(path)

    files.make_directories = make  # type: ignore[method-assign]
    spu = _Spu(files)
    (whole,) = await spu.apply(_topic(replicas=((HERE,), (HERE,))))
    assert whole.partition == 1 - damaged
    with pytest.raises(KafkaError) as refused:
        spu.replicas.leading("t", damaged)
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    await spu.dispatcher.remove_topic(TOPIC)
