"""Shelves of one SPU, filled from another, whole one that leads: also over damage, crashes and lost interest."""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Any

import pytest
import structlog
import trio
from batch_samples import header_of
from msgspec import Struct
from msgspec.structs import replace
from simulation.client import WireClient
from simulation.files import SimulatedFile, SimulatedFiles
from spus import ADDRESS, RunningSpu, batch, running_spu, spus_from
from structlog.testing import capture_logs

from tailrace.broker import shelf_portions, shelves
from tailrace.broker.metrics import BrokerMetrics
from tailrace.broker.shelves import Shelves
from tailrace.cluster.broker_configs import BrokerConfigs
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.specs import Endpoint, PartitionSpec, Shelf, SpuSpec
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import SpuId
from tailrace.protocol.internal.fill_shelf import FillShelfRequest, FillShelfResponse
from tailrace.protocol.internal.read_shelf import ReadShelfRequest, ReadShelfResponse
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tailrace.protocol.record_batch import iterate
from tailrace.storage.layout import ShelfKey
from tailrace.storage.log import Log
from tailrace.storage.shelf_logs import ShelfLogs

LEADER, HERE, OTHER = map(SpuId, (1, 5, 6))
NOW = 1_700_000_000_000
BATCHES = 10
"""Each of two records."""
END = 2 * BATCHES
BATCH_BYTES = len(batch(b"00", b"00"))


class Bench(Struct):
    running: RunningSpu
    files: SimulatedFiles
    spec: PartitionSpec
    metrics: BrokerMetrics
    logs: ShelfLogs
    shelves: Shelves

    @property
    def key(self) -> ShelfKey:
        return ShelfKey(self.spec.topic_id, 0, 0)

    def name(
        self,
        *,
        stores: Sequence[SpuId] = (HERE, OTHER),
        filling: Sequence[SpuId] = (),
        base: int = 0,
        end: int = 0,
        shelved_from: int = 0,
    ) -> None:
        """By the next specs."""
        shelf = Shelf(base, end, tuple(stores), tuple(filling))
        self.spec = replace(self.spec, version=self.spec.version + 1, shelved_from=shelved_from, shelves=(shelf,))
        self.shelves.apply([self.spec], (), is_full=False)

    async def fill(self, end: int = END, base: int = 0) -> FillShelfResponse:
        return await self.shelves.fill(FillShelfRequest(self.spec.topic_id, 0, base, end, LEADER))

    async def read(
        self, offset: int = 0, end: int = END, bytes_max: int = 1 << 20, timestamp: int = -1, base: int = 0
    ) -> ReadShelfResponse:
        request = ReadShelfRequest(self.spec.topic_id, 0, base, end, offset, bytes_max, timestamp)
        return await self.shelves.read(request)

    async def bases(self, offset: int = 0, end: int = END, bytes_max: int = 1 << 20, base: int = 0) -> list[int]:
        response = await self.read(offset, end, bytes_max, base=base)
        assert response.error_code == 0, response.error_message
        return [header.base_offset for _, header in iterate(response.records)]

    def after(self, files: SimulatedFiles) -> "Bench":
        """What another process finds there."""
        logs = ShelfLogs("/data", files)
        again = replace(self, files=files, logs=logs, shelves=_shelves(self.running, logs, self.metrics))
        again.shelves.apply([self.spec], (), is_full=True)
        return again

    async def flip(self, position: int, directory: str | None = None) -> None:
        """A bit in the first segment."""
        async with self.logs.using(directory or self.logs.directory(self.key)) as log:
            file = log.read_batches(log.log_start, log.log_end)[0].file
            (byte,) = file.read_at(position, 1)
            assert isinstance(file, SimulatedFile)
            file.write_at(position, bytes([byte ^ 4]))

    @property
    def content(self) -> bytes:
        log = self.running.replica("t").log
        return b"".join(each.read() for each in log.read_batches(0, log.log_end))

    async def content_here(self) -> bytes:
        return b"".join([(await self.read(offset, bytes_max=1)).records for offset in range(0, END, 2)])


def _shelves(running: RunningSpu, logs: ShelfLogs, metrics: BrokerMetrics, here: SpuId = HERE) -> Shelves:
    cluster = Cluster()
    if here != LEADER:
        cluster.put_spu(SpuSpec(LEADER, endpoints=(Endpoint("PUBLIC", ADDRESS.host, ADDRESS.port),)))
    configs = BrokerConfigs({"deleted.topic.retention.ms": "60000"})
    spus = spus_from(here, cluster, running.world.network, running.spu.answer)
    return Shelves(spus, logs, configs, metrics, structlog.get_logger())


