from replicating import KEY, code_of, logs, produce, wire_of

from tailrace.protocol.error_codes import ErrorCode


async def test_appends_of_a_leader_are_soon_on_all_stores_and_committed(autojump_clock: object) -> None:
    async with wire_of(3) as wire:
        leader = wire.stores[1]
        waiter = produce(leader, b"a", b"b")
        assert waiter.answer is None
        await wire.settle()
        assert waiter.answer is True
        assert logs(wire) == [[b"a", b"b"]] * 3
        assert leader.replica.high_watermark == 2


async def test_after_a_clean_handover_there_is_no_bridge(autojump_clock: object) -> None:
    async with wire_of(3) as wire:
        produce(wire.stores[1], b"a")
        await wire.settle()
        await wire.stores[1].dispatcher.hand_over()
        wire.kill(1)
        leader = await wire.elect(2)
        wire.offline(1)
        await wire.settle()
        assert leader.log.log_end == leader.replica.high_watermark == 1
        assert produce(leader, b"b") is not None


async def test_a_leader_that_cannot_read_for_its_followers_stops_leading(autojump_clock: object) -> None:
    async with wire_of(3) as wire:
        leader = wire.stores[1]
        waiter = produce(leader, b"a")
        leader.dispatcher.on_unreadable(KEY, "it cannot be read")
        assert leader.replica.is_leader, "others are just being sent something"
        await wire.settle()
        assert not leader.replica.is_leader
        assert leader.replica.offline_reason == "it cannot be read"
        assert code_of(waiter.answer) == ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_leader_that_hands_over_appends_nothing_more(autojump_clock: object) -> None:
    async with wire_of(3) as wire:
        waiter = produce(wire.stores[1], b"a")
        await wire.stores[1].dispatcher.hand_over()
        assert waiter.answer is True
        assert not wire.stores[1].replica.is_leader
