from pathlib import Path

import pytest
from archive_samples import ARCHIVE, TOPIC_ID, archived_partition, chunk
from msgspec.structs import replace

from tailrace.pipeline.archive.manifest import archive_manifest
from tailrace.pipeline.archive.manifest.archive_manifest import ManifestError, encode
from tailrace.pipeline.archive.stores.archive_folder import ArchiveFolder, archive_at, create_archive, new_token
from tailrace.pipeline.jobs.job_errors import JobError, WrongUsageError
from tailrace.runtime.chance import RandomChance

CHANCE = RandomChance(1)


@pytest.fixture
def folder(tmp_path: Path) -> ArchiveFolder:
    assert create_archive(str(tmp_path), ARCHIVE)
    return ArchiveFolder(str(tmp_path))


def add(folder: ArchiveFolder, start: int, end: int) -> bool:
    loaded = folder.load()
    joins = () if loaded.manifest.partitions else (archived_partition(),)
    token = new_token(CHANCE)
    return folder.commit(loaded, token, 0, partitions_added=joins, chunks_added=[chunk(start, end)]) is not None


def test_an_archive_is_made_once(folder: ArchiveFolder) -> None:
    assert not create_archive(folder.directory, replace(ARCHIVE, id="another"))
    assert archive_at(folder.directory) == ARCHIVE
    assert folder.load().manifest.chunks == []


def test_what_was_committed_is_loaded(folder: ArchiveFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_manifest, "SNAPSHOT_COMMITS", 4)
    for start in range(0, 90, 10):
        assert add(folder, start, start + 10)
    loaded = ArchiveFolder(folder.directory).load()
    assert loaded.manifest.positions() == {TOPIC_ID: {0: 90}}
    assert loaded.seq == 9
    for path in sorted(Path(folder.directory, "manifest").glob("00*.json"))[:7]:
        path.unlink()  # everything before the snapshot in commit 8
    assert folder.load().manifest.chunks == loaded.manifest.chunks


def test_a_writer_that_comes_second_changes_nothing(folder: ArchiveFolder) -> None:
    first, second = folder.load(), folder.load()
    joins = [archived_partition()]
    assert folder.commit(first, new_token(CHANCE), 0, partitions_added=joins, chunks_added=[chunk(0, 10)])
    before = sorted(each.name for each in Path(folder.directory, "manifest").iterdir())
    assert folder.commit(second, new_token(CHANCE), 0, partitions_added=joins, chunks_added=[chunk(0, 12)]) is None
    assert folder.load().manifest.positions() == {TOPIC_ID: {0: 10}}
    assert sorted(each.name for each in Path(folder.directory, "manifest").iterdir()) == before


def test_a_commit_that_was_changed_is_found(folder: ArchiveFolder) -> None:
    add(folder, 0, 10)
    (path,) = Path(folder.directory, "manifest").glob("0*.json")
    path.write_bytes(path.read_bytes().replace(b'"records":10', b'"records":11'))
    with pytest.raises(ManifestError, match="has another checksum than its successor says"):
        folder.load()
    path.unlink()
    with pytest.raises(JobError, match="is a part of the manifest and cannot be read: No such file"):
        folder.load()


def test_a_manifest_of_another_archive_is_found(folder: ArchiveFolder) -> None:
    add(folder, 0, 10)
    Path(folder.directory, "archive.json").write_bytes(encode(replace(ARCHIVE, id="another")))
    with pytest.raises(ManifestError, match=f"belongs to archive {ARCHIVE.id}, and archive.json there names another: "):
        ArchiveFolder(folder.directory).load()


def test_other_directories_are_no_archives(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="is no archive: `tailrace pipeline archive run TOPIC --to "):
        ArchiveFolder(str(tmp_path))
    (tmp_path / "archive.json").write_text('{"version":2,"id":"x","head":"files"}')
    with pytest.raises(ManifestError, match="has format version 2"):
        ArchiveFolder(str(tmp_path))


def test_no_archive_is_at_the_root_because_a_name_is_empty() -> None:
    with pytest.raises(WrongUsageError, match="the directory of the archive is empty"):
        ArchiveFolder("")


def test_a_head_that_lives_elsewhere_is_not_looked_for_beside_the_files(tmp_path: Path) -> None:
    create_archive(str(tmp_path), replace(ARCHIVE, head="sc", sc=("127.0.0.1:1",)))
    with pytest.raises(JobError, match=r"is in the store of the SC: the SC at 127.0.0.1:1 does not answer"):
        ArchiveFolder(str(tmp_path)).load()


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(JobError, match="file/archive cannot be made an archive: Not a directory"):
        create_archive(str(tmp_path / "file" / "archive"), ARCHIVE)
