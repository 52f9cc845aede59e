"""Filling of copies, and what leaders are told of them, with crashes and elections."""

from typing import Any

import pytest
import trio
from msgspec.structs import replace
from shelf_bench import BATCH_BYTES, BATCHES, END, HERE, LEADER, NOW, OTHER, Bench, keeper_of, produce, shelf_bench
from simulation.files import SimulatedFile
from structlog.testing import capture_logs
from transacting import write_data, write_marker

from tailrace.broker.shelves import shelf_filling, shelf_portions
from tailrace.cluster.specs import Shelf
from tailrace.protocol.batches.record_batch import iterate
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.internal.fill_shelf import FillShelfRequest
from tailrace.storage.log.shelf_logs import ShelfLogs


async def test_a_copy_is_filled_up_to_the_end_of_a_segment_and_synced(autojump_clock: object) -> None:
    async with shelf_bench() as bench:
        assert (await bench.fill(0)).end == 0
        for end in (8, 14, 14):
            response = await bench.fill(end)
            assert (response.error_code, response.end) == (0, end)
        assert [(each.base, each.end, each.size_bytes) for each in response.segments] == [
            (0, 8, 4 * BATCH_BYTES),
            (8, 14, 3 * BATCH_BYTES),
        ]
        assert [(each.first_timestamp, each.max_timestamp) for each in response.segments] == [
            (NOW + 1, NOW + 31),
            (NOW + 41, NOW + 61),
        ]
        assert bench.metrics.shelf_filled_bytes == bench.keeper.copies.size_bytes == 7 * BATCH_BYTES
        after = bench.after(bench.files.crash("synced"))
        assert after.keeper.copies.size_bytes == 7 * BATCH_BYTES
        assert (await after.fill()).end == END
        assert await after.content_here() == bench.content


async def test_an_spu_fills_only_assigned_shelves(autojump_clock: object) -> None:
    async with shelf_bench() as bench:
        for stores, filling in (((OTHER,), ()), ((), (OTHER,))):
            bench.name(stores=stores, filling=filling)
            assert (await bench.fill()).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        bench.name(base=4)
        response = await bench.fill()
        assert response.error_message is not None and "has no spec that assigns to it the shelf at offset 0" in (
            response.error_message
        )
        bench.name(stores=(OTHER,), filling=(HERE,))
        assert (await bench.fill()).end == END
        stale, bench.spec = bench.spec, replace(bench.spec, version=bench.spec.version + 1, shelves=())
        bench.keeper.copies.apply([bench.spec], (), is_full=False)
        assert (await bench.fill()).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        bench.name()
        bench.keeper.copies.apply([replace(stale, shelves=())], (), is_full=False)
        assert (await bench.fill()).end == END
        bench.keeper.copies.apply((), [(bench.spec.topic_id, 0)], is_full=False)
        assert (await bench.fill()).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_records_that_the_leader_did_not_send_are_requested_again(autojump_clock: object) -> None:
    async with shelf_bench() as bench:
        assert (await bench.fill(END + 2)).end == END
        with capture_logs() as logs:
            assert (await bench.fill(END + 4, base=0)).end == END
        assert logs == []
        await produce(bench.running, [BATCHES])
        assert (await bench.fill(END + 2)).end == END + 2


