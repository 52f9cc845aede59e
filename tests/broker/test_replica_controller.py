from dataclasses import replace

import pytest
import trio
from replicating import KEY, produce, wire_of

from tailrace.cluster.specs import NO_LEADER
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.ids import Epoch
from tailrace.storage.promises import Promises


async def test_a_promise_is_on_the_disk_before_the_leader_hears_of_it(autojump_clock: object) -> None:
    async with wire_of(3) as wire:
        assert wire.stores[2].replica.spec.epoch == 0
        for store in wire.stores.values():
            assert Promises(store.files.crash("synced"), "/data").epoch(KEY) == 0


async def test_with_a_disk_that_fails_a_follower_leaves_and_the_others_go_on(autojump_clock: object) -> None:
    async with wire_of(3, lrs_max_lag_ms="2000") as wire:
        wire.stores[3].files.room_bytes = 0
        waiter = produce(wire.stores[1], b"a")
        await trio.sleep(5)
        assert wire.stores[3].replica.offline_reason is not None
        assert set(wire.spec.live_replicas) == {1, 2}
        assert waiter.answer is True


async def test_nobody_leads_by_an_epoch_that_was_given_to_the_process_before(autojump_clock: object) -> None:
    async with wire_of(3) as wire:
        store = wire.kill(1)
        back = await wire.restart(store)
        await wire.settle()
        assert wire.spec.leader == back.spu
        assert not back.replica.is_leader
        with pytest.raises(KafkaError, match="does not lead"):
            raise back.replica.not_leader()


async def test_a_partition_without_a_leader_is_led_by_nobody(autojump_clock: object) -> None:
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


async def test_an_idle_partition_says_nothing_and_has_no_timer(autojump_clock: object) -> None:
    async with wire_of(3) as wire:
        produce(wire.stores[1], b"a")
        await trio.sleep(5)
        told = wire.told
        await trio.sleep(3600)
        assert wire.told == told