async def _produce(running: RunningSpu, numbers: Iterable[int]) -> None:
    client: WireClient = await running.client()
    for number in numbers:
        records = batch(b"%02d" % number, b"%02d" % number, timestamp=NOW + 10 * number)
        data = [TopicProduceData(name="t", partition_data=[PartitionProduceData(0, records)])]
        await client.request(ApiKey.PRODUCE, 9, ProduceRequest(acks=1, timeout_ms=1000, topic_data=data))


@asynccontextmanager
async def _bench() -> AsyncIterator[Bench]:
    async with running_spu() as running:
        await running.create("t")
        await _produce(running, range(BATCHES))
        files, metrics = SimulatedFiles(), BrokerMetrics()
        files.make_directories("/data")
        await files.sync_directory("")
        logs = ShelfLogs("/data", files)
        bench = Bench(running, files, running.replica("t").spec, metrics, logs, _shelves(running, logs, metrics))
        bench.name()
        yield bench
        await bench.logs.close()


# filling


async def test_a_shelf_is_filled_up_to_the_end_of_a_segment_and_is_on_the_disk_then(autojump_clock: object) -> None:
    async with _bench() as bench:
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
        assert bench.metrics.shelf_filled_bytes == bench.shelves.size_bytes == 7 * BATCH_BYTES
        after = bench.after(bench.files.crash("synced"))
        assert after.shelves.size_bytes == 7 * BATCH_BYTES
        assert (await after.fill()).end == END
        assert await after.content_here() == bench.content


async def test_who_was_not_told_of_a_shelf_does_not_fill_it(autojump_clock: object) -> None:
    async with _bench() as bench:
        for stores, filling in (((OTHER,), ()), ((), (OTHER,))):
            bench.name(stores=stores, filling=filling)
            assert (await bench.fill()).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        bench.name(base=4)
        response = await bench.fill()
        assert response.error_message is not None and "has not been told of a shelf that begins at offset 0" in (
            response.error_message
        )
        bench.name(stores=(OTHER,), filling=(HERE,))
        assert (await bench.fill()).end == END
        stale, bench.spec = bench.spec, replace(bench.spec, version=bench.spec.version + 1, shelves=())
        bench.shelves.apply([bench.spec], (), is_full=False)
        assert (await bench.fill()).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        bench.name()
        bench.shelves.apply([replace(stale, shelves=())], (), is_full=False)
        assert (await bench.fill()).end == END
        bench.shelves.apply((), [(bench.spec.topic_id, 0)], is_full=False)
        assert (await bench.fill()).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_what_the_leader_does_not_hand_over_is_asked_for_again(autojump_clock: object) -> None:
    async with _bench() as bench:
        assert (await bench.fill(END + 2)).end == END
        with capture_logs() as logs:
            assert (await bench.fill(END + 4, base=0)).end == END
        assert logs == []
        await _produce(bench.running, [BATCHES])
        assert (await bench.fill(END + 2)).end == END + 2
        request = FillShelfRequest(bench.spec.topic_id, 0, 0, END + 4, OTHER)
        assert await bench.shelves.fill(request) == await bench.fill(END + 2)


