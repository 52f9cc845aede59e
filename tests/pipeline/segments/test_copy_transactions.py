import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from segment_logs import CONFIG, Spu, append, append_in_transaction, copy_of, end_transaction

from tailrace.pipeline.segments import copy_transactions
from tailrace.pipeline.segments.log_gaps import Gap
from tailrace.pipeline.segments.query_planning import QueryPlan
from tailrace.pipeline.segments.segment_options import read_options
from tailrace.pipeline.segments.segment_pieces import pieces_of
from tailrace.pipeline.segments.segment_readers import settings_of
from tailrace.pipeline.segments.segment_reading import ReadBatch, SegmentError, SegmentReading
from tailrace.pipeline.segments.segment_rows import rows_of
from tailrace.pipeline.segments.walked_segments import WalkedSegments
from tailrace.storage.log.log import Log

_SMALL = replace(CONFIG, segment_bytes_max=700, index_interval_bytes=1)
_UNSEALED = {"includeUnsealed": "true"}


def _offsets(path: Path, **given: str) -> list[int]:
    options = read_options({"path": str(path), "columns": "offset", **given})
    settings = settings_of(options)
    parts = [part for task in QueryPlan(options).tasks() for part in rows_of(task, settings)]
    return [offset for part in parts for offset in part.column(0).to_pylist()]


class _Written:
    """A log with random transactions, and what a reader may see of it."""

    def __init__(self, log: Log, chance: random.Random, count: int) -> None:
        self.log = log
        self.records: list[tuple[int, int | None]] = []
        """The offset of each record, and the number of its transaction."""
        self.transactions: list[tuple[int, int | None, bool]] = []
        """The first offset of each transaction, the offset of its marker, and whether it was committed."""
        self.bounds = [0]
        numbers: dict[int, int] = {}
        for _ in range(count):
            producer, kind, base = chance.randrange(3), chance.random(), log.log_end
            number: int | None = None
            if kind < 0.25:
                append(log, [(b"k", b"plain")] * chance.randint(1, 4))
            elif kind < 0.7:
                append_in_transaction(log, producer, [b"in a transaction"] * chance.randint(1, 4))
                if producer not in numbers:
                    numbers[producer] = len(self.transactions)
                    self.transactions.append((base, None, False))
                number = numbers[producer]
            elif producer in numbers:
                is_commit = chance.random() < 0.5
                end_transaction(log, producer, is_commit=is_commit)
                ended = numbers.pop(producer)
                self.transactions[ended] = (self.transactions[ended][0], base, is_commit)
                base = log.log_end
            self.records += [(offset, number) for offset in range(base, log.log_end)]
            self.bounds.append(log.log_end)

    def stable_end(self, high_watermark: int) -> int:
        undecided = [first for first, marker, _ in self.transactions if marker is None or marker >= high_watermark]
        return min([high_watermark, *undecided])

    def visible(self, high_watermark: int) -> list[int]:
        end = self.stable_end(high_watermark)
        return [
            offset
            for offset, number in self.records
            if offset < end and (number is None or self.transactions[number][2])
        ]


def _lose(directory: str, suffix: str) -> None:
    for path in Path(directory).glob(f"*{suffix}"):
        path.unlink()


@pytest.mark.parametrize("lost", ["", ".producers", ".aborted", ".index"])
@pytest.mark.parametrize("seed", range(12))
async def test_readers_see_what_is_decided_and_committed(tmp_path: Path, seed: int, lost: str) -> None:
    chance = random.Random(seed)
    spu = Spu(tmp_path, _SMALL)
    log = spu.log()
    written = _Written(log, chance, 80)
    await log.sync()
    if lost:
        _lose(log.directory, lost)
    sealed_end = log.segments()[-1].base
    assert len(log.segments()) > 4
    for high_watermark in [*chance.sample(written.bounds, 6), sealed_end, log.log_end]:
        await spu.commit(high_watermark)
        expected = written.visible(high_watermark)
        assert _offsets(tmp_path, **_UNSEALED) == expected
        assert _offsets(tmp_path, maxSplitBytes="4096", **_UNSEALED) == expected
        assert _offsets(tmp_path) == [offset for offset in expected if offset < sealed_end]
        start, end = sorted(chance.sample(range(log.log_end), 2))
        assert _offsets(tmp_path, startingOffsets=str(start), endingOffsets=str(end), failOnDataLoss="false") == [
            offset for offset in expected if start <= offset < min(end, sealed_end)
        ]


