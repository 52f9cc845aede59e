import os
from pathlib import Path

import pytest
from archive_samples import ARCHIVE, archived_partition, chunk

from tailrace.pipeline.archive.manifest import archive_manifest
from tailrace.pipeline.archive.stores.archive_folder import ArchiveFolder, create_archive
from tailrace.pipeline.archive.upkeep.orphan_cleaning import clean

NOW_MS = 1_800_000_000_000
HOUR_MS = 3_600_000


@pytest.fixture
def folder(tmp_path: Path) -> ArchiveFolder:
    create_archive(str(tmp_path), ARCHIVE)
    folder = ArchiveFolder(str(tmp_path))
    committed = chunk(0, 10)
    folder.commit(folder.load(), "00000000", 0, partitions_added=[archived_partition()], chunks_added=[committed])
    _write(folder, committed.files[0].path, 100)
    return folder


def _write(folder: ArchiveFolder, below: str, age_hours: float) -> None:
    path = Path(folder.directory, below)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"12345")
    seconds = NOW_MS / 1000 - age_hours * 3600
    os.utime(path, (seconds, seconds))


def test_old_files_that_do_not_count_are_removed(folder: ArchiveFolder) -> None:
    committed = chunk(0, 10).files[0].path
    orphan, young = chunk(10, 20).files[0].path, chunk(20, 30).files[0].path
    half = committed.rpartition("/")[0] + "/.half.tmp"
    note = "data/orders/README"
    for path, age in ((orphan, 25), (half, 25), (young, 23), (note, 100)):
        _write(folder, path, age)
    dry = clean(folder, NOW_MS, dry_run=True)
    assert (sorted(dry.paths), dry.bytes) == (sorted([orphan, half]), 10)
    assert clean(folder, NOW_MS) == dry
    assert clean(folder, NOW_MS).paths == ()
    left = {str(each.relative_to(folder.directory)) for each in Path(folder.directory, "data").rglob("*.*")}
    assert {committed, young} <= left
    assert Path(folder.directory, note).exists()
    assert clean(folder, NOW_MS, age_seconds=0).paths == (young,)
    assert folder.load().manifest.positions()


@pytest.mark.parametrize("has_snapshots", [False, True])
def test_files_of_merged_chunks_stay_until_the_merge_is_old(
    folder: ArchiveFolder, monkeypatch: pytest.MonkeyPatch, has_snapshots: bool
) -> None:
    """Readers that began before the merge still read them, however long ago they were written."""
    if has_snapshots:
        monkeypatch.setattr(archive_manifest, "SNAPSHOT_COMMITS", 1)
    small, merged = chunk(0, 10), chunk(0, 10, token="00000001")
    merged_at_ms = NOW_MS - HOUR_MS
    folder.commit(folder.load(), "00000001", merged_at_ms, chunks_added=[merged], chunks_removed=[small.id])
    _write(folder, merged.files[0].path, 1)
    assert small.files[0].path not in {each.path for each in folder.load().manifest.files()}
    assert clean(folder, NOW_MS).paths == ()
    assert clean(folder, merged_at_ms + 25 * HOUR_MS).paths == (small.files[0].path,)
    assert clean(folder, merged_at_ms + 99 * HOUR_MS).paths == ()
