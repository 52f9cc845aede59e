from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from replicating import KEY, Wire, code_of, logs, produce, wire_of
from structlog.testing import capture_logs

from tailrace.broker.replication.copying import CopyLimits
from tailrace.broker.replication.leader import LeaderLimits
from tailrace.broker.roles import leader_controller
from tailrace.protocol.error_codes import ErrorCode
from tailrace.storage.directory.promises import Promises


async def test_followers_learn_what_is_committed_without_further_appends(autojump_clock: object) -> None:
    async with wire_of(3) as wire:
        produce(wire.stores[1], b"a")
        await wire.settle()
        await trio.sleep(1)
        assert [store.replica.high_watermark for store in wire.stores.values()] == [1, 1, 1]


async def test_a_returning_leader_truncates_what_no_other_store_has(autojump_clock: object) -> None:
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


async def test_a_returning_follower_catches_up_and_is_live_again(autojump_clock: object) -> None:
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


@asynccontextmanager
async def _wire_of_small_portions(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Wire]:
    """Three stores; a follower that lacks a kilobyte copies it."""
    monkeypatch.setattr(leader_controller, "LIMITS", LeaderLimits(append_bytes_max=300, appends_in_flight_max=2))
    async with wire_of(3) as wire:
        wire.copy_limits = CopyLimits(lacking_bytes_min=1000, portion_bytes_max=500)
        yield wire


async def _write_while_one_is_away(wire: Wire) -> None:
    wire.kill(3)
    for number in range(200):
        produce(wire.stores[1], b"%d" % number)
    wire.offline(3)
    await trio.sleep(1)


async def test_a_follower_that_lacks_a_lot_copies_nearly_all_from_another_follower(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _wire_of_small_portions(monkeypatch) as wire:
        wire.portion_seconds = 0.01
        wire.kill(3)
        wire.offline(3)
        await wire.settle()
        for number in range(200):
            produce(wire.stores[1], b"%d" % number)
        await trio.sleep(1)  # until SPU 2 knows that it is committed
        with capture_logs() as logged:
            back = await wire.start(3)
            waiter = produce(wire.stores[1], b"last")
            await trio.sleep(1)
        assert back.values() == [*(b"%d" % number for number in range(200)), b"last"]
        assert set(wire.spec.live_replicas) == {1, 2, 3}
        assert waiter.answer is True
        began, ended = (event for event in logged if event["event"] in ("copy_began", "copy_ended"))
        assert (began["copied_from"], ended["copied_from"], ended["reason"]) == (2, [2], "done")
        assert ended["records"] > 150
        assert wire.handed_over == {2}
        by_leader = wire.stores[1].metrics.caught_up_bytes
        assert by_leader + ended["bytes"] < 1.2 * back.log.size_bytes


async def test_when_the_other_one_goes_its_leader_sends_the_rest(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _wire_of_small_portions(monkeypatch) as wire:
        wire.portions_left = 2
        await _write_while_one_is_away(wire)
        with capture_logs() as logged:
            back = await wire.start(3)
            await trio.sleep(1)
        assert back.values() == [b"%d" % number for number in range(200)]
        assert set(wire.spec.live_replicas) == {1, 2, 3}
        (ended,) = (event for event in logged if event["event"] == "copy_ended")
        assert ended["reason"] == "no source has more"
        assert wire.stores[1].metrics.caught_up_bytes > ended["bytes"] > 500


async def test_a_new_leader_does_not_wait_for_a_copy(autojump_clock: object, monkeypatch: pytest.MonkeyPatch) -> None:
    async with _wire_of_small_portions(monkeypatch) as wire:
        wire.portion_seconds = 2.0
        await _write_while_one_is_away(wire)
        with capture_logs() as logged:
            back = await wire.start(3)
            await trio.sleep(3)
            assert 0 < back.log.log_end < 100
            await wire.elect(2)
            wire.portion_seconds = 0.0
            await trio.sleep(5)
        assert back.values() == [b"%d" % number for number in range(200)]
        assert [event["reason"] for event in logged if event["event"] == "copy_ended"][:1] in (
            ["this replica does not follow this leader any more"],
            ["another epoch has begun"],
        )