@pytest.mark.parametrize("seed", range(12))
async def test_what_an_earlier_plan_has_read_is_not_read_again(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    spu = Spu(tmp_path, _SMALL if seed % 2 else CONFIG)
    log = spu.log()
    written = _Written(log, chance, 80)
    await log.sync()
    options = read_options({"path": str(tmp_path), "columns": "offset", **_UNSEALED})
    walked = WalkedSegments()
    for high_watermark in sorted(chance.choices(written.bounds, k=12)):
        await spu.commit(high_watermark)
        plan = QueryPlan(options, walked=walked)
        parts = [part for task in plan.tasks() for part in rows_of(task, settings_of(options))]
        offsets = [offset for part in parts for offset in part.column(0).to_pylist()]
        assert offsets == written.visible(high_watermark)


async def test_only_what_was_appended_since_the_last_plan_is_walked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts: list[int] = []

    class Reading(SegmentReading):
        def batches(self) -> Iterator[ReadBatch]:
            starts.append(self._wanted.start)
            return super().batches()

    monkeypatch.setattr(copy_transactions, "SegmentReading", Reading)
    spu = Spu(tmp_path)
    log = spu.log()
    options = read_options({"path": str(tmp_path), **_UNSEALED})
    walked = WalkedSegments()
    for _ in range(3):
        append_in_transaction(log, 1, [b"value"] * 2)
        await log.sync()
        await spu.commit(log.log_end)
        QueryPlan(options, walked=walked)
    assert starts == [0, 2, 4]
    await log.truncate(2)
    append(log, [(b"k", b"others")] * 6)
    await log.sync()
    await spu.commit(log.log_end)
    QueryPlan(options, walked=walked)
    assert starts[3:] == [0], "the log is another one"


async def test_all_records_are_read_if_the_query_asks_for_them(tmp_path: Path) -> None:
    spu = Spu(tmp_path, _SMALL)
    log = spu.log()
    written = _Written(log, random.Random(1), 60)
    await log.sync()
    assert _offsets(tmp_path, committedOnly="false", **_UNSEALED) == [offset for offset, _ in written.records]


async def test_offsets_of_aborted_records_are_gaps_with_their_reason(tmp_path: Path) -> None:
    spu = Spu(tmp_path)
    log = spu.log()
    append(log, [(b"k", b"v")])
    append_in_transaction(log, 1, [b"aborted"] * 3)
    end_transaction(log, 1, is_commit=False)
    append_in_transaction(log, 1, [b"committed"])
    end_transaction(log, 1, is_commit=True)
    append_in_transaction(log, 1, [b"open"])
    await log.sync()
    await spu.commit(log.log_end)
    plan = QueryPlan(read_options({"path": str(tmp_path), **_UNSEALED}))
    pieces = [piece for task in plan.tasks() for piece in pieces_of(task)]
    assert [gap for piece in pieces for gap in piece.gaps] == [
        Gap(1, 3, "aborted"), Gap(4, 4, "marker"), Gap(6, 6, "marker"),
    ]  # fmt: skip
    assert [piece.end for piece in pieces][-1] == 7


async def test_the_latest_value_of_a_key_is_the_latest_committed_one(tmp_path: Path) -> None:
    spu = Spu(tmp_path)
    log = spu.log()
    append(log, [(b"a", b"1"), (b"b", b"2")])
    append_in_transaction(log, 1, [b"3"], key=b"a")
    end_transaction(log, 1, is_commit=False)
    await log.sync()
    await spu.commit(log.log_end)
    assert _offsets(tmp_path, latestByKey="true", **_UNSEALED) == [0, 1]
    assert _offsets(tmp_path, headerOnly="true", entryTypes="event", **_UNSEALED) == [0]


async def _shelf(tmp_path: Path) -> tuple[Log, int]:
    """Copies the begin of a log to a shelf as the filling of shelves does, up to before the marker of an abort."""
    spu = Spu(tmp_path / "spu-1")
    log = spu.log()
    append(log, [(b"k", b"v")])
    append_in_transaction(log, 1, [b"committed"])
    append_in_transaction(log, 2, [b"aborted"])
    end = log.log_end
    end_transaction(log, 1, is_commit=True)
    end_transaction(log, 2, is_commit=False)
    append_in_transaction(log, 2, [b"committed"])
    end_transaction(log, 2, is_commit=True)
    await log.sync()
    shelf = Spu(tmp_path / "spu-2").shelf(0)
    copy_of(shelf, log, 0, end)
    shelf.transactions.foretell({2: 2})
    shelf.forget_producers()
    await shelf.end_segment()
    await shelf.sync_foretold()
    return shelf, end


async def test_a_shelf_knows_of_aborts_with_markers_behind_it(tmp_path: Path) -> None:
    _, end = await _shelf(tmp_path)
    assert end == 3
    assert _offsets(tmp_path / "spu-2") == [0, 1]


async def test_a_shelf_that_lost_the_list_of_aborts_is_an_error(tmp_path: Path) -> None:
    shelf, _ = await _shelf(tmp_path)
    _lose(shelf.directory, ".aborted")
    with pytest.raises(SegmentError, match="only this file tells which records"):
        _offsets(tmp_path / "spu-2")


async def test_a_compacted_log_has_no_aborted_records(tmp_path: Path) -> None:
    chance = random.Random(5)
    spu = Spu(tmp_path, replace(_SMALL, compacts=True))
    log = spu.log()
    written = _Written(log, chance, 120)
    await log.sync()
    before = written.visible(log.log_end)
    await spu.commit(log.log_end)
    await log.compact(10**15, log.log_end)
    kept = _offsets(tmp_path, **_UNSEALED)
    assert kept
    assert set(kept) <= set(before)
