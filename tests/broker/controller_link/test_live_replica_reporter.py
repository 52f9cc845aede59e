from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
import structlog
import trio
from logs import log_at
from msgspec.structs import replace
from simulation.files import SimulatedFiles
from spus import batch
from structlog.testing import capture_logs

from tailrace.broker.controller_link import live_replica_reporter
from tailrace.broker.controller_link.live_replica_reporter import LiveReplicaReporter
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.broker.replicas.topic_settings import settings_of
from tailrace.broker.replication.messages import ProposeLiveReplicas
from tailrace.broker.spu_counters import BrokerMetrics
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.specs import PartitionSpec
from tailrace.protocol.batches.record_batch import read_header
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import Epoch, SpuId, TopicId
from tailrace.protocol.internal.report_live_replicas import ReportLiveReplicasRequest, ReportLiveReplicasResponse

HERE, ELSEWHERE, FURTHER = SpuId(1), SpuId(2), SpuId(3)
TOPIC = TopicId(int=7)


def _spec(partition: int, leader: SpuId = HERE, epoch: int = 0) -> PartitionSpec:
    return PartitionSpec(TOPIC, "t", partition, leader, Epoch(epoch), (HERE,), (leader,), version=8)


def _proposal(version: int, members: int) -> ProposeLiveReplicas:
    return ProposeLiveReplicas(Epoch(0), version, ((HERE, ""), (ELSEWHERE, "store"))[:members])


@dataclass
class _Spu:
    replicas: ReplicaRegistry = field(default_factory=lambda: ReplicaRegistry(HERE, Cluster()))
    files: SimulatedFiles = field(default_factory=SimulatedFiles)
    heard: list[list[tuple[int, int, int, int]]] = field(default_factory=list)
    standings: list[tuple[int, int, dict[int, int]]] = field(default_factory=list)
    """The high watermark, the log end and the followers' lags of each reported partition."""
    failed: list[list[int]] = field(default_factory=list)
    """The partitions reported as failed, by message."""
    answer: int = ErrorCode.NONE
    is_cut_off: bool = False
    """Whether reports are lost with the connection."""

    def __post_init__(self) -> None:
        self.metrics = BrokerMetrics()
        self.reporter = LiveReplicaReporter(self.replicas, self.metrics, structlog.get_logger())

    def add(self, spec: PartitionSpec) -> Replica:
        settings = settings_of({}, BrokerConfigs({}))
        log = log_at(self.files, f"/data/topics/t/{TOPIC}/{spec.partition}", settings.log, clean=True)
        replica = Replica(HERE, spec, log, settings, 0)
        self.replicas.add(replica)
        return replica

    async def report(self, message: ReportLiveReplicasRequest) -> ReportLiveReplicasResponse:
        await trio.lowlevel.checkpoint()
        if self.is_cut_off:
            await trio.sleep_forever()
        self.heard.append(
            [(each.partition, each.epoch, each.version, len(each.members)) for each in message.partitions]
        )
        self.standings += [
            (each.high_watermark, each.log_end, {lag.spu_id: lag.records for lag in each.lags})
            for each in message.partitions
        ]
        self.failed.append([each.partition for each in message.partitions if each.has_failed])
        return ReportLiveReplicasResponse(error_code=self.answer)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.reporter.run, self.report)
            await trio.testing.wait_all_tasks_blocked()
            yield
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()


async def test_what_it_leads_is_reported_and_nothing_twice() -> None:
    spu = _Spu()
    spu.add(_spec(0))
    spu.add(_spec(1, leader=ELSEWHERE))
    async with spu.connected():
        spu.reporter.on_changed()
    assert spu.heard == [[(0, 0, 8, 0)]]


async def test_an_election_is_announced_and_another_live_replica_set_is_not() -> None:
    spu = _Spu()
    first, second = spu.add(_spec(0)), spu.add(_spec(1, leader=ELSEWHERE))
    async with spu.connected():
        second.use_spec(_spec(1, epoch=4))
        spu.reporter.on_changed()
        await trio.testing.wait_all_tasks_blocked()
        first.use_spec(replace(first.spec, live_replicas=(HERE, ELSEWHERE), version=9))
        spu.reporter.on_changed()
    assert spu.heard == [[(0, 0, 8, 0)], [(1, 4, 8, 0)]]


async def test_only_what_has_new_specs_is_looked_at() -> None:
    spu = _Spu()
    first, second = spu.add(_spec(0)), spu.add(_spec(1))
    async with spu.connected():
        spu.heard.clear()
        for replica in (first, second):
            replica.use_spec(_spec(replica.partition, epoch=1))
        spu.reporter.on_changed([second.key])
        await trio.testing.wait_all_tasks_blocked()
        assert spu.heard == [[(1, 1, 8, 0)]]
        spu.reporter.on_changed([])
        await trio.testing.wait_all_tasks_blocked()
        spu.reporter.on_changed([first.key])
    assert spu.heard == [[(1, 1, 8, 0)], [(0, 1, 8, 0)]]


