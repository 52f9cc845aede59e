from collections.abc import Callable
from contextlib import suppress

import pytest
import trio
from msgspec.structs import replace
from replicating import KEY, Store, Wire, WirePeers, code_of, logs, produce, wire_of
from structlog.testing import capture_logs

from tailrace.broker.descriptions.replica_counts import lags_of_followers
from tailrace.broker.peers.peer_codec import read_batches
from tailrace.broker.peers.peer_messages import FetchedEntries, FetchEntries, PeerMessage, RecordsToSend
from tailrace.broker.replicas import replica_log
from tailrace.broker.replicas.topic_settings import settings_of
from tailrace.broker.replication.leader import LeaderLimits
from tailrace.broker.replication.messages import Seal, SealReply
from tailrace.broker.roles import leader_controller
from tailrace.broker.roles.leader_controller import FETCH_SECONDS_MAX
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import Epoch, SpuId
from tailrace.storage.directory.checkpoints import ReplicaKey, SavedHighWatermark


async def test_a_leader_that_is_lost_is_followed_by_one_that_has_all(autojump_clock: object) -> None:
    async with wire_of(3) as wire:
        first = produce(wire.stores[1], b"a")
        await wire.settle()
        produce(wire.stores[1], b"b")
        wire.kill(1)
        leader = await wire.elect(2)
        wire.offline(1)
        await wire.settle()
        second = produce(leader, b"c")
        await trio.sleep(1)
        assert (first.answer, second.answer) == (True, True)
        assert set(wire.spec.live_replicas) == {2, 3}
        assert leader.values()[0] == b"a"
        assert leader.values()[-1] == b"c"
        assert wire.stores[2].values() == wire.stores[3].values()


async def test_batches_that_wait_for_a_slow_follower_are_read_when_they_leave(autojump_clock: object) -> None:
    async with wire_of(3) as wire:
        leader = wire.stores[1]
        leader.peers.slow.add(wire.stores[3].spu)
        produce(leader, b"a")
        await wire.settle()
        assert leader.peers.copied == [wire.stores[2].spu]
        assert [store.values() for store in wire.stores.values()] == [[b"a"]] * 3


async def test_a_follower_that_lacks_deleted_records_does_not_wait_for_them(autojump_clock: object) -> None:
    """It is not sent these records either, although the leader still knows what was there."""
    async with wire_of(2, lrs_max_lag_ms="1000") as wire:
        leader, follower = wire.stores.values()
        wire.cut.add(follower.spu)  # the link exists, but nothing gets through
        for _ in range(40):
            produce(leader, bytes(300_000))
        await trio.sleep(3)
        assert leader.replica.high_watermark == 40
        await leader.replica.delete_records(40)
        wire.cut.discard(follower.spu)
        await trio.sleep(1)
        assert (follower.log.log_start, follower.log.log_end) == (40, 40)
        assert set(wire.spec.live_replicas) == {1, 2}


async def test_a_deposed_leader_acknowledges_nothing(autojump_clock: object) -> None:
    """The leader does not know about the election, but its followers do."""
    async with wire_of(3) as wire:
        old = wire.stores[1]
        wire.deaf.add(old.spu)
        await wire.elect(2)
        waiter = produce(old, b"late")
        await trio.sleep(1)
        assert code_of(waiter.answer) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert wire.stores[2].values() == []


async def test_a_follower_that_lags_leaves_the_live_replicas_and_enters_again_and_the_log_says_why(
    autojump_clock: object,
) -> None:
    with capture_logs() as logged:
        async with wire_of(3, lrs_max_lag_records="5", lrs_max_lag_ms="60000") as wire:
            leader = wire.stores[1]
            produce(leader, b"0")
            await trio.sleep(1)
            wire.cut.add(wire.stores[3].spu)  # the link exists, but nothing gets through
            for number in range(6):
                waiter = produce(leader, b"%d" % number)
                await wire.settle()
                assert (waiter.answer, len(wire.spec.live_replicas)) == ((None, 3) if number < 5 else (True, 2))
            wire.part(3)
            wire.join(3)
            await wire.settle()
            assert set(wire.spec.live_replicas) == {1, 2, 3}
            wire.kill(2)
            wire.offline(2)
            await wire.settle()
    events = [
        (each["event"], each["follower"], each.get("reason")) for each in logged if "live_replica_" in each["event"]
    ]
    assert events == [
        ("live_replica_left", 3, "its log end lags too far"),
        ("live_replica_entered", 3, None),
        ("live_replica_left", 2, "it is lost, or its disk has failed"),
    ]


