from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from archive_samples import ARCHIVE, TOPIC_ID

from tailrace.pipeline.archive.manifest.archive_manifest import Head, Link, ManifestError
from tailrace.pipeline.archive.stores.archive_folder import create_archive
from tailrace.pipeline.archive.stores.manifest_stores import FileManifestStore
from tailrace.pipeline.jobs.job_errors import JobError


def head(seq: int, who: int = 0) -> Head:
    return Head(ARCHIVE.id, seq, Link(f"{seq:010d}-{who:08x}.json", "0" * 64), {TOPIC_ID: {0: seq}})


@pytest.fixture
def directory(tmp_path: Path) -> str:
    create_archive(str(tmp_path / "archive"), ARCHIVE)
    return str(tmp_path / "archive")


def test_a_head_replaces_the_one_that_its_writer_has_read(directory: str) -> None:
    store = FileManifestStore(directory)
    assert store.read() is None
    assert store.commit(0, head(1))
    assert not store.commit(0, head(1, who=2))
    assert store.commit(1, head(2))
    assert not FileManifestStore(directory).commit(1, head(2, who=2))
    assert FileManifestStore(directory).read() == head(2)


def test_of_several_writers_one_succeeds(directory: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        for seq in range(20):
            done = list(
                pool.map(lambda who, seq=seq: FileManifestStore(directory).commit(seq, head(seq + 1, who)), range(4))
            )
            assert sorted(done) == [False, False, False, True]
            assert FileManifestStore(directory).read() == head(seq + 1, done.index(True))


def test_a_directory_without_an_archive_has_no_head(tmp_path: Path) -> None:
    store = FileManifestStore(str(tmp_path / "nothing"))
    assert store.read() is None
    with pytest.raises(JobError, match="manifest cannot be written: No such file or directory"):
        store.commit(0, head(1))


def test_a_damaged_head_is_named(directory: str) -> None:
    Path(directory, "manifest/head-0000000001.json").write_text("{}")
    with pytest.raises(ManifestError, match=r"manifest/head-0000000001.json is damaged"):
        FileManifestStore(directory).read()
