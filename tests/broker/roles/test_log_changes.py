"""The changes of the logs of a leader and its followers, and their order."""

import pytest
import replicating
import trio
from msgspec.structs import replace
from replicating import KEY, produce, wire_of
from transacting import write_data, write_marker

from tailrace.protocol.ids import SpuId
from tailrace.storage.directory.promises import Promises


async def test_a_promise_is_on_the_disk_before_the_leader_hears_of_it(autojump_clock: object) -> None:
    async with wire_of(3) as wire:
        assert wire.stores[2].replica.spec.epoch == 0
        for store in wire.stores.values():
            assert Promises(store.files.crash("synced"), "/data").epoch(KEY) == 0


async def test_a_follower_that_lacks_an_open_file_is_late(autojump_clock: object) -> None:
    """This holds wherever it runs out of files, with one segment for each batch."""
    async with wire_of(3, internal_segment_bytes="1", flush_messages="1") as wire:
        leader, files, done = wire.stores[1], wire.stores[3].files, 0
        for opens in range(12):
            files.opens_left = opens
            waiters = [produce(leader, b"%d" % number) for number in range(done, done + 3)]
            done += 3
            await leader.log.sync()
            assert leader.replica.replication is not None
            leader.replica.replication.on_synced()
            await trio.sleep(3)
            assert opens or waiters[-1].answer is None
            files.opens_left = None
            await trio.sleep(3)
            assert [waiter.answer for waiter in waiters] == [True] * 3, opens
            assert wire.stores[3].values() == [b"%d" % number for number in range(done)]
        assert wire.stores[3].replica.offline_reason is None
        assert set(wire.spec.live_replicas) == {1, 2, 3}


async def test_a_log_that_begins_at_the_leaders_log_start_has_the_producer_state(autojump_clock: object) -> None:
    """Otherwise a retry to the next leader would be stored twice."""
    async with wire_of(3) as wire:
        leader = wire.stores[1]
        produce(leader, b"a", producer_id=7, base_sequence=0)
        produce(leader, b"b", producer_id=8, base_sequence=0)
        await trio.sleep(1)
        store = wire.kill(3)
        await leader.replica.delete_records(2)
        produce(leader, b"c", producer_id=8, base_sequence=1)
        await wire.restart(store, keep="nothing")
        await trio.sleep(5)
        assert (wire.stores[3].log.log_start, wire.stores[3].values()) == (2, [b"c"])
        assert wire.stores[3].log.producers.snapshot() == leader.log.producers.snapshot()


async def test_a_checkpoint_does_not_outlive_truncated_entries(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This happens after an unclean election of a leader that lacks what was committed."""
    written: list[tuple[int, int]] = []

    async def write_high_watermarks() -> None:
        written.append((wire.stores[2].replica.high_watermark, wire.stores[2].log.log_end))

    monkeypatch.setattr(replicating, "no_checkpoint", write_high_watermarks)
    async with wire_of(3) as wire:
        wire.part(3)
        waiter = produce(wire.stores[1], b"a")
        await trio.sleep(20)
        assert waiter.answer is True
        assert wire.stores[2].replica.high_watermark == 1
        wire.kill(1)
        wire.join(3)
        live = {SpuId(3): wire.stores[3].incarnation}
        wire.spec = replace(wire.spec, was_unclean=True, live_incarnations=live, live_replicas=tuple(live))
        leader = await wire.elect(3)
        produce(leader, b"b")
        await trio.sleep(2)
        assert wire.stores[2].values() == [b"b"]
    assert written == [(0, 1)]


async def test_followers_know_the_transactions_of_their_leader(autojump_clock: object) -> None:
    """Also one whose log begins within a transaction, because the records before were deleted."""
    async with wire_of(3) as wire:
        leader = wire.stores[1]
        write_data(leader.replica, 7, b"aborted")
        write_data(leader.replica, 8, b"open")
        produce(leader, b"a")
        await trio.sleep(1)
        store = wire.kill(3)
        await leader.replica.delete_records(3)
        write_data(leader.replica, 7, b"aborted")
        write_marker(leader.replica, 7)
        produce(leader, b"b")
        await wire.restart(store, keep="nothing")
        await trio.sleep(5)
        assert [each.log.log_start for each in wire.stores.values()] == [3, 3, 3]
        for each in wire.stores.values():
            assert each.log.producers.snapshot() == leader.log.producers.snapshot()
            assert each.replica.last_stable_offset == 3, "producer 8 has an open transaction"
        write_marker(leader.replica, 8, is_commit=True)
        produce(leader, b"c")
        await trio.sleep(1)
        for each in wire.stores.values():
            assert each.replica.last_stable_offset == leader.log.log_end == 8
            found = each.log.transactions.aborted(3, 8)
            assert [(one.producer_id, one.last_offset) for one in found] == [(7, 4)]
