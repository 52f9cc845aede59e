import pytest
import trio
from msgspec.structs import replace
from replicating import Store, WirePeers, code_of, produce, wire_of
from spus import lack_open_files

from tailrace.broker.peers.peer_messages import PeerMessage
from tailrace.broker.replicas.topic_settings import settings_of
from tailrace.broker.replication.messages import Fenced, SealReply
from tailrace.broker.roles.replica_controller import ReplicaController
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.specs import NO_LEADER
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import NO_EPOCH, Epoch, SpuId
from tailrace.storage.directory.checkpoints import ReplicaKey, SavedHighWatermark
from tailrace.storage.directory.promises import Promises
from tailrace.storage.log.log import Log


async def test_with_a_disk_that_fails_a_follower_leaves_and_the_others_go_on(autojump_clock: object) -> None:
    async with wire_of(3, lrs_max_lag_ms="2000") as wire:
        wire.stores[3].files.room_bytes = 0
        waiter = produce(wire.stores[1], b"a")
        await wire.settle()  # nothing waits until the replica has been silent for long enough
        assert wire.stores[3].replica.offline_reason is not None
        assert set(wire.spec.live_replicas) == {1, 2}
        assert waiter.answer is True


async def test_a_leader_that_lacks_an_open_file_takes_over_later(autojump_clock: object) -> None:
    async with wire_of(3, internal_segment_bytes="1") as wire:
        wire.part(3)
        for number in range(3):
            produce(wire.stores[1], b"%d" % number)
        await wire.settle()
        wire.kill(1)
        files = wire.stores[2].files
        files.opens_left = 0
        leader = await wire.elect(2)
        await trio.sleep(3)
        files.opens_left = None
        await trio.sleep(3)
        assert leader.replica.offline_reason is None
        assert leader.replica.is_leader and not leader.replica.is_merging