async def test_nothing_is_copied_from_a_former_leader(autojump_clock: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copying also stops at an election: an unclean one may have discarded records of the old leader."""
    async with shelf_bench() as bench:
        request = FillShelfRequest(bench.spec.topic_id, 0, 0, END, OTHER)
        response = await bench.keeper.filling.respond(request)
        assert response.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        monkeypatch.setattr(shelf_portions, "PORTION_BYTES_MAX", BATCH_BYTES)
        fetch = shelf_filling.fetch_portion

        async def fetch_and_elect(*args: Any) -> Any:
            portion = await fetch(*args)
            bench.spec = replace(bench.spec, leader=OTHER, version=bench.spec.version + 1)
            bench.keeper.copies.apply([bench.spec], (), is_full=False)
            return portion

        monkeypatch.setattr(shelf_filling, "fetch_portion", fetch_and_elect)
        request.leader_id = LEADER
        assert (await bench.keeper.filling.respond(request)).end == 2


async def test_a_leader_that_is_also_a_store_copies_from_itself(autojump_clock: object) -> None:
    async with shelf_bench() as bench:
        bench.keeper = keeper_of(bench.running, bench.logs, bench.metrics, here=LEADER)
        bench.name(stores=(LEADER, OTHER))
        assert (await bench.fill()).end == END
        assert await bench.content_here() == bench.content
        bench.running.replica("t").is_leader = False
        with capture_logs() as logs:
            assert (await bench.fill(END + 1)).end == END
        assert [(each["event"], each["reason"]) for each in logs] == [
            ("shelf_portion_not_copied", "the leader responded with error 6")
        ]


async def test_a_fill_copies_portions_until_its_time_is_over(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelf_portions, "PORTION_BYTES_MAX", 2 * BATCH_BYTES)
    async with shelf_bench() as bench:
        ends = []
        fetch = shelf_filling.fetch_portion

        async def slow(*arguments: object) -> shelf_portions.Portion:
            await trio.sleep(2)
            return await fetch(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(shelf_filling, "fetch_portion", slow)
        begun = trio.current_time()
        while not ends or ends[-1] < END:
            ends.append((await bench.fill()).end)
        assert (ends, trio.current_time() - begun) == ([8, 16, 20], 12)
        assert await bench.content_here() == bench.content


async def test_each_copy_has_one_fill_at_a_time_and_few_portions_are_in_flight(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shelf_bench() as bench:
        under_way, most = 0, 0
        fetch = shelf_filling.fetch_portion

        async def counted(*arguments: object) -> shelf_portions.Portion:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            await trio.sleep(1)
            under_way -= 1
            return await fetch(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(shelf_filling, "fetch_portion", counted)
        found: list[int] = []

        async def fill(base: int) -> None:
            found.append((await bench.fill(base=base)).end)

        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(fill, 0)
        assert (sorted(found), most) == ([0, END], 1)
        some = tuple(Shelf(base, base, (HERE, OTHER)) for base in range(0, 16, 2))
        bench.keeper.copies.apply([replace(bench.spec, version=99, shelves=some)], (), is_full=False)
        async with trio.open_nursery() as nursery:
            for shelf in some:
                nursery.start_soon(fill, shelf.base)
        assert (found[2:], most) == ([END] * 8, shelf_filling.AT_ONCE_MAX)
        assert bench.keeper.copies.count == 8


async def test_only_some_of_many_copies_stay_open(autojump_clock: object) -> None:
    async with shelf_bench() as bench:
        bench.logs = ShelfLogs("/data", bench.files, open_logs_max=2)
        bench.keeper = keeper_of(bench.running, bench.logs, bench.metrics)
        some = tuple(Shelf(base, base + 2, (HERE, OTHER)) for base in range(0, END, 2))
        bench.keeper.copies.apply([replace(bench.spec, version=99, shelves=some)], (), is_full=False)

        async def fill(shelf: Shelf) -> None:
            assert (await bench.fill(shelf.end, shelf.base)).end == shelf.end
            assert await bench.bases(shelf.base, shelf.end, base=shelf.base) == [shelf.base]

        async with trio.open_nursery() as nursery:
            for shelf in some:
                nursery.start_soon(fill, shelf)
        assert bench.logs.open_count <= 2
        assert bench.keeper.copies.size_bytes == BATCHES * BATCH_BYTES


async def test_a_shelf_that_begins_within_a_batch_has_all_of_the_batch(autojump_clock: object) -> None:
    async with shelf_bench() as bench:
        bench.name(base=5)
        assert (await bench.fill(base=5)).end == END
        assert await bench.bases(5, base=5) == list(range(4, END, 2))
        after = bench.after(bench.files.crash("all"))
        assert (await after.fill(base=5)).end == END
        assert bench.metrics.shelf_filled_bytes == 8 * BATCH_BYTES


async def test_deleted_records_are_not_copied(autojump_clock: object) -> None:
    async with shelf_bench() as bench:
        await bench.fill(4)
        bench.name(filling=[HERE], stores=[OTHER], end=END, shelved_from=11)
        assert (await bench.fill()).end == END
        assert await bench.bases(11) == [10, 12, 14, 16, 18]
        assert bench.keeper.copies.size_bytes == 5 * BATCH_BYTES


async def test_a_full_spu_refuses_and_says_what_it_has(autojump_clock: object) -> None:
    async with shelf_bench() as bench:
        await bench.fill(8)

        def check_room() -> None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full")

        bench.keeper = keeper_of(bench.running, bench.logs, bench.metrics, check_room=check_room)
        bench.name()
        response = await bench.fill()
        assert (response.error_code, response.error_message, response.end) == (56, "full", 8)
        assert (await bench.fill(8)).error_code == 0


async def test_records_lost_in_a_crash_during_a_fill_are_copied_again(autojump_clock: object) -> None:
    async with shelf_bench() as bench:
        await bench.fill(8)
        async with bench.logs.using(bench.logs.directory(bench.key)) as log:
            taken = bench.running.replica("t").log.read_batches(8, 12)[0].read()
            for position, header in iterate(taken):
                log.append(taken[position : position + header.size], header)
        for keep, found in (("all", 12), ("synced", 8)):
            after = bench.after(bench.files.crash(keep))  # type: ignore[arg-type]
            assert (await after.fill(8)).end == found
            response = await after.fill()
            assert (response.end, response.error_code) == (END, 0)
            assert await after.content_here() == bench.content


async def test_a_failed_sync_is_not_retried_on_the_same_files(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shelf_bench() as bench:
        sync = SimulatedFile.sync

        async def failing(file: SimulatedFile) -> None:
            monkeypatch.setattr(SimulatedFile, "sync", sync)
            raise OSError("a failed sync")

        bench.name(end=8)
        await bench.fill(8)
        monkeypatch.setattr(SimulatedFile, "sync", failing)
        with capture_logs() as logs:
            response = await bench.fill()
        assert (response.error_code, response.end) == (0, END)
        assert [each["event"] for each in logs] == ["shelf_damaged", "shelf_repaired"]
        assert bench.metrics.shelf_filled_bytes == (4 + 6 + BATCHES) * BATCH_BYTES


async def test_after_an_unclean_election_a_copy_is_truncated_to_its_confirmed_end(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shelf_bench() as bench:
        await bench.fill()
        bench.name(end=8)
        bench.spec = replace(bench.spec, epoch=bench.spec.epoch + 1, was_unclean=True)
        bench.name(end=8)
        fetch = shelf_filling.fetch_portion
        asked: list[int] = []

        async def listening(*arguments: Any) -> shelf_portions.Portion:
            asked.append(arguments[3])
            portion = await fetch(*arguments)
            if len(asked) == 1:  # another unclean election while the portion was on its way
                bench.spec = replace(bench.spec, epoch=bench.spec.epoch + 1)
                bench.name(end=6)
                state = await bench.fill()
                assert (state.end, state.segments) == (6, [])
                bench.name(end=8)
            return portion

        monkeypatch.setattr(shelf_filling, "fetch_portion", listening)
        assert (await bench.fill(16)).end == 16
        assert (asked, bench.metrics.shelf_filled_bytes) == ([8, 8], (BATCHES + 4) * BATCH_BYTES)
        await bench.fill()
        assert asked == [8, 8, 16]
        bench.spec = replace(bench.spec, epoch=bench.spec.epoch + 1)
        bench.name(end=8)
        assert (await bench.fill(8)).end == 8
        await bench.flip(70)
        with capture_logs() as logs:
            await bench.read(end=8)
            await bench.keeper.repair.repair(bench.key)
        assert [(each["event"], each.get("end")) for each in logs] == [("shelf_damaged", None), ("shelf_repaired", 8)]
        await bench.fill()
        after = bench.after(bench.files.crash("all"))
        assert (await after.fill(8)).end == 8, "a new process does not know from which epoch the copy is"
        assert (await after.fill()).end == END
        assert await after.content_here() == bench.content


# transactions


async def _aborted(bench: Bench, start: int, end: int) -> list[tuple[int, int]]:
    response = await bench.read(start, end)
    assert response.error_code == 0, response.error_message
    return [(each.producer_id, each.first_offset) for each in response.aborted]


def _transactions(bench: Bench) -> int:
    """Writes three transactions, and returns an offset within all of them. The first two will be aborted."""
    replica = bench.running.replica("t")
    for producer in (7, 8, 9):
        write_data(replica, producer, b"a")
    write_marker(replica, 8)
    write_data(replica, 8, b"b")
    within = write_data(replica, -1, b"c") + 1
    write_data(replica, 7, b"d")
    for producer in (7, 8, 9):
        write_marker(replica, producer, is_commit=producer != 7)
    return within


async def test_a_copy_knows_what_was_aborted_by_markers_behind_its_end(autojump_clock: object) -> None:
    async with shelf_bench() as bench:
        within = _transactions(bench)
        assert (await bench.fill(within)).end == within
        assert await _aborted(bench, 0, within) == [(7, END), (8, END + 1)]
        again = bench.after(bench.files.crash("synced"))
        assert await _aborted(again, 0, within) == [(7, END), (8, END + 1)]
        end = bench.running.replica("t").log.log_end
        assert (await again.fill(end)).end == end
        assert await _aborted(again, 0, within) == [(7, END), (8, END + 1)]
        assert await _aborted(again, within, end) == [(7, within)]


async def test_a_copy_gets_nothing_of_a_transaction_that_is_open(autojump_clock: object) -> None:
    async with shelf_bench() as bench:
        replica = bench.running.replica("t")
        write_data(replica, -1, b"a")
        write_data(replica, 7, b"b")
        write_data(replica, -1, b"c")
        assert (await bench.fill(END + 3)).end == END + 1
        write_marker(replica, 7)
        assert (await bench.fill(END + 3)).end == END + 3
        assert await _aborted(bench, 0, END + 3) == [(7, END + 1)]


@pytest.mark.parametrize("keep", ["synced", "all"])
async def test_a_crash_while_a_copy_is_filled_loses_no_aborted_transaction(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, keep: Any
) -> None:
    async with shelf_bench() as bench:
        within = _transactions(bench)
        finish = shelf_filling.ShelfFilling._finish

        async def stop(self: shelf_filling.ShelfFilling, key: Any, end: int) -> None:
            raise OSError("the process is killed")

        monkeypatch.setattr(shelf_filling.ShelfFilling, "_finish", stop)
        assert (await bench.fill(within)).error_code != 0
        monkeypatch.setattr(shelf_filling.ShelfFilling, "_finish", finish)
        again = bench.after(bench.files.crash(keep))
        assert (await again.fill(within)).end == within
        assert await _aborted(again, 0, within) == [(7, END), (8, END + 1)]


async def test_a_copy_without_its_aborted_transactions_is_damaged_and_repaired(autojump_clock: object) -> None:
    async with shelf_bench() as bench:
        within = _transactions(bench)
        assert (await bench.fill(within)).end == within
        bench.name(end=within)
        again = bench.after(bench.files.crash("all"))
        directory = again.logs.directory(again.key)
        names = [each for each in again.files.list(directory) if each.endswith(".aborted")]
        assert len(names) == 1
        again.files.remove(f"{directory}/{names[0]}")
        assert (await again.read(0, within)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert again.key in again.keeper.copies.damaged
        await again.keeper.repair.repair(again.key)
        assert again.key not in again.keeper.copies.damaged
        assert await _aborted(again, 0, within) == [(7, END), (8, END + 1)]