async def test_much_is_copied_in_portions_until_the_time_is_over(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelf_portions, "PORTION_BYTES_MAX", 2 * BATCH_BYTES)
    async with _bench() as bench:
        ends = []
        fetch = shelves.fetch_portion

        async def slow(*arguments: object) -> shelf_portions.Portion:
            await trio.sleep(2)
            return await fetch(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(shelves, "fetch_portion", slow)
        begun = trio.current_time()
        while not ends or ends[-1] < END:
            ends.append((await bench.fill()).end)
        assert (ends, trio.current_time() - begun) == ([8, 16, 20], 12)
        assert await bench.content_here() == bench.content


async def test_one_fill_at_a_time_and_few_portions_over_all(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _bench() as bench:
        under_way, most = 0, 0
        fetch = shelves.fetch_portion

        async def counted(*arguments: object) -> shelf_portions.Portion:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            await trio.sleep(1)
            under_way -= 1
            return await fetch(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(shelves, "fetch_portion", counted)
        found: list[int] = []

        async def fill(base: int) -> None:
            found.append((await bench.fill(base=base)).end)

        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(fill, 0)
        assert (sorted(found), most) == ([0, END], 1)
        some = tuple(Shelf(base, base, (HERE, OTHER)) for base in range(0, 16, 2))
        bench.shelves.apply([replace(bench.spec, version=99, shelves=some)], (), is_full=False)
        async with trio.open_nursery() as nursery:
            for shelf in some:
                nursery.start_soon(fill, shelf.base)
        assert (found[2:], most) == ([END] * 8, shelves.AT_ONCE_MAX)
        assert bench.shelves.count == 8


async def test_a_shelf_that_begins_in_a_batch_has_all_of_it(autojump_clock: object) -> None:
    async with _bench() as bench:
        bench.name(base=5)
        assert (await bench.fill(base=5)).end == END
        assert await bench.bases(5, base=5) == list(range(4, END, 2))
        after = bench.after(bench.files.crash("all"))
        assert (await after.fill(base=5)).end == END
        assert bench.metrics.shelf_filled_bytes == 8 * BATCH_BYTES


async def test_an_spu_that_is_full_says_so_and_what_it_has(autojump_clock: object) -> None:
    async with _bench() as bench:
        await bench.fill(8)

        def check_room() -> None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full")

        bench.shelves.check_room = check_room
        response = await bench.fill()
        assert (response.error_code, response.error_message, response.end) == (56, "full", 8)
        assert (await bench.fill(8)).error_code == 0


# damage


async def test_what_a_crash_tears_in_the_middle_of_a_fill_is_copied_again(autojump_clock: object) -> None:
    async with _bench() as bench:
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


def _lose_a_segment(bench: Bench) -> None:
    directory = bench.logs.directory(bench.key)
    name = next(each for each in bench.files.list(directory) if each.endswith(".log"))
    bench.files.remove(f"{directory}/{name}")


async def test_a_copy_that_nobody_counts_on_is_begun_anew_if_it_does_not_open(autojump_clock: object) -> None:
    async with _bench() as bench:
        await bench.fill(8)
        await bench.logs.close()
        after = bench.after(bench.files.crash("all"))
        _lose_a_segment(after)
        with capture_logs() as logs:
            response = await after.fill()
        assert (response.error_code, response.end, logs[0]["event"]) == (0, END, "shelf_begun_anew")
        assert await after.content_here() == bench.content


async def test_leaders_count_on_what_they_were_told_before_the_specs_say_so(autojump_clock: object) -> None:
    async with _bench() as bench:
        await bench.fill(8)
        await bench.logs.close()
        _lose_a_segment(bench)
        with capture_logs() as logs:
            assert (await bench.fill(6)).end == 6
            assert [each["event"] for each in logs] == ["shelf_damaged"]
            await bench.shelves.mend(bench.key)
        assert [each["event"] for each in logs] == ["shelf_damaged", "shelf_mended"]
        assert (await bench.fill()).end == END
        assert await bench.content_here() == bench.content


async def test_after_an_unclean_election_only_what_is_known_to_be_on_a_shelf_stays(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _bench() as bench:
        await bench.fill()
        bench.name(end=8)
        bench.spec = replace(bench.spec, epoch=bench.spec.epoch + 1, was_unclean=True)
        bench.name(end=8)
        fetch = shelves.fetch_portion
        asked: list[int] = []

        async def listening(*arguments: Any) -> shelf_portions.Portion:
            asked.append(arguments[3])
            portion = await fetch(*arguments)
            if len(asked) == 1:  # another such election while it was on its way
                bench.spec = replace(bench.spec, epoch=bench.spec.epoch + 1)
                bench.name(end=6)
                state = await bench.fill()
                assert (state.end, state.segments) == (6, [])
                bench.name(end=8)
            return portion

        monkeypatch.setattr(shelves, "fetch_portion", listening)
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
            await bench.shelves.mend(bench.key)
        assert [(each["event"], each.get("end")) for each in logs] == [("shelf_damaged", None), ("shelf_mended", 8)]
        await bench.fill()
        after = bench.after(bench.files.crash("all"))
        assert (await after.fill(8)).end == 8, "what another process has copied is of no known epoch"
        assert (await after.fill()).end == END
        assert await after.content_here() == bench.content


async def test_one_that_lacks_its_beginning_is_no_copy(autojump_clock: object) -> None:
    async with _bench() as bench:
        bench.name(base=8)
        await bench.fill(base=8)
        await bench.logs.close()
        bench.files.rename(bench.logs.directory(bench.key._replace(base=8)), bench.logs.directory(bench.key))
        bench.name(end=END)
        assert (await bench.read(10)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        await bench.shelves.mend(bench.key)
        assert await bench.content_here() == bench.content


async def test_a_damaged_copy_is_read_until_another_one_is_complete(autojump_clock: object) -> None:
    async with _bench() as bench:
        await bench.fill()
        bench.name(end=END)
        await bench.flip(3 * BATCH_BYTES + 70)
        with capture_logs() as logs:
            response = await bench.read(6, bytes_max=1)
        assert response.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert [(each["event"], each["is_only_copy"]) for each in logs] == [("shelf_damaged", False)]
        # The others are read, also when some of the new copy is there.
        assert (await bench.fill(8)).end == 8
        assert await bench.bases(8, bytes_max=1) == [8]
        assert (await bench.read(6, bytes_max=1)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        with capture_logs() as logs:
            await bench.shelves.mend(bench.key)
        assert [each["event"] for each in logs] == ["shelf_mended"]
        assert await bench.content_here() == bench.content
        after = bench.after(bench.files.crash("synced"))
        assert await after.content_here() == bench.content


async def test_it_is_mended_by_itself(autojump_clock: object) -> None:
    async with _bench() as bench, trio.open_nursery() as nursery:
        nursery.start_soon(bench.shelves.run)
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


async def test_the_only_copy_stays_as_it_is_unless_the_leader_has_it_yet(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _bench() as bench:
        await bench.fill()
        bench.name(stores=[HERE], end=END)
        await bench.flip(3 * BATCH_BYTES + 70)
        with capture_logs() as logs:
            assert (await bench.read()).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert [(each["event"], each["is_only_copy"]) for each in logs] == [("shelf_damaged", True)]
        fetch = shelves.fetch_portion

        async def fetch_nothing(*arguments: object) -> shelf_portions.Portion:
            return shelf_portions.NOTHING

        monkeypatch.setattr(shelves, "fetch_portion", fetch_nothing)
        response = await bench.fill()
        assert (response.error_code, response.end) == (ErrorCode.KAFKA_STORAGE_ERROR, 0)
        await bench.shelves.mend(bench.key)
        assert await bench.bases(0, bytes_max=1) == [0]
        monkeypatch.setattr(shelves, "fetch_portion", fetch)
        await bench.shelves.mend(bench.key)
        assert await bench.content_here() == bench.content
        assert (await bench.fill()).error_code == 0


async def test_a_scrub_finds_what_nobody_reads(autojump_clock: object) -> None:
    async with _bench() as bench:
        rested: list[int] = []
        is_off = False

        async def rest_after(count: int) -> None:
            rested.append(count)

        await bench.fill()
        bench.name(end=END)
        with capture_logs() as logs:
            await bench.shelves.scrub(rest_after, lambda: is_off)
        assert (logs, sum(rested)) == ([], BATCHES * BATCH_BYTES)
        await bench.flip(5)  # which no checksum of a batch covers
        is_off = True
        with capture_logs() as logs:
            await bench.shelves.scrub(rest_after, lambda: is_off)
        assert logs == []
        is_off = False
        with capture_logs() as logs:
            await bench.shelves.scrub(rest_after, lambda: is_off)
        assert [each["event"] for each in logs] == ["shelf_damaged"]
        await bench.shelves.mend(bench.key)
        with capture_logs() as logs:
            await bench.shelves.scrub(rest_after, lambda: is_off)
        assert logs == []


async def test_a_disk_that_cannot_be_read_is_damage(autojump_clock: object, monkeypatch: pytest.MonkeyPatch) -> None:
    async with _bench() as bench:
        await bench.fill()
        bench.name(end=END)
        read = Log.read

        def failing(log: Log, *arguments: object, **named: object) -> object:
            raise shelves.UnreadableError(log.directory)

        monkeypatch.setattr(Log, "read", failing)
        assert (await bench.read()).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        monkeypatch.setattr(Log, "read", read)
        with capture_logs() as logs:
            await bench.fill()
        assert [each["event"] for each in logs] == ["shelf_mended"]


async def test_a_failed_sync_is_not_tried_again_with_the_same_files(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _bench() as bench:
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
        assert [each["event"] for each in logs] == ["shelf_damaged", "shelf_mended"]
        assert bench.metrics.shelf_filled_bytes == (4 + 6 + BATCHES) * BATCH_BYTES


@pytest.mark.parametrize("seed", range(12))
async def test_whatever_happens_nothing_is_lost_that_was_told_and_nothing_wrong_is_read(
    autojump_clock: object, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelf_portions, "PORTION_BYTES_MAX", 2 * BATCH_BYTES)
    chance = Random(seed)

    async def rest_after(count: int) -> None:
        await trio.lowlevel.checkpoint()

    async with _bench() as bench:
        content, told, are_flipped = bench.content, 0, False
        for _ in range(40):
            match chance.choice(["fill", "fill", "give up", "crash", "kill", "flip", "read", "mend", "scrub"]):
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
                    with suppress(OSError, IndexError, ValueError):  # where it does not open, or has no such segment
                        are_flipped = True
                        await bench.flip(chance.randrange(told // 2 * BATCH_BYTES))
                case "read" if told:
                    offset = chance.randrange(told)
                    response = await bench.read(offset, told, BATCH_BYTES)
                    at = offset // 2 * BATCH_BYTES
                    assert response.error_code or response.records == content[at : at + BATCH_BYTES]
                case "mend":
                    await bench.shelves.mend(bench.key)
                case "scrub":
                    await bench.shelves.scrub(rest_after, lambda: False)
            assert are_flipped or (await bench.fill(0)).end >= told
        await bench.shelves.scrub(rest_after, lambda: False)
        with suppress(AssertionError):
            await bench.content_here()  # what is damaged in a segment that is open is found when it is read
        await bench.fill()
        bench.name(end=END)
        await bench.shelves.mend(bench.key)
        assert await bench.content_here() == content
        after = bench.after(bench.files.crash("synced"))
        assert await after.content_here() == content


# reading


async def test_it_is_read_like_a_log_but_not_beyond_the_end(autojump_clock: object) -> None:
    async with _bench() as bench:
        await bench.fill(8)
        await bench.fill(16)
        bench.name(end=16)
        assert await bench.bases(0, 16, 2 * BATCH_BYTES) == [0, 2]
        assert await bench.bases(3, 16, 0) == [2]
        assert await bench.bases(6, 12) == [6]  # to the end of a segment
        assert await bench.bases(8, 12) == [8, 10]
        assert await bench.bases(16, 16) == await bench.bases(17, 12) == []
        assert bench.metrics.shelf_read_bytes == 6 * BATCH_BYTES
        response = await bench.read(0, 18)
        assert (response.error_code, response.error_message) == (
            ErrorCode.KAFKA_STORAGE_ERROR,
            "SPU 5 has what is before offset 16 of a shelf up to 18",
        )


async def test_no_answer_is_larger_than_there_is_room_for(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelves, "READ_BYTES_MAX", 3 * BATCH_BYTES)
    async with _bench() as bench:
        await bench.fill()
        assert await bench.bases(2) == [2, 4, 6]


async def test_a_time_is_looked_for(autojump_clock: object) -> None:
    async with _bench() as bench:
        await bench.fill()
        epoch = bench.spec.epoch

        async def found(timestamp: int, end: int = END, offset: int = 0) -> tuple[int, int, int]:
            response = await bench.read(offset, end, timestamp=timestamp)
            assert (response.error_code, response.records) == (0, b"")
            return response.found_timestamp, response.found_offset, response.found_epoch

        assert await found(NOW + 11) == (NOW + 11, 3, epoch)
        assert await found(NOW + 12) == (NOW + 20, 4, epoch)
        assert await found(0, offset=7) == (NOW + 31, 7, epoch)
        assert await found(-3) == (NOW + 91, 19, epoch)
        assert await found(-3, 8) == (NOW + 31, 7, epoch)
        assert await found(NOW + 41, 8) == (-1, -1, -1)


async def test_of_a_shelf_that_is_not_here_nothing_is_read(autojump_clock: object) -> None:
    async with _bench() as bench:
        assert (await bench.read()).error_message == "SPU 5 has nothing of a shelf up to 20"
        await bench.fill()
        bench.name(stores=[OTHER])
        assert (await bench.read()).error_code == ErrorCode.KAFKA_STORAGE_ERROR


# what goes


async def test_what_was_deleted_for_good_goes_with_its_segments(autojump_clock: object) -> None:
    async with _bench() as bench:
        for end in (8, 14):
            await bench.fill(end)
        bench.name(end=14, shelved_from=9)
        response = await bench.fill(END)
        assert [(each.base, each.end) for each in response.segments] == [(8, 14), (14, END)]
        assert await bench.bases(0) == [8, 10, 12]
        bench.name(end=14, shelved_from=11)
        assert await bench.bases(0) == [10, 12], "nobody reads what was deleted, also where it is there"
        bench.name(end=END, shelved_from=15)
        await bench.shelves.delete_before_starts()
        assert bench.shelves.size_bytes == 3 * BATCH_BYTES
        after = bench.after(bench.files.crash("synced"))
        assert (await after.fill()).end == END
        assert await after.bases(15) == [14, 16, 18]


async def test_what_was_deleted_before_it_came_is_not_copied(autojump_clock: object) -> None:
    async with _bench() as bench:
        await bench.fill(4)
        bench.name(filling=[HERE], stores=[OTHER], end=END, shelved_from=11)
        assert (await bench.fill()).end == END
        assert await bench.bases(11) == [10, 12, 14, 16, 18]
        assert bench.shelves.size_bytes == 5 * BATCH_BYTES


async def test_a_shelf_that_no_specs_name_is_removed_when_nobody_can_bring_it_back(autojump_clock: object) -> None:
    async with _bench() as bench:
        await bench.fill()
        shelved = bench.spec
        bench.shelves.apply([replace(shelved, shelves=())], (), is_full=False)
        await bench.shelves.remove_unnamed()
        await trio.sleep(1000)
        await bench.shelves.remove_unnamed()
        assert bench.logs.found() == [bench.key], "not all specs are known"
        bench.shelves.apply((), (), is_full=True)
        assert (bench.shelves.count, bench.shelves.size_bytes) == (0, 0)
        await bench.shelves.remove_unnamed()
        await trio.sleep(119)
        await bench.shelves.remove_unnamed()
        bench.shelves.apply([shelved], (), is_full=False)
        assert await bench.content_here() == bench.content
        await trio.sleep(119)
        await bench.shelves.remove_unnamed()
        bench.shelves.apply((), [(shelved.topic_id, 0)], is_full=False)
        await bench.shelves.remove_unnamed()
        await trio.sleep(119)
        await bench.shelves.remove_unnamed()
        assert bench.logs.found() == [bench.key]
        await trio.sleep(1)
        with capture_logs() as logs:
            await bench.shelves.remove_unnamed()
        assert [each["event"] for each in logs] == ["shelf_removed"]
        assert (bench.logs.found(), bench.files.list("/data/shelves")) == ([], [])


async def test_of_many_some_stay_open(autojump_clock: object) -> None:
    async with _bench() as bench:
        bench.logs = ShelfLogs("/data", bench.files, open_logs_max=2)
        bench.shelves = _shelves(bench.running, bench.logs, bench.metrics)
        some = tuple(Shelf(base, base + 2, (HERE, OTHER)) for base in range(0, END, 2))
        bench.shelves.apply([replace(bench.spec, version=99, shelves=some)], (), is_full=False)

        async def fill(shelf: Shelf) -> None:
            assert (await bench.fill(shelf.end, shelf.base)).end == shelf.end
            assert await bench.bases(shelf.base, shelf.end, base=shelf.base) == [shelf.base]

        async with trio.open_nursery() as nursery:
            for shelf in some:
                nursery.start_soon(fill, shelf)
        assert bench.logs.open_count <= 2
        assert bench.shelves.size_bytes == BATCHES * BATCH_BYTES


def test_batches_here_are_what_the_tests_take_them_for() -> None:
    assert header_of(batch(b"00", b"00")).last_offset_delta == 1


async def test_who_leads_what_it_is_to_keep_copies_what_consumers_are_given(autojump_clock: object) -> None:
    async with _bench() as bench:
        bench.shelves = _shelves(bench.running, bench.logs, bench.metrics, here=LEADER)
        bench.name(stores=(LEADER, OTHER))
        assert (await bench.fill()).end == END
        assert await bench.content_here() == bench.content
        bench.running.replica("t").is_leader = False
        with capture_logs() as logs:
            assert (await bench.fill(END + 1)).end == END
        assert [(each["event"], each["reason"]) for each in logs] == [
            ("shelf_portion_not_copied", "the leader answers with error 6")
        ]
