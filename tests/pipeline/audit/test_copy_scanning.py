from pathlib import Path

import pytest
from audited_spus import ThreeSpus, flip

from tailrace.pipeline.audit.audit_verdicts import StoredBatch, Unreadable, Verdict
from tailrace.pipeline.audit.copy_scanning import CopyScan
from tailrace.pipeline.audit.log_views import view_of


@pytest.fixture
async def spus(tmp_path: Path) -> ThreeSpus:
    return await ThreeSpus(tmp_path).write()


def _scan(
    spus: ThreeSpus, start: int = 0, end: int = 200, **options: bool
) -> tuple[CopyScan, list[int], list[Unreadable]]:
    scan = CopyScan(0, view_of(str(spus.replica(2))), start, end, 200, **options)
    items = list(scan.items())
    batches = [item.header.base_offset for item in items if isinstance(item, StoredBatch)]
    return scan, batches, [item for item in items if isinstance(item, Unreadable)]


def _findings(scan: CopyScan) -> list[tuple[Verdict, int, int]]:
    return [(each.verdict, each.first, each.last) for each in scan.findings]


async def test_the_batches_of_a_range_are_read_from_its_place_on(spus: ThreeSpus) -> None:
    scan, batches, _ = _scan(spus)
    assert (batches, scan.findings, scan.has_more) == (list(range(0, 200, 5)), [], False)
    assert sum(part.last - part.first for part in scan.parts) < scan.bytes
    scan, batches, _ = _scan(spus, 102, 118)
    assert [offset for offset in batches if offset >= 100] == [100, 105, 110, 115]
    assert len(batches) < 10, "the index leads to the place"
    scan, _, _ = _scan(spus, checks_bodies=False)
    assert scan.findings == []


async def test_a_flipped_bit_in_a_record_is_seen_in_its_batch(spus: ThreeSpus) -> None:
    flip(spus.segments(2)[1], 100)
    scan = CopyScan(0, view_of(str(spus.replica(2))), 0, 200, 200)
    wrong = [item for item in scan.items() if isinstance(item, StoredBatch) and not item.is_sound]
    assert [item.header.base_offset for item in wrong] == [45]


@pytest.mark.parametrize(("position", "mask"), [(16, 4), (11, 0xFF), (8, 0x80), (0, 0x80)])
async def test_a_header_that_leads_nowhere_ends_the_segment_and_not_the_scan(
    spus: ThreeSpus, position: int, mask: int
) -> None:
    flip(spus.segments(2)[1], position, mask)
    scan, batches, unreadable = _scan(spus)
    (finding,) = scan.findings
    first = finding.first
    assert first in (45, 50), "a wrong length is noticed at the next batch"
    assert finding.last == 89
    assert finding.verdict in (Verdict.ROTTEN, Verdict.DIVERGED)
    assert unreadable == [Unreadable(first, 90)]
    assert batches == [offset for offset in range(0, 200, 5) if not first <= offset < 90]


async def test_a_lost_end_is_missing(spus: ThreeSpus) -> None:
    last = spus.segments(2)[-1]
    last.write_bytes(last.read_bytes()[:-10])
    scan, _, _ = _scan(spus)
    assert _findings(scan) == [(Verdict.MISSING, 195, 199)]
    assert scan.findings[0].sentence == "the log ends at offset 195, and everything below 200 was committed"
    sealed = spus.segments(2)[0]
    sealed.write_bytes(sealed.read_bytes()[:-400])
    scan, _, _ = _scan(spus, 0, 190)
    assert _findings(scan) == [(Verdict.MISSING, 40, 44)] or _findings(scan) == [(Verdict.MISSING, 35, 44)]


async def test_a_lost_segment_is_missing(spus: ThreeSpus) -> None:
    spus.segments(2)[1].unlink()
    spus.segments(2)[-1].unlink()
    scan, _, unreadable = _scan(spus)
    assert [verdict for verdict, _, _ in _findings(scan)] == [Verdict.MISSING] * 2
    assert unreadable[0] == Unreadable(45, 90, is_missing=True)


async def test_a_log_that_goes_on_beyond_the_high_watermark_says_so(spus: ThreeSpus) -> None:
    scan = CopyScan(0, view_of(str(spus.replica(2))), 0, 150, 150)
    assert len([*scan.items()]) == 30
    assert scan.has_more