async def test_what_was_removed_is_announced_when_it_is_there_again() -> None:
    spu = _Spu()
    replica = spu.add(_spec(0))
    async with spu.connected():
        spu.replicas.remove(replica.spec)
        spu.reporter.on_changed([replica.key])
        await trio.testing.wait_all_tasks_blocked()
        spu.replicas.add(replica)
        spu.reporter.on_changed([replica.key])
    assert spu.heard == [[(0, 0, 8, 0)]] * 2


async def test_a_replica_that_starts_to_lead_after_its_spec_is_announced_then() -> None:
    """The replica may have to stop following or leading first."""
    spu = _Spu()
    replica = spu.add(_spec(0))
    replica.is_leader = False
    async with spu.connected():
        replica.is_leader = True
        spu.reporter.on_changed([])
    assert spu.heard == [[(0, 0, 8, 0)]]


async def test_what_leaders_propose_goes_together_and_each_once() -> None:
    spu = _Spu()
    for number in range(3):
        spu.add(_spec(number))
    async with spu.connected():
        spu.heard.clear()
        for number in range(3):
            spu.reporter.propose((TOPIC, number), _proposal(8, 2))
        spu.reporter.propose((TOPIC, 0), _proposal(8, 1))
        await trio.testing.wait_all_tasks_blocked()
        spu.reporter.on_changed()
        await trio.testing.wait_all_tasks_blocked()
        spu.reporter.propose((TOPIC, 1), _proposal(8, 2))
    assert spu.heard == [[(0, 0, 8, 1), (1, 0, 8, 2), (2, 0, 8, 2)], [(1, 0, 8, 2)]], "who proposes repeats it"
    assert spu.metrics.live_replica_updates == 3 + 4, "with what was announced before"


async def test_how_the_records_stand_is_said_with_it() -> None:
    spu = _Spu()
    led = spu.add(replace(_spec(0), replicas=(HERE, ELSEWHERE, FURTHER)))
    followed = spu.add(replace(_spec(1, leader=ELSEWHERE), replicas=(HERE, ELSEWHERE)))
    entries = bytearray(batch(b"a", b"b", b"c"))
    led.log.append(entries, read_header(entries))
    led.high_watermark, led.is_leader, led.follower_last_matched_end = 2, True, {ELSEWHERE: 1}.get
    async with spu.connected():
        for replica in (led, followed):
            spu.reporter.propose(replica.key, _proposal(8, members=2))
    assert spu.standings == [(2, 3, {ELSEWHERE: 2}), (-1, -1, {})]


async def test_a_new_connection_hears_what_is_unanswered() -> None:
    spu = _Spu()
    answered, refused, followed = (spu.add(_spec(number)) for number in range(3))
    for number in range(4):
        spu.reporter.propose((TOPIC, number), _proposal(8, 2))
    answered.use_spec(replace(answered.spec, version=9, live_replicas=(HERE, ELSEWHERE)))
    followed.use_spec(_spec(2, leader=ELSEWHERE, epoch=1))
    async with spu.connected():
        pass
    assert refused.spec.version == 8
    assert spu.heard == [[(1, 0, 8, 2), (0, 0, 9, 0)]]


async def test_a_new_connection_hears_everything_again() -> None:
    spu = _Spu()
    spu.add(_spec(0))
    for _ in range(2):
        async with spu.connected():
            pass
    assert spu.heard == [[(0, 0, 8, 0)]] * 2


async def test_an_offline_leader_is_not_reported() -> None:
    spu = _Spu()
    spu.add(_spec(0)).go_offline("the disk is gone")
    spu.replicas.add_damaged(_spec(1), "bits have flipped")
    async with spu.connected():
        pass
    assert spu.heard == []


async def test_a_leader_that_comes_back_is_reported_again() -> None:
    spu = _Spu()
    replica = spu.add(_spec(0))
    async with spu.connected():
        for spec in (_spec(0, leader=ELSEWHERE, epoch=1), _spec(0, epoch=0)):
            replica.use_spec(spec)
            spu.reporter.on_changed()
            await trio.testing.wait_all_tasks_blocked()
    assert len(spu.heard) == 2


async def test_many_partitions_go_in_several_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_replica_reporter, "REPORTED_AT_ONCE_MAX", 3)
    spu = _Spu()
    for number in range(7):
        spu.add(_spec(number))
    async with spu.connected():
        pass
    assert [[number for number, *_ in each] for each in spu.heard] == [[0, 1, 2], [3, 4, 5], [6]]


@pytest.mark.parametrize(
    ("code", "name"), [(ErrorCode.NOT_LEADER_OR_FOLLOWER, "NOT_LEADER_OR_FOLLOWER"), (9999, "UNKNOWN_SERVER_ERROR")]
)
async def test_a_refusal_is_logged_and_no_reason_to_warn(code: int, name: str) -> None:
    spu = _Spu(answer=code)
    spu.add(_spec(0))
    with capture_logs() as logged:
        async with spu.connected():
            pass
    refused = [(each["code"], each["log_level"]) for each in logged if each["event"] == "live_replicas_refused"]
    assert refused == [(name, "info")]


