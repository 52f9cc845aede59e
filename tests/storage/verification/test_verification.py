"""Which replicas and data directories are found below any directory, and how checkpoints are verified."""

from pathlib import Path
from uuid import UUID

import pytest
from simulation.files import SimulatedFiles

from tailrace.protocol.ids import Epoch
from tailrace.runtime.files import RealFiles
from tailrace.storage.directory.checkpoints import (
    save_high_watermarks,
    save_removed_replicas,
    write_clean_shutdown_mark,
)
from tailrace.storage.directory.layout import Kind, ShelfKey, file_name, log_bytes, replica_directory, shelf_directory
from tailrace.storage.directory.promises import Promises
from tailrace.storage.directory.store_incarnation import take_store_incarnation
from tailrace.storage.verification.verification import (
    data_directories_below,
    replicas_below,
    verify_checkpoints,
)

FILES = RealFiles(read_only=True)
LOG = file_name(0, Kind.LOG)


def _replica(data: Path, partition: int, *names: str) -> str:
    directory = Path(replica_directory(str(data), "events", UUID(int=3), partition))
    directory.mkdir(parents=True)
    for name in names:
        (directory / name).touch()
    return str(directory)


def _replicas(directory: Path) -> list[str]:
    return list(replicas_below(FILES, str(directory)))


def test_a_replica_is_known_by_any_file_of_its_own(tmp_path: Path) -> None:
    names = ["manifest", LOG, file_name(7, Kind.PRODUCERS), file_name(7, Kind.CLEANED_LOG)]
    replicas = [_replica(tmp_path, number, name) for number, name in enumerate(names)]
    _replica(tmp_path, 10, "notes.txt", "17.log", "manifest.old")
    _replica(tmp_path, 11)
    assert _replicas(tmp_path) == replicas


def test_replicas_are_found_from_the_parent_of_data_directories_down_to_their_own(tmp_path: Path) -> None:
    replica = Path(_replica(tmp_path / "spu-1" / "data", 0, LOG))
    assert _replicas(tmp_path) == []
    above = replica
    for _ in range(6):
        assert _replicas(above) == [str(replica)]
        above = above.parent
    assert above == tmp_path


def test_a_replica_contains_no_other_replica(tmp_path: Path) -> None:
    replica = _replica(tmp_path, 0, LOG)
    (Path(replica) / "copy").mkdir()
    (Path(replica) / "copy" / LOG).touch()
    assert _replicas(tmp_path) == [replica]


def test_replicas_being_removed_are_not_listed(tmp_path: Path) -> None:
    replica = _replica(tmp_path, 0, LOG)
    (tmp_path / "lock").touch()
    for directory in (tmp_path / "removed" / f"{UUID(int=3)}-1", tmp_path / "topics" / "removed" / "topics" / "lock"):
        directory.mkdir(parents=True)
        (directory / LOG).touch()
    assert _replicas(tmp_path) == [replica, str(tmp_path / "topics" / "removed" / "topics" / "lock")]


def test_shelves_are_listed_unless_they_are_being_removed(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    shelf = Path(shelf_directory(str(tmp_path), ShelfKey(UUID(int=3), 0, 700)))
    for directory in (tmp_path / "topics", shelf, tmp_path / "removed-shelves" / "1"):
        directory.mkdir(parents=True)
        (directory / LOG).touch()
    (tmp_path / "topics" / LOG).unlink()
    assert _replicas(tmp_path) == [str(shelf)]


@pytest.mark.parametrize("mark", ["topics", "high-watermarks", "clean-shutdown"])
def test_a_data_directory_is_known_by_any_of_its_marks(tmp_path: Path, mark: str) -> None:
    data = tmp_path / "spus" / "1"
    (data / mark).mkdir(parents=True)
    (tmp_path / "spus" / "notes.txt").touch()
    assert list(data_directories_below(FILES, str(data))) == [str(data)]
    assert list(data_directories_below(FILES, str(data.parent))) == [str(data)]
    assert list(data_directories_below(FILES, str(tmp_path))) == []


def test_only_log_files_count_as_bytes_to_read(tmp_path: Path) -> None:
    names = [LOG, file_name(5, Kind.LOG), file_name(0, Kind.INDEX), file_name(0, Kind.PRODUCERS), "manifest"]
    replica = _replica(tmp_path, 0, *names)
    for number, name in enumerate(names):
        (Path(replica) / name).write_bytes(bytes(10**number))
    assert log_bytes(FILES, replica) == 11


async def test_a_file_of_promises_may_have_a_torn_end_but_no_damaged_start() -> None:
    files = SimulatedFiles()
    files.make_directories("/data")
    promises = Promises(files, "/data")
    await promises.promise((UUID(int=3), 0), Epoch(1))
    await take_store_incarnation(files, "/data", promises, clean=True, lacks_replicas=False, new=UUID(int=1))
    assert list(verify_checkpoints(files, "/data")) == []
    files.open("/data/promises").append(b"torn")
    (torn,) = verify_checkpoints(files, "/data")
    assert (torn.path, torn.is_damage) == ("/data/promises", False)
    assert torn.position == files.size("/data/promises") - 4
    for name in ("promises", "store"):
        files.open(f"/data/{name}").write_at(2, b"x")
    assert [(finding.path, finding.is_damage) for finding in verify_checkpoints(files, "/data")] == [
        ("/data/promises", True),
        ("/data/store", True),
    ]


async def test_checkpoints_may_be_missing_but_not_damaged() -> None:
    files = SimulatedFiles()
    files.make_directories("/data")
    assert list(verify_checkpoints(files, "/data")) == []
    await save_high_watermarks(files, "/data", {})
    await write_clean_shutdown_mark(files, "/data", [])
    await save_removed_replicas(files, "/data", [])
    assert list(verify_checkpoints(files, "/data")) == []
    for name in ("high-watermarks", "clean-shutdown", "removed-replicas"):
        files.open(f"/data/{name}").append(b"\n")
    found = list(verify_checkpoints(files, "/data"))
    assert [(finding.path, finding.is_damage) for finding in found] == [
        ("/data/high-watermarks", True),
        ("/data/clean-shutdown", True),
        ("/data/removed-replicas", True),
    ]