async def test_a_leader_that_can_open_no_file_is_opened_again(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its follower lags so far that the next entries have to be read from the log."""

    async with wire_of(2, lrs_max_lag_ms="1000") as wire:
        leader = wire.stores[1]
        wire.part(2)
        for _ in range(400):
            produce(leader, b"a")
        await trio.sleep(2)
        assert leader.replica.high_watermark == 400
        with monkeypatch.context() as now:
            now.setattr(Log, "headers", lack_open_files)
            wire.join(2)
            await trio.sleep(2)
        assert leader.replica.offline_reason is not None
        assert leader.replica.damaged_from == 400


async def test_a_leader_whose_disk_fails_tells_its_successor_not_to_wait(autojump_clock: object) -> None:
    async with wire_of(3) as wire:
        wire.stores[1].replica.go_offline("a sync failed")
        leader = await wire.elect(2)
        waiter = produce(leader, b"a")
        await wire.settle()
        assert waiter.answer is True
        assert set(wire.spec.live_replicas) == {2, 3}
        wire.part(1)
        await wire.elect(3)
        wire.join(1)
        await trio.sleep(60)
        assert set(wire.spec.live_replicas) == {2, 3}
        assert wire.stores[1].values() == []


async def test_an_epoch_of_an_earlier_process_does_not_let_this_one_lead(autojump_clock: object) -> None:
    async with wire_of(3) as wire:
        store = wire.kill(1)
        back = await wire.restart(store)
        await wire.settle()
        assert wire.spec.leader == back.spu
        assert not back.replica.is_leader
        with pytest.raises(KafkaError, match="does not lead"):
            raise back.replica.not_leader()


async def test_without_a_leader_in_the_spec_no_replica_leads(autojump_clock: object) -> None:
    async with wire_of(3) as wire:
        await wire.tell(replace(wire.spec, leader=NO_LEADER))
        await wire.settle()
        assert not any(store.replica.is_leader for store in wire.stores.values())


async def test_a_second_leader_of_an_epoch_is_refused_also_after_a_restart(autojump_clock: object) -> None:
    async with wire_of(3) as wire:
        await wire.elect(2)
        await wire.elect(3)
        back = await wire.restart(wire.kill(2))
        await wire.settle()
        stale = replace(wire.spec, epoch=Epoch(1), leader=back.spu, leader_incarnation=back.process)
        back.replica.use_spec(stale)
        await wire.settle()
        assert not back.replica.is_leader


async def test_a_restarted_store_knows_the_commit_epoch_of_its_checkpoint(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[tuple[int, Epoch]] = []
    to_leader = WirePeers.send_to_leader

    def listening(self: WirePeers, spu: SpuId, key: ReplicaKey, message: PeerMessage) -> None:
        if isinstance(message, SealReply) and message.spu == 3:
            said.append((message.high_watermark, message.high_watermark_epoch))
        to_leader(self, spu, key, message)

    async with wire_of(3) as wire:
        produce(wire.stores[1], b"a")
        await trio.sleep(1)
        for _ in range(3):
            await wire.elect(2)
            await wire.elect(1)
        monkeypatch.setattr(WirePeers, "send_to_leader", listening)
        saved = SavedHighWatermark(1, Epoch(0))
        assert wire.stores[3].replica.saved_high_watermark == saved, "later epochs have committed nothing"
        store = await wire.restart(wire.kill(3), saved=saved)
        await wire.elect(2)
        assert said[-1] == saved
        assert store.replica.saved_high_watermark == saved
        await wire.restart(wire.kill(3), saved=SavedHighWatermark(1, NO_EPOCH))
        await wire.elect(1)
        assert said[-1] == (1, wire.spec.epoch - 1), "or in an earlier one than the last that it has promised"


async def test_a_deposed_leader_is_fenced_by_all_others(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[tuple[SpuId, SpuId, PeerMessage]] = []

    def listening(self: WirePeers, spu: SpuId, key: ReplicaKey, message: PeerMessage) -> None:
        said.append((self.identity.spu, spu, message))

    async with wire_of(3) as wire:
        wire.deaf.add(SpuId(1))
        await wire.elect(2)
        monkeypatch.setattr(WirePeers, "send_to_leader", listening)
        produce(wire.stores[1], b"late")
        await wire.settle()
        assert {spu for spu, to, message in said if (to, message) == (1, Fenced(Epoch(1)))} == {2, 3}
        assert not wire.stores[2].values() and not wire.stores[3].values()


async def test_an_idle_partition_says_nothing_and_has_no_timer(autojump_clock: object) -> None:
    async with wire_of(3) as wire:
        produce(wire.stores[1], b"a")
        await trio.sleep(5)
        told = wire.told
        await trio.sleep(3600)
        assert wire.told == told


async def test_a_disk_that_fails_while_something_is_carried_out_ends_the_part(autojump_clock: object) -> None:
    async with wire_of(3, lrs_max_lag_ms="2000") as wire:
        follower = wire.stores[2]
        follower.files.sync_seconds = lambda: 1.0
        await wire.elect(3)
        follower.replica.go_offline("a sync failed")
        produce(wire.stores[3], b"a")
        await trio.sleep(5)
        assert set(wire.spec.live_replicas) == {1, 3}
        assert follower.values() == []
        assert follower.peers.followed == {1: 0, 3: 1}


async def test_changed_settings_are_applied_however_slow_the_disk_is(autojump_clock: object) -> None:
    """Some messages that arrive meanwhile are dropped, and sent again later. Settings are not sent again."""
    async with wire_of(3, flush_messages="1") as wire:
        leader, follower = wire.stores[1], wire.stores[2]
        follower.files.sync_seconds = lambda: 1000.0 if trio.current_time() < 900 else 0.0
        produce(leader, b"a")
        await trio.sleep(800)
        follower.replica.use_settings(settings_of({}, BrokerConfigs({})))
        await trio.sleep(300)
        produce(leader, b"b")
        await trio.sleep(1)
        assert follower.values() == [b"a", b"b"]
        assert follower.log.synced_end == 1, "it acknowledges before it syncs"


async def test_a_log_that_cannot_be_read_when_a_part_begins_takes_only_its_replica_offline(
    autojump_clock: object,
) -> None:
    async with wire_of(3) as wire:
        wire.part(1)
        waiter = produce(wire.stores[1], b"a")
        _damage_header(wire.stores[1], 0)
        await wire.elect(2)
        wire.join(1)
        await wire.elect(1)
        assert wire.stores[1].replica.offline_reason is not None
        assert code_of(waiter.answer) == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_store_that_cannot_read_for_its_leader_says_where_to_repair(
    autojump_clock: object,
) -> None:
    async with wire_of(3, replication_policy="majority") as wire:
        for value in (b"a", b"b", b"c"):
            produce(wire.stores[1], value)
        await trio.sleep(1)
        for number in (1, 2):
            await wire.restart(wire.kill(number), "synced")
        damaged = wire.stores[3]
        size = damaged.log.size_bytes // 3
        _damage_header(damaged, size)
        await wire.elect(2)
        assert damaged.replica.offline_reason is not None
        assert (damaged.replica.high_watermark, damaged.replica.damaged_from) == (3, 0)
        assert not wire.stores[2].replica.is_recovered_leader, "others are in doubt"


async def test_a_log_that_cannot_be_read_while_it_is_sent_is_doubted_and_serves_on(autojump_clock: object) -> None:
    async with wire_of(2, lrs_max_lag_ms="1000") as wire:
        leader = wire.stores[1]
        wire.part(2)
        for _ in range(400):
            produce(leader, b"a")
        await trio.sleep(2)
        _damage_header(leader, 0)
        wire.join(2)
        await trio.sleep(2)
        assert leader.doubts[0] == 0
        assert leader.replica.is_leader
        assert leader.replica.offline_reason is None


async def test_a_replica_left_alone_leads_when_all_effects_are_carried_out(
    autojump_clock: object,
) -> None:
    async with wire_of(2) as wire:
        store = wire.stores[2]
        produce(wire.stores[1], b"a")
        await trio.sleep(1)
        store.files.sync_seconds = lambda: 1.0
        await wire.elect(2)
        alone = replace(wire.spec, epoch=Epoch(2), replicas=(SpuId(2),), live_replicas=(SpuId(2),))
        store.replica.use_spec(alone)
        assert not store.replica.is_leader
        await store.dispatcher.attend(store.replica)
        assert store.replica.is_leader
        assert store.replica.high_watermark == store.log.log_end


async def test_no_task_waits_for_ever_when_an_spu_ends(autojump_clock: object) -> None:
    async with wire_of(2) as wire:
        store = wire.stores[2]
        elected = replace(wire.spec, epoch=Epoch(1), leader=SpuId(2), leader_incarnation=store.process)
        store.replica.use_spec(elected)
        store.running.cancel()
        with trio.fail_after(5):
            await store.dispatcher.leave(store.replica)


@pytest.mark.parametrize("what", ["the process ends", "the disk fails"])
async def test_effects_that_were_interrupted_commit_nothing(autojump_clock: object, what: str) -> None:
    async with wire_of(2, lrs_max_lag_ms="1000") as wire:
        leader, store = wire.stores[1], wire.stores[2]
        produce(leader, b"a")
        await trio.sleep(1)
        wire.part(2)
        for _ in range(5):
            produce(leader, b"b")
        await trio.sleep(5)
        assert leader.replica.high_watermark == 6, "it goes on alone"
        await leader.log.advance_log_start(5)
        assert leader.replica.replication is not None
        leader.replica.replication.on_deleted()
        store.files.sync_seconds = lambda: 2.0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.log.sync)  # the next append has to wait for it
            await trio.sleep(1)
            wire.join(2)
            await trio.sleep(0.5)
            if what == "the process ends":
                store.running.cancel()
        store.files.syncs_fail = True
        await trio.sleep(10)
        wire.part(2)
        await trio.sleep(1)
        assert (store.log.log_end, store.replica.high_watermark) == (1, 1)


async def test_after_compaction_no_removed_entry_is_sent(autojump_clock: object) -> None:
    configs = {"cleanup_policy": "compact", "segment_bytes": "1048576", "min_cleanable_dirty_ratio": "0"}
    async with wire_of(2, **configs) as wire:
        leader = wire.stores[1].replica
        for _ in range(30):
            produce(wire.stores[1], b"x" * 90_000)  # without a key, so that compaction removes them
        await wire.settle()
        assert isinstance(leader.replication, ReplicaController)
        wire.part(2)  # so that the leader is not idle, and keeps what it appended last
        before = list(leader.replication.entries.entries(0, leader.log.log_end))
        assert await leader.log.compact(1_900_000_000_000, leader.high_watermark) is not None
        after = list(leader.replication.entries.entries(0, leader.log.log_end))
        assert [entry.base for entry in after] == [header.base_offset for header, _ in leader.log.headers(0, 30)]
        assert len(after) < len(before) == 30


def _damage_header(store: Store, position: int) -> None:
    """Damages the header of the batch there."""
    directory = store.log.directory
    (name,) = (name for name in store.files.list(directory) if name.endswith(".log"))
    store.files.open(f"{directory}/{name}").write_at(position + 16, b"\x07")


async def test_that_a_sync_failed_is_remembered(autojump_clock: object) -> None:
    async with wire_of(3) as wire:
        store = wire.stores[2]
        produce(wire.stores[1], b"a")
        await wire.settle()
        store.files.syncs_fail = True
        with pytest.raises(OSError, match="broken"):
            await store.log.sync()
        store.files.syncs_fail = False
        store.replica.go_offline("sync failed")
        await wire.settle()
        assert Promises(store.files.after_kill(), "/data").has_disk_failed


async def test_a_leader_and_its_followers_open_no_third_segment_before_the_first_is_committed(
    autojump_clock: object,
) -> None:
    async with wire_of(3, internal_segment_bytes="100") as wire:
        produce(wire.stores[1], b"a")
        await trio.sleep(1)
        wire.part(3)
        for value in (b"b", b"c", b"d"):
            produce(wire.stores[1], value)
        await wire.settle()
        assert [[segment.base for segment in store.log.segments()] for store in wire.stores.values()] == [
            [0, 1, 2],
            [0, 1, 2],
            [0],
        ]
        wire.join(3)
        await trio.sleep(1)
        produce(wire.stores[1], b"e")
        await trio.sleep(1)
        leader, *followers = ([segment.base for segment in store.log.segments()] for store in wire.stores.values())
        assert leader == followers[0] == [0, 1, 2, 4]
        assert followers[1][-1] == 4


def _controller(store: Store) -> ReplicaController:
    assert isinstance(store.replica.replication, ReplicaController)
    return store.replica.replication


async def test_a_store_that_lost_power_is_not_sure_before_it_has_caught_up(autojump_clock: object) -> None:
    """This holds whether a replica leads or not."""
    async with wire_of(3) as wire:
        assert _controller(wire.stores[3]).is_sure and _controller(wire.stores[3]).promised == 0
        killed = wire.kill(3)
        led = wire.spec
        await wire.tell(replace(led, leader=NO_LEADER))
        store = await wire.restart(killed, "synced")
        assert not _controller(store).is_sure
        await wire.elect(1)
        await wire.settle()
        assert _controller(store).is_sure and _controller(store).promised == 1


async def test_a_log_that_is_being_changed_may_lack_something(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with wire_of(3, flush_messages="1") as wire:
        follower, was_sure = _controller(wire.stores[2]), []
        sync = Log.sync

        async def looking(self: Log) -> None:
            was_sure.append(follower.is_sure)
            await sync(self)

        monkeypatch.setattr(Log, "sync", looking)
        produce(wire.stores[1], b"a")
        await wire.settle()
        assert False in was_sure and follower.is_sure