async def test_a_replica_whose_disk_failed_is_reported_as_long_as_it_is_held() -> None:
    spu = _Spu()
    replica = spu.add(_spec(0))
    spu.reporter.propose((TOPIC, 0), _proposal(8, 2))
    replica.go_offline("the disk is gone")
    spu.reporter.on_failed((TOPIC, 0))
    for _ in range(2):
        async with spu.connected():
            pass
    assert spu.failed == [[0], [0]], "on each connection"
    replica.use_spec(_spec(0, leader=ELSEWHERE, epoch=1))
    async with spu.connected():
        pass
    assert spu.failed == [[0], [0], [0]], "whoever leads"
    spu.replicas.remove(replica.spec)
    spu.add(_spec(0, leader=ELSEWHERE, epoch=1))
    async with spu.connected():
        pass
    assert len(spu.heard) == 3, "that it was given again works"


async def test_a_failed_replica_stays_failed_in_its_epoch_although_its_log_is_usable_again() -> None:
    """No other SPU would be elected if the Streaming Controller, which was unreachable, did not learn of it."""
    spu = _Spu()
    replica = spu.add(replace(_spec(0, epoch=5), replicas=(HERE, ELSEWHERE)))
    replica.go_offline("a header is none any more", damaged_from=3)
    spu.reporter.on_failed((TOPIC, 0))
    spu.replicas.remove(replica.spec)
    spu.replicas.add_damaged(replica.spec, "a header is none any more")
    spu.reporter.on_failed((TOPIC, 0))
    async with spu.connected():
        pass
    assert (spu.heard, spu.failed) == ([[(0, 5, 0, 0)]], [[0]])
    spu.add(replica.spec)
    for _ in range(2):
        async with spu.connected():
            pass
    assert (spu.heard[1:], spu.failed[1:]) == ([[(0, 5, 0, 0), (0, -1, 0, 0)]] * 2, [[0]] * 2), "failed, and opened"
    spu.reporter.on_changed()
    spu.add(_spec(0, leader=ELSEWHERE, epoch=6))
    async with spu.connected():
        pass
    assert len(spu.heard) == 3


async def test_a_log_that_did_not_open_is_reported_without_an_epoch() -> None:
    """It may therefore be elected again, and its log is then tried again. Meanwhile another SPU may replace it."""
    spu = _Spu()
    spu.replicas.add_damaged(_spec(0, epoch=5), "the disk does not answer")
    spu.reporter.on_failed((TOPIC, 0))
    async with spu.connected():
        pass
    assert (spu.failed, spu.heard) == ([[0]], [[(0, -1, 0, 0)]])
    spu.add(_spec(0, leader=ELSEWHERE, epoch=6))
    for _ in range(2):
        async with spu.connected():
            pass
    assert (spu.failed[1:], spu.heard[1:]) == ([[]], [[(0, -1, 0, 0)]]), "it has opened by now, which is said once"


async def test_that_a_log_has_opened_is_said_again_if_it_got_lost() -> None:
    """No other message reports it, and the Streaming Controller would replace the replica."""
    spu = _Spu()
    spu.replicas.add_damaged(_spec(0, epoch=5), "the disk does not answer")
    spu.reporter.on_failed((TOPIC, 0))
    async with spu.connected():
        pass
    replica = spu.add(_spec(0, leader=ELSEWHERE, epoch=6))
    spu.is_cut_off = True
    async with spu.connected():
        pass
    spu.is_cut_off = False
    for _ in range(2):
        async with spu.connected():
            pass
    assert (spu.failed[1:], spu.heard[1:]) == ([[]], [[(0, -1, 0, 0)]])
    replica.go_offline("the disk is gone")
    spu.reporter.on_failed((TOPIC, 0))
    async with spu.connected():
        pass
    assert (spu.failed[2:], spu.heard[2:]) == ([[0]], [[(0, 6, 0, 0)]])


async def test_a_log_that_failed_before_its_opening_was_reported_has_failed() -> None:
    spu = _Spu()
    spu.replicas.add_damaged(_spec(0, epoch=5), "the disk does not answer")
    spu.reporter.on_failed((TOPIC, 0))
    async with spu.connected():
        pass
    replica = spu.add(_spec(0, leader=ELSEWHERE, epoch=6))
    spu.is_cut_off = True
    async with spu.connected():
        replica.go_offline("the disk is gone")
        spu.reporter.on_failed((TOPIC, 0))
    spu.is_cut_off = False
    async with spu.connected():
        pass
    assert (spu.failed[1:], spu.heard[1:]) == ([[0]], [[(0, 6, 0, 0)]])


async def test_a_log_that_opens_on_a_disk_that_fails_then_has_failed() -> None:
    spu = _Spu()
    spu.replicas.add_damaged(_spec(0, epoch=5), "the disk does not answer")
    spu.reporter.on_failed((TOPIC, 0))
    async with spu.connected():
        spu.add(_spec(0, leader=ELSEWHERE, epoch=6)).go_offline("now it is gone")
        spu.reporter.on_failed((TOPIC, 0))
        spu.reporter.on_changed()
    assert spu.failed == [[0], [0]]
    assert spu.heard[1:] == [[(0, 6, 0, 0)]]
