"""Random histories of the copies on one SPU: fills, crashes, flipped bits, reads, repairs and scrubs."""

from contextlib import suppress
from random import Random

import pytest
import trio
from shelf_bench import BATCH_BYTES, END, shelf_bench

from tailrace.broker.shelves import shelf_portions


@pytest.mark.parametrize("seed", range(12))
async def test_no_confirmed_record_is_lost_and_no_wrong_record_is_read(
    autojump_clock: object, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelf_portions, "PORTION_BYTES_MAX", 2 * BATCH_BYTES)
    chance = Random(seed)

    async def rest_after(count: int) -> None:
        await trio.lowlevel.checkpoint()

    async with shelf_bench() as bench:
        content, told, are_flipped = bench.content, 0, False
        for _ in range(40):
            match chance.choice(["fill", "fill", "give up", "crash", "kill", "flip", "read", "repair", "scrub"]):
                case "fill":
                    told = max(told, (await bench.fill(chance.randrange(0, END + 1, 2))).end)
                    bench.name(end=told)
                case "give up":
                    with trio.move_on_after(0) as giving_up:
                        await bench.fill()
                    assert giving_up.cancelled_caught
                case "crash":
                    bench = bench.after(bench.files.crash(chance))
                case "kill":
                    bench = bench.after(bench.files.crash("all"))
                case "flip" if told and seed % 2 and not chance.randrange(3):
                    with suppress(OSError, IndexError, ValueError):  # the copy does not open, or has no such segment
                        are_flipped = True
                        await bench.flip(chance.randrange(told // 2 * BATCH_BYTES))
                case "read" if told:
                    offset = chance.randrange(told)
                    response = await bench.read(offset, told, BATCH_BYTES)
                    at = offset // 2 * BATCH_BYTES
                    assert response.error_code or response.records == content[at : at + BATCH_BYTES]
                case "repair":
                    await bench.keeper.repair.repair(bench.key)
                case "scrub":
                    await bench.keeper.scrubbing.scrub(rest_after, lambda: False)
            assert are_flipped or (await bench.fill(0)).end >= told
        await bench.keeper.scrubbing.scrub(rest_after, lambda: False)
        with suppress(AssertionError):
            await bench.content_here()  # damage in an open segment is found when the segment is read
        await bench.fill()
        bench.name(end=END)
        await bench.keeper.repair.repair(bench.key)
        assert await bench.content_here() == content
        after = bench.after(bench.files.crash("synced"))
        assert await after.content_here() == content
