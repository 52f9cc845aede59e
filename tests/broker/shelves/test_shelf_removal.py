"""What goes from shelves, and shelves that go."""

import trio
from msgspec.structs import replace
from shelf_bench import BATCH_BYTES, END, shelf_bench
from structlog.testing import capture_logs


async def test_what_was_deleted_for_good_goes_with_its_segments(autojump_clock: object) -> None:
    async with shelf_bench() as bench:
        for end in (8, 14):
            await bench.fill(end)
        bench.name(end=14, shelved_from=9)
        response = await bench.fill(END)
        assert [(each.base, each.end) for each in response.segments] == [(8, 14), (14, END)]
        assert await bench.bases(0) == [8, 10, 12]
        bench.name(end=14, shelved_from=11)
        assert await bench.bases(0) == [10, 12], "nobody reads what was deleted, also where it is there"
        bench.name(end=END, shelved_from=15)
        await bench.keeper.removal.delete_before_starts()
        assert bench.keeper.copies.size_bytes == 3 * BATCH_BYTES
        after = bench.after(bench.files.crash("synced"))
        assert (await after.fill()).end == END
        assert await after.bases(15) == [14, 16, 18]


async def test_a_shelf_that_no_specs_name_is_removed_when_nobody_can_bring_it_back(autojump_clock: object) -> None:
    async with shelf_bench() as bench:
        await bench.fill()
        shelved = bench.spec
        bench.keeper.copies.apply([replace(shelved, shelves=())], (), is_full=False)
        await bench.keeper.removal.remove_unassigned()
        await trio.sleep(1000)
        await bench.keeper.removal.remove_unassigned()
        assert bench.logs.found() == [bench.key], "not all specs are known"
        bench.keeper.copies.apply((), (), is_full=True)
        assert (bench.keeper.copies.count, bench.keeper.copies.size_bytes) == (0, 0)
        await bench.keeper.removal.remove_unassigned()
        await trio.sleep(119)
        await bench.keeper.removal.remove_unassigned()
        bench.keeper.copies.apply([shelved], (), is_full=False)
        assert await bench.content_here() == bench.content
        await trio.sleep(119)
        await bench.keeper.removal.remove_unassigned()
        bench.keeper.copies.apply((), [(shelved.topic_id, 0)], is_full=False)
        await bench.keeper.removal.remove_unassigned()
        await trio.sleep(119)
        await bench.keeper.removal.remove_unassigned()
        assert bench.logs.found() == [bench.key]
        await trio.sleep(1)
        with capture_logs() as logs:
            await bench.keeper.removal.remove_unassigned()
        assert [each["event"] for each in logs] == ["shelf_removed"]
        assert (bench.logs.found(), bench.files.list("/data/shelves")) == ([], [])


async def test_shelves_that_cannot_be_listed_are_looked_for_again(autojump_clock: object) -> None:
    """What was known to be unnamed has been so all the time."""
    async with shelf_bench() as bench:
        await bench.fill()
        bench.keeper.copies.apply((), (), is_full=True)
        await bench.keeper.removal.remove_unassigned()
        for opens_left, reads_fail in ((0, False), (None, True)):
            bench.files.opens_left, bench.files.reads_fail = opens_left, reads_fail
            with capture_logs() as logs:
                await bench.keeper.removal.remove_unassigned()
            assert [each["event"] for each in logs] == ["shelves_not_listed"]
        bench.files.reads_fail = False
        await trio.sleep(120)
        await bench.keeper.removal.remove_unassigned()
        assert bench.logs.found() == []
