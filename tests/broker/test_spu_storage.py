"""How an SPU takes its data directory, and how it leaves it."""

import itertools
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import structlog
import trio
from msgspec.structs import replace
from simulation.files import SimulatedFiles
from spus import World, running_spu
from structlog.testing import capture_logs

from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.broker.spu_server import SpuServer
from tailrace.broker.spu_storage import SpuStorage, StartError, take_storage
from tailrace.cluster.cluster import Cluster
from tailrace.protocol.ids import SpuId

DATA = "/data/spu-1"


async def _take(world: World, held: ExitStack, files: SimulatedFiles | None = None) -> SpuStorage:
    seams = replace(world.seams(), files=files or world.files)
    return await take_storage(SpuId(1), DATA, seams, structlog.get_logger(), held)


async def test_one_that_was_left_is_the_same_store_and_one_that_was_not_is_so_while_its_machine_runs(
    autojump_clock: object,
) -> None:
    world, none = World(), ReplicaRegistry(SpuId(1), Cluster())
    with ExitStack() as held:
        first = await _take(world, held)
        assert first.high_watermarks == {}
        assert not first.was_left_cleanly
        await first.leave(none, opened_all=True)
    for files in (world.files.crash("synced"), world.files.after_kill()):
        with ExitStack() as held:
            again = await _take(world, held, files)
            assert again.was_left_cleanly
            assert again.incarnation == first.incarnation
            killed, stopped = files.after_kill(), files.crash("synced")
        for left, is_the_same in ((killed, True), (stopped, False)):
            with ExitStack() as held:
                third = await _take(world, held, left)
                assert not third.was_left_cleanly, "whoever takes it takes the mark away"
                assert (third.incarnation == first.incarnation) == is_the_same


async def test_one_that_was_not_looked_at_as_a_whole_is_left_as_it_was_found(autojump_clock: object) -> None:
    world, none = World(), ReplicaRegistry(SpuId(1), Cluster())
    for opened_all, is_left_cleanly in ((False, False), (True, True), (False, True)):
        with ExitStack() as held:
            storage = await _take(world, held)
            await storage.leave(none, opened_all=opened_all)
        with ExitStack() as held:
            again = await _take(world, held, world.files.after_kill())
            assert again.was_left_cleanly == is_left_cleanly


async def test_a_mark_for_which_there_is_no_room_is_not_left_and_the_store_stays_the_same(
    autojump_clock: object,
) -> None:
    world, none = World(), ReplicaRegistry(SpuId(1), Cluster())
    with ExitStack() as held:
        first = await _take(world, held)
        world.files.room_bytes = 0
        with capture_logs() as logs:
            await first.leave(none, opened_all=True)
        assert [each["event"] for each in logs] == ["clean_shutdown_mark_not_left"]
    with ExitStack() as held:
        files = world.files.after_kill()
        files.room_bytes = None
        again = await _take(world, held, files)
        assert (again.was_left_cleanly, again.incarnation) == (False, first.incarnation)


async def test_a_second_process_on_the_same_directory_refuses_to_start(autojump_clock: object) -> None:
    async with running_spu() as running:
        second = SpuServer(running.spu.settings, running.world.seams(), structlog.get_logger())
        with pytest.raises(StartError, match=f"{DATA} is in use by another tailrace process"):
            await second.run()


async def test_another_spu_does_not_take_the_directory(autojump_clock: object) -> None:
    world = World()
    async with running_spu(world) as running:
        await running.create("t")
        settings = running.spu.settings
    before = world.files.list(DATA)
    with pytest.raises(StartError, match=r"^/data/spu-1 holds the data of SPU 1, and this is SPU 2$"):
        await SpuServer(replace(settings, id=2), world.seams(), structlog.get_logger()).run()
    assert world.files.list(DATA) == before


async def test_a_directory_that_cannot_be_read_is_named(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_spu() as running:
        spu = running.spu
    refused = 0
    for number in range(20):
        reads = itertools.count()

        def check(path: str, number: int = number, reads: Iterator[int] = reads) -> None:
            if next(reads) == number:
                raise OSError("this read fails")

        monkeypatch.setattr(running.world.files, "check_reading", check)
        with trio.move_on_after(1):
            try:
                await SpuServer(spu.settings, running.world.seams(), structlog.get_logger()).run()
            except StartError as error:
                assert str(error) == f"{DATA} cannot be used: this read fails; choose another directory with --data"
                refused += 1
    assert 0 < refused < 20
