import trio
from replicating import KEY, code_of, logs, produce, wire_of

from tailrace.protocol.error_codes import ErrorCode
from tailrace.storage.promises import Promises


async def test_followers_learn_what_is_committed_though_nothing_more_is_appended(autojump_clock: object) -> None:
    async with wire_of(3) as wire:
        produce(wire.stores[1], b"a")
        await wire.settle()
        await trio.sleep(1)
        assert [store.replica.high_watermark for store in wire.stores.values()] == [1, 1, 1]


async def test_the_one_that_led_comes_back_and_gives_up_what_nobody_else_has(autojump_clock: object) -> None:
    async with wire_of(3) as wire:
        produce(wire.stores[1], b"a")
        await trio.sleep(1)
        wire.part(1)
        lost = produce(wire.stores[1], b"lost", b"lost as well")
        await wire.elect(2)
        wire.offline(1)
        await wire.settle()
        produce(wire.stores[2], b"b")
        await trio.sleep(1)
        assert lost.answer is None
        wire.join(1)
        await wire.tell(wire.spec)
        await trio.sleep(1)
        assert code_of(lost.answer) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert logs(wire) == [[b"a", b"b"]] * 3
        assert set(wire.spec.live_replicas) == {1, 2, 3}


async def test_a_follower_that_was_away_catches_up_and_is_live_again(autojump_clock: object) -> None:
    async with wire_of(3) as wire:
        store = wire.kill(3)
        wire.offline(3)
        await wire.settle()
        assert set(wire.spec.live_replicas) == {1, 2}
        for number in range(50):
            produce(wire.stores[1], b"%d" % number)
        await wire.settle()
        back = await wire.restart(store)
        await trio.sleep(1)
        assert back.values() == [b"%d" % number for number in range(50)]
        assert set(wire.spec.live_replicas) == {1, 2, 3}


async def test_a_follower_that_lost_power_is_live_again_only_when_what_it_has_is_on_its_disk(
    autojump_clock: object,
) -> None:
    async with wire_of(3) as wire:
        produce(wire.stores[1], b"a")
        await trio.sleep(1)
        store = wire.kill(3)
        back = await wire.restart(store, "synced")
        await trio.sleep(1)
        assert wire.spec.live_incarnations[back.spu] == back.incarnation
        assert not Promises(back.files.crash("synced"), "/data").is_in_doubt(KEY)
        assert back.log.synced_end == back.log.log_end == 1