async def test_the_lag_of_a_lost_follower_is_known(autojump_clock: object) -> None:
    async with wire_of(3) as wire:
        leader = wire.stores[1]
        produce(leader, b"a")
        await trio.sleep(1)
        away = wire.kill(3)
        wire.offline(3)
        for value in (b"b", b"c"):
            produce(leader, value)
        await wire.settle()
        assert lags_of_followers(leader.replica) == {wire.stores[2].spu: 0, away.spu: 2}
        await wire.restart(away)
        await trio.sleep(1)
        assert set(lags_of_followers(leader.replica).values()) == {0}


@pytest.mark.parametrize("policy", ["majority", "nrw:3,2,2"])
@pytest.mark.parametrize("is_long", [False, True])
async def test_a_quorum_recovers_what_its_leader_lacks(
    autojump_clock: object, policy: str, is_long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_long:
        monkeypatch.setattr(replica_log, "SCANNED_PER_TURN", 1)
    async with wire_of(3, replication_policy=policy) as wire:
        produce(wire.stores[1], b"a")
        await trio.sleep(1)
        wire.part(3)
        waiter = produce(wire.stores[1], b"b" * 300_000)
        produce(wire.stores[1], b"c")
        await wire.settle()
        assert waiter.answer is True
        wire.kill(1)
        wire.join(3)
        leader = await wire.elect(3)
        wire.offline(1)
        await trio.sleep(1)
        assert leader.values() == wire.stores[2].values() == [b"a", b"b" * 300_000, b"c"]
        waiter = produce(leader, b"d")
        await trio.sleep(1)
        assert waiter.answer is True


async def test_the_next_leader_stamps_what_it_has_beyond_the_high_watermark_and_adds_a_bridge(
    autojump_clock: object,
) -> None:
    async with wire_of(3) as wire:
        produce(wire.stores[1], b"a")
        await wire.settle()  # committed, and the followers do not know yet
        wire.kill(1)
        leader = await wire.elect(2)
        wire.offline(1)
        await trio.sleep(1)
        assert [header.leader_epoch for header, _ in leader.log.headers(0, leader.log.log_end)] == [1, 1]
        assert leader.log.log_end == 2
        assert leader.replica.high_watermark == 2
        assert not leader.replica.is_recovering
        waiter = produce(leader, b"b")
        await wire.settle()
        assert waiter.answer is True
        assert logs(wire) == [[b"a", b"b"]] * 2


async def test_a_long_scan_before_leading_does_not_delay_others(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SC waits until the scan is done."""
    monkeypatch.setattr(replica_log, "SCANNED_PER_TURN", 2)
    async with wire_of(2) as wire:
        produce(wire.stores[1], b"a")
        await trio.sleep(1)
        old = wire.kill(2)
        values = [b"%d" % number for number in range(9)]
        for value in values:
            produce(wire.stores[1], value)
        leader = await wire.restart(wire.kill(1), saved=SavedHighWatermark(1, Epoch(0)))
        wire.spec = replace(wire.spec, leader_incarnation=leader.process, epoch=Epoch(1))
        leader.replica.use_spec(wire.spec)
        assert not leader.replica.is_leader
        leader.replica.use_spec(replace(wire.spec, version=wire.spec.version + 1))
        await leader.dispatcher.attend(leader.replica)
        assert leader.replica.is_leader and not leader.replica.is_merging
        assert leader.replica.taken_over_end == leader.log.log_end == 11
        assert [header.leader_epoch for header, _ in leader.log.headers(1, leader.log.log_end)] == [1] * 10
        await wire.restart(old)
        await trio.sleep(5)
        assert leader.values() == wire.stores[2].values() == [b"a", *values]
        assert not leader.replica.is_recovering


async def test_a_scan_of_an_unreadable_log_ends(autojump_clock: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_log, "SCANNED_PER_TURN", 2)
    looked_from: list[int] = []
    scan_in_turns = replica_log.ReplicaLog.scan_in_turns

    async def counting(entries: replica_log.ReplicaLog, start: int) -> bool:
        looked_from.append(start)
        assert len(looked_from) < 9
        return await scan_in_turns(entries, start)

    monkeypatch.setattr(replica_log.ReplicaLog, "scan_in_turns", counting)
    async with wire_of(1) as wire:
        for number in range(9):
            produce(wire.stores[1], b"%d" % number)
        leader = await wire.restart(wire.kill(1), saved=SavedHighWatermark(1, Epoch(0)))
        (flipped,) = leader.log.read_batches(4, 5)
        flipped.file.write_at(flipped.position, bytes(8))
        spec = replace(wire.spec, replicas=(leader.spu, SpuId(2)), leader_incarnation=leader.process, epoch=Epoch(1))
        leader.replica.use_spec(spec)
        await leader.dispatcher.attend(leader.replica)
        assert looked_from == [1]
        assert "the batch at offset 0 is out of place" in str(leader.replica.offline_reason)


async def test_with_flush_messages_1_acknowledged_records_are_on_all_disks(autojump_clock: object) -> None:
    async with wire_of(3, flush_messages="1") as wire:
        waiter = produce(wire.stores[1], b"a")
        await wire.settle()
        assert waiter.answer is None
        await wire.stores[1].log.sync()
        assert wire.stores[1].replica.replication is not None
        wire.stores[1].replica.replication.on_synced()
        await wire.settle()
        assert waiter.answer is True
        assert [store.log.synced_end for store in wire.stores.values()] == [1, 1, 1]


async def test_flush_messages_counts_from_the_moment_it_is_altered(autojump_clock: object) -> None:
    async with wire_of(3) as wire:
        leader = wire.stores[1]
        assert leader.replica.replication is not None
        produce(leader, b"a")
        await trio.sleep(1)
        await leader.log.sync()
        for flush_messages in ("1", "1000"):
            settings = settings_of({"flush.messages": flush_messages}, BrokerConfigs({}))
            for store in wire.stores.values():
                store.replica.use_settings(settings)
            waiter = produce(leader, b"b")
            await trio.sleep(1)
            if flush_messages == "1":
                assert waiter.answer is None
                await leader.log.sync()
                leader.replica.replication.on_synced()
                await wire.settle()
                assert [store.log.synced_end for store in wire.stores.values()] == [2, 2, 2]
            assert waiter.answer is True
        assert [store.log.synced_end for store in wire.stores.values()] == [2, 2, 2]


async def test_a_store_that_lost_its_disk_does_not_count_until_it_has_caught_up(autojump_clock: object) -> None:
    """This holds even if several leaders come and go before it has caught up."""
    async with wire_of(3, replication_policy="majority") as wire:
        produce(wire.stores[1], b"a")
        await trio.sleep(1)
        wire.part(3)
        waiter = produce(wire.stores[1], b"b")
        await trio.sleep(1)
        assert waiter.answer is True
        first = wire.kill(1)
        wire.kill(2)
        await wire.start(2)
        wire.join(3)
        leader = await wire.elect(3)
        await trio.sleep(5)
        assert leader.replica.is_merging
        await wire.restart(first)
        await trio.sleep(5)
        assert leader.values() == wire.stores[2].values() == [b"a", b"b"]


async def _elected_without_all(wire: Wire) -> Store:
    """The third of three replicas leads, lacks what the second has, and does not get it."""
    wire.part(3)
    produce(wire.stores[1], b"a")
    await wire.settle()
    wire.kill(1)
    wire.join(3)
    wire.hands_over = 0
    return await wire.elect(3)


async def test_a_leader_that_waits_for_missing_entries_delays_no_other(autojump_clock: object) -> None:
    async with wire_of(3, replication_policy="majority") as wire:
        leader = await _elected_without_all(wire)
        await trio.sleep(1)
        assert leader.replica.is_merging
        begun = trio.current_time()
        await wire.elect(2)
        await trio.sleep(1)
        assert produce(wire.stores[2], b"b") is not None
        await wire.settle()
        assert leader.values() == wire.stores[2].values() == [b"a", b"b"]
        await wire.elect(3)
        await leader.dispatcher.leave(leader.replica)
        assert trio.current_time() < begun + 2


async def test_a_leader_with_much_to_fetch_announces_itself(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise another replica would be elected meanwhile, and would start again."""
    monkeypatch.setattr(leader_controller, "LIMITS", LeaderLimits(recovered_entries_max=2))
    async with wire_of(3, replication_policy="majority") as wire:
        wire.part(3)
        for value in (b"a", b"b", b"c"):
            produce(wire.stores[1], value)
        await wire.settle()
        wire.kill(1)
        wire.join(3)
        wire.hands_over = 0
        before = wire.spec.version
        leader = await wire.elect(3)
        assert leader.replica.is_merging and wire.spec.version == before + 1
        assert set(wire.spec.live_replicas) == {1, 2, 3}
        wire.hands_over = 9
        await trio.sleep(FETCH_SECONDS_MAX + 1)
        assert leader.values() == [b"a", b"b", b"c"]


async def test_a_repeated_seal_during_a_scan_is_answered_once(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a long log would be read at once for each of them, while no other message is handled."""
    monkeypatch.setattr(replica_log, "SCANNED_PER_TURN", 2)
    said: list[PeerMessage] = []
    to_leader = WirePeers.send_to_leader

    def listening(
        self: WirePeers, spu: SpuId, key: ReplicaKey, message: PeerMessage, records: RecordsToSend | None = None
    ) -> None:
        said.append(message)
        to_leader(self, spu, key, message, records)

    async with wire_of(3, replication_policy="majority") as wire:
        wire.part(3)
        for number in range(9):
            produce(wire.stores[1], b"%d" % number)
        await wire.settle()
        wire.kill(1)
        store = await wire.restart(wire.kill(2), saved=SavedHighWatermark(0, Epoch(0)))
        wire.spec = replace(wire.spec, leader=SpuId(3), leader_incarnation="it", epoch=Epoch(1))
        store.replica.use_spec(wire.spec)
        await wire.settle()
        monkeypatch.setattr(WirePeers, "send_to_leader", listening)
        for _ in range(3):
            store.dispatcher.on_message(SpuId(3), True, KEY, Seal(Epoch(1), entries_from=0), None)
        await wire.settle()
        assert [len(reply.entries) for reply in said if isinstance(reply, SealReply)] == [9]


class _BeforeStepOf(trio.abc.Instrument):
    """Calls a function before the first step of a task with this name from some moment on."""

    def __init__(self, name: str, moment: float, call: Callable[[], None]) -> None:
        self.called = False
        self._name = name
        self._moment = moment
        self._call = call

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if not self.called and self._name in task.name and trio.current_time() >= self._moment:
            self.called = True
            self._call()


async def test_entries_that_arrive_at_the_timeout_count(autojump_clock: object) -> None:
    """After a process was stopped, the timeout and the arrival are seen at the same moment."""
    async with wire_of(3, replication_policy="majority") as wire:
        leader, holder = await _elected_without_all(wire), wire.stores[2]
        epoch, asked_at = leader.replica.spec.epoch, trio.current_time()

        def hand_over() -> None:
            (found,) = holder.log.read_batches(0, 1)
            _, batches = read_batches(memoryview(found.read()), epoch, 0, None)
            leader.dispatcher.on_message(holder.spu, False, leader.replica.key, FetchedEntries(epoch, 0), batches)

        late = _BeforeStepOf("_carry_out_in_task", asked_at + FETCH_SECONDS_MAX, hand_over)
        trio.lowlevel.add_instrument(late)
        await trio.sleep(FETCH_SECONDS_MAX + 1)
        trio.lowlevel.remove_instrument(late)
        assert late.called
        assert leader.values() == holder.values() == [b"a"]


def in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes recovery append each batch in its own portion."""
    monkeypatch.setattr(leader_controller, "LIMITS", LeaderLimits(recovered_bytes_max=1))


async def test_entries_fetched_once_are_not_fetched_again(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recovery ends, however much has to be fetched and however often it is interrupted."""
    in_portions(monkeypatch)
    async with wire_of(3, replication_policy="majority") as wire:
        wire.part(3)
        values = [b"%d" % number for number in range(5)]
        for value in values:
            produce(wire.stores[1], value)
        await wire.settle()
        wire.kill(1)
        wire.join(3)
        wire.hands_over = 0
        leader = await wire.elect(3)
        for count in range(1, len(values)):
            wire.hands_over = 1
            await trio.sleep(FETCH_SECONDS_MAX + 0.1)
            assert leader.values() == values[:count]
            assert leader.replica.is_merging
        wire.hands_over = 1
        leader = await wire.elect(3)
        await trio.sleep(1)
        assert leader.values() == wire.stores[2].values() == values
        assert not leader.replica.is_recovering


async def test_no_request_asks_for_more_than_a_response_can_hold(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would never be sent, and no replica could lead."""
    asked: list[tuple[int, int]] = []
    send_to_follower = WirePeers.send_to_follower

    def listening(
        self: WirePeers, spu: SpuId, key: ReplicaKey, message: PeerMessage, records: RecordsToSend | None = None
    ) -> None:
        if isinstance(message, FetchEntries):
            asked.append((message.start, message.end))
        send_to_follower(self, spu, key, message, records)

    async with wire_of(3, replication_policy="majority") as wire:
        wire.part(3)
        values = [b"%d" % number for number in range(5)]
        for value in values:
            produce(wire.stores[1], value)
        await wire.settle()
        (found,) = wire.stores[1].log.read_batches(0, 2)
        monkeypatch.setattr(leader_controller, "RECORDS_BYTES_MAX", found.count + 1)
        monkeypatch.setattr(WirePeers, "send_to_follower", listening)
        wire.kill(1)
        wire.join(3)
        leader = await wire.elect(3)
        assert asked == [(0, 2), (2, 4), (4, 5)]
        assert leader.values() == values


async def test_a_replica_removed_during_recovery_does_not_read_its_log_any_more(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log is closed soon, and reading it would look like a failed disk."""
    in_portions(monkeypatch)
    monkeypatch.setattr(replica_log, "SCANNED_PER_TURN", 1)
    async with wire_of(3, replication_policy="majority") as wire:
        wire.part(3)
        for number in range(30):
            produce(wire.stores[1], b"%d" % number)
        await wire.settle()
        wire.kill(1)
        wire.join(3)
        wire.hands_over = 25
        leader = await wire.elect(3)
        assert len(leader.values()) == 25
        await leader.dispatcher.leave(leader.replica)
        await leader.replica.close()
        await wire.settle()
        assert leader.replica.offline_reason is None


async def test_entries_fetched_from_a_store_that_was_then_lost_replace_nothing(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No store that responds has the entries any more, so the bridge stands in their place."""
    in_portions(monkeypatch)
    async with wire_of(3, replication_policy="majority") as wire:
        produce(wire.stores[1], b"a")
        await wire.settle()
        wire.part(2)
        wire.part(3)
        produce(wire.stores[1], b"b", b"b")
        produce(wire.stores[1], b"c")
        wire.join(2)
        wire.hands_over = 1
        leader = await wire.elect(2)
        wire.kill(1)
        wire.join(3)
        await wire.tell(wire.spec)
        await trio.sleep(10)
        produce(leader, b"d")
        await trio.sleep(1)
        assert leader.values() == wire.stores[3].values() == [b"a", b"b", b"b", b"d"]


async def delete(store: Store, end: int) -> trio.Event:
    """Returns an event that is set when the records are deleted for good."""
    await store.log.advance_log_start(end)
    assert store.replica.replication is not None
    store.replica.replication.on_deleted()
    done, epoch = trio.Event(), store.replica.spec.epoch

    async def wait() -> None:
        with suppress(KafkaError):
            await store.replica.wait_until_deleted(end, epoch)
            done.set()

    store.wire.nursery.start_soon(wait)
    return done


async def test_records_are_deleted_for_good_when_every_live_replica_has_deleted_them(autojump_clock: object) -> None:
    async with wire_of(3) as wire:
        for value in (b"a", b"b"):
            produce(wire.stores[1], value)
        await trio.sleep(1)
        wire.part(3)
        done = await delete(wire.stores[1], 1)
        await trio.sleep(1)
        assert not done.is_set()
        assert wire.stores[2].log.log_start == 1
        wire.join(3)
        await trio.sleep(1)
        assert done.is_set()
        assert [store.log.log_start for store in wire.stores.values()] == [1, 1, 1]


async def test_the_next_leader_completes_a_deletion(autojump_clock: object) -> None:
    async with wire_of(3) as wire:
        for value in (b"a", b"b"):
            produce(wire.stores[1], value)
        await trio.sleep(1)
        wire.part(3)
        await delete(wire.stores[1], 1)
        await trio.sleep(1)
        wire.join(3)
        leader = await wire.elect(3)
        await trio.sleep(1)
        assert [store.log.log_start for store in wire.stores.values()] == [1, 1, 1]
        assert leader.replica.deleted_end() == 1


async def test_a_request_that_waits_for_a_deletion_learns_that_another_leads(autojump_clock: object) -> None:
    async with wire_of(2) as wire:
        produce(wire.stores[1], b"a")
        await trio.sleep(1)
        wire.part(2)
        codes: list[ErrorCode] = []

        async def wait() -> None:
            with pytest.raises(KafkaError) as refused:
                replica = wire.stores[1].replica
                await replica.wait_until_deleted(1, replica.spec.epoch)
            codes.append(code_of(refused.value))

        wire.nursery.start_soon(wait)
        await trio.sleep(1)
        wire.join(2)
        await wire.elect(2)
        assert codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
