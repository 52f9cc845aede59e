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


async def test_what_has_to_wait_for_a_slow_follower_is_read_again_when_it_leaves(autojump_clock: object) -> None:
    async with wire_of(3) as wire:
        leader = wire.stores[1]
        leader.peers.slow.add(wire.stores[3].spu)
        produce(leader, b"a")
        await wire.settle()
        assert leader.peers.copied == [wire.stores[2].spu]
        assert [store.values() for store in wire.stores.values()] == [[b"a"]] * 3


async def test_a_follower_that_lacks_what_is_deleted_does_not_wait_for_it(autojump_clock: object) -> None:
    """Nor is it led through all of that, though the leader still knows what was there."""
    async with wire_of(2, lrs_max_lag_ms="1000") as wire:
        leader, follower = wire.stores.values()
        wire.cut.add(follower.spu)  # its link is there, and nothing gets through
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
    """It has not heard of the election, but its followers have."""
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
            wire.cut.add(wire.stores[3].spu)  # its link is there, and nothing gets through
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


async def test_how_far_a_follower_is_behind_is_told_also_while_it_is_away(autojump_clock: object) -> None:
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


async def test_what_the_next_leader_has_beyond_the_high_watermark_is_stamped_and_ends_with_a_bridge(
    autojump_clock: object,
) -> None:
    async with wire_of(3) as wire:
        produce(wire.stores[1], b"a")
        await wire.settle()  # committed, and the followers have not been told
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


async def test_who_has_much_to_look_through_before_it_leads_lets_others_go_on(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the Streaming Controller waits until it is done."""
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


async def test_a_log_that_does_not_say_how_it_goes_on_is_not_looked_through_for_ever(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
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


async def test_with_flush_messages_1_what_is_acknowledged_is_on_all_disks(autojump_clock: object) -> None:
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
    """Also if several leaders come and go until then."""
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
    """The third of three leads, lacks what the second has, and is not given it."""
    wire.part(3)
    produce(wire.stores[1], b"a")
    await wire.settle()
    wire.kill(1)
    wire.join(3)
    wire.hands_over = 0
    return await wire.elect(3)


async def test_who_waits_for_what_it_lacks_makes_nobody_else_wait(autojump_clock: object) -> None:
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


async def test_who_has_much_to_fetch_before_it_leads_says_that_it_will(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else another would be elected meanwhile, and begin anew."""
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


async def test_a_seal_that_is_said_again_while_the_log_is_looked_through_is_answered_once(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a long log would be read at once for each of them, while nobody else is heard."""
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
    """Calls something before the first step of a task by this name from a moment on."""

    def __init__(self, name: str, moment: float, call: Callable[[], None]) -> None:
        self.called = False
        self._name = name
        self._moment = moment
        self._call = call

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if not self.called and self._name in task.name and trio.current_time() >= self._moment:
            self.called = True
            self._call()


async def test_what_is_handed_over_when_the_time_for_it_ends_was_handed_over(autojump_clock: object) -> None:
    """As after a process stood still: that the time is over and that it has come is then news of the same moment."""
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
    """Each batch that recovery appends is one for itself."""
    monkeypatch.setattr(leader_controller, "LIMITS", LeaderLimits(recovered_bytes_max=1))


async def test_what_was_handed_over_need_not_be_handed_over_again(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much it is, and however often it is broken off: it comes to an end."""
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


async def test_no_more_is_asked_for_at_once_than_one_answer_takes(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or it would never be handed over, and nobody could lead."""
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


async def test_who_is_taken_away_while_it_waits_for_what_it_lacks_looks_at_its_log_no_more(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is closed soon, and what that looks like is no disk that has failed."""
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


async def test_what_was_handed_over_before_its_store_was_lost_takes_the_place_of_nothing(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody who answers has it any more: the bridge stands where it would have been."""
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
    """Returns what is set when they are deleted for good."""
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


async def test_what_only_some_have_deleted_the_next_leader_deletes_everywhere(autojump_clock: object) -> None:
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


async def test_who_waits_for_a_deletion_is_told_that_another_leads(autojump_clock: object) -> None:
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
