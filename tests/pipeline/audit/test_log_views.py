from pathlib import Path

import pytest
from audited_spus import ThreeSpus

from tailrace.pipeline.audit.log_views import ViewError, base_of, segment_path, view_of
from tailrace.storage.manifest import manifest


async def test_a_view_has_the_segments_and_what_the_manifest_says(tmp_path: Path) -> None:
    spus = await ThreeSpus(tmp_path).write()
    log, view = spus.logs[1], view_of(str(spus.replica(1)))
    assert [each.base for each in view.segments] == [facts.base for facts in log.segments()]
    assert [each.facts is not None for each in view.segments] == [True] * (len(view.segments) - 1) + [False]
    assert view.sealed_end == view.segments[-1].base
    assert view.segments[-1].end is None
    assert (view.log_start, view.compacted_end, view.stamped_end, view.damaged_lines) == (0, 0, 0, 0)
    await log.advance_log_start(60)
    assert view_of(str(spus.replica(1))).log_start == 60


async def test_a_segment_without_a_line_ends_where_the_next_one_begins(tmp_path: Path) -> None:
    spus = await ThreeSpus(tmp_path).write()
    bases = [int(path.stem) for path in spus.segments(2)]
    (spus.replica(2) / "manifest").unlink()
    view = view_of(str(spus.replica(2)))
    assert [(each.base, each.end) for each in view.segments] == list(zip(bases, [*bases[1:], None], strict=True))
    assert not view.is_start_certain


def test_an_unknown_version_and_a_directory_that_is_not_mounted_are_refused(tmp_path: Path) -> None:
    (tmp_path / "manifest").write_bytes(manifest._line("format", {"version": 9}))
    with pytest.raises(ViewError, match="has format version 9, and this Tailrace knows 1"):
        view_of(str(tmp_path))
    with pytest.raises(ViewError, match="none does not exist on this machine: mount it at the same path"):
        view_of(str(tmp_path / "none"))


def test_names_of_segments() -> None:
    assert segment_path("/d", 7) == "/d/00000000000000000007.log"
    assert base_of("00000000000000000007.log") == 7
    assert [base_of(name) for name in ("7.log", "00000000000000000007.index", "manifest")] == [None] * 3


async def test_a_part_of_a_view_has_what_a_range_needs(tmp_path: Path) -> None:
    spus = await ThreeSpus(tmp_path).write()
    view = view_of(str(spus.replica(1)))
    part = view.between(50, 100)
    assert [each.base for each in part.segments] == [45, 90]
    assert (part.sealed_end, view.between(0, 200)) == (view.sealed_end, view)
