"""Repair of damaged and incomplete copies."""

import pytest
import trio
from shelf_bench import BATCH_BYTES, END, HERE, shelf_bench
from structlog.testing import capture_logs

from tailrace.broker.shelves import shelf_filling, shelf_portions
from tailrace.protocol.error_codes import ErrorCode


async def test_copies_are_repaired_in_the_background(autojump_clock: object) -> None:
    async with shelf_bench() as bench, trio.open_nursery() as nursery:
        nursery.start_soon(bench.keeper.run)
        await bench.fill()
        bench.name(end=END)
        for position in (70, 5 * BATCH_BYTES + 70):
            await bench.flip(position)
            await bench.read()
            await trio.sleep(1)
            assert await bench.content_here() == bench.content
            await trio.sleep(60)
        await bench.logs.remove(bench.logs.directory(bench.key))
        assert (await bench.read()).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        await trio.sleep(1)
        assert await bench.content_here() == bench.content
        nursery.cancel_scope.cancel()


async def test_the_only_copy_is_kept_until_the_leader_can_replace_it(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shelf_bench() as bench:
        await bench.fill()
        bench.name(stores=[HERE], end=END)
        await bench.flip(3 * BATCH_BYTES + 70)
        with capture_logs() as logs:
            assert (await bench.read()).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert [(each["event"], each["is_only_copy"]) for each in logs] == [("shelf_damaged", True)]
        fetch = shelf_filling.fetch_portion

        async def fetch_nothing(*arguments: object) -> tuple[shelf_portions.Portion, shelf_portions.AbortedFirsts]:
            return shelf_portions.NOTHING, {}

        monkeypatch.setattr(shelf_filling, "fetch_portion", fetch_nothing)
        response = await bench.fill()
        assert (response.error_code, response.end) == (ErrorCode.KAFKA_STORAGE_ERROR, 0)
        await bench.keeper.repair.repair(bench.key)
        assert await bench.bases(0, bytes_max=1) == [0]
        monkeypatch.setattr(shelf_filling, "fetch_portion", fetch)
        await bench.keeper.repair.repair(bench.key)
        assert await bench.content_here() == bench.content
        assert (await bench.fill()).error_code == 0
