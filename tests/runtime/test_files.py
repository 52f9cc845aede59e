"""What storage relies on holds for real files and simulated ones alike."""

import errno
import os
from pathlib import Path

import pytest
import trio
from simulation.files import SimulatedFiles

from tailrace.runtime.files import Files, RealFiles, UnreadableError


@pytest.fixture(params=[RealFiles, SimulatedFiles])
def files(request: pytest.FixtureRequest) -> Files:
    made: Files = request.param()
    return made


@pytest.fixture
def directory(files: Files, tmp_path: Path) -> str:
    """Returns an existing empty directory, real or simulated."""
    path = f"{tmp_path}/data"
    files.make_directories(path)
    return path


def test_what_is_appended_can_be_read_anywhere(files: Files, directory: str) -> None:
    file = files.open(f"{directory}/log", create=True)
    file.append(b"hello ")
    file.append(bytearray(b"wor"))
    file.append(memoryview(b"ld"))
    assert file.size() == 11
    assert file.read_at(6, 3) == b"wor"
    assert file.read_at(6, 100) == b"world", "the end of the file ends a read"
    assert file.read_at(100, 5) == b""
    assert bytes(file.map()) == b"hello world"
    assert file.path == f"{directory}/log"
    file.close()
    assert files.read(f"{directory}/log") == b"hello world"
    assert files.size(f"{directory}/log") == 11


def test_opening_again_goes_on_at_the_end(files: Files, directory: str) -> None:
    first = files.open(f"{directory}/log", create=True)
    first.append(b"one")
    first.close()
    again = files.open(f"{directory}/log", create=True)
    again.append(b"two")
    assert files.read(f"{directory}/log") == b"onetwo"
    again.close()


def test_writing_in_place_changes_no_more_than_that(files: Files, directory: str) -> None:
    file = files.open(f"{directory}/log", create=True)
    file.append(b"0123456789")
    file.write_at(3, b"abc")
    assert file.read_at(0, 20) == b"012abc6789"
    file.write_at(9, b"xyz")
    file.append(b"!")
    assert file.read_at(0, 20) == b"012abc678xyz!", "a write past the end moves the end"
    file.close()


def test_a_truncated_file_is_appended_to_at_its_new_end(files: Files, directory: str) -> None:
    file = files.open(f"{directory}/log", create=True)
    file.append(b"0123456789")
    file.truncate(4)
    assert file.size() == 4
    file.append(b"x")
    assert file.read_at(0, 20) == b"0123x"
    file.close()


def test_a_read_error_names_the_file() -> None:
    path = "/proc/self/mem"  # address 0 is never mapped, so reading to it fails
    with pytest.raises(UnreadableError, match=path) as failed:
        RealFiles(read_only=True).open(path).read_at(0, 10)
    assert failed.value.filename == path


def test_a_short_read_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pread
    (tmp_path / "log").write_bytes(b"0123456789")
    file = RealFiles().open(str(tmp_path / "log"))

    def read_a_part(descriptor: int, count: int, position: int) -> bytes:
        if position == 8:
            raise OSError(errno.EIO, "a bad page")
        return real(descriptor, min(count, 4), position)

    monkeypatch.setattr(os, "pread", read_a_part)
    assert file.read_at(0, 8) == b"01234567"
    assert file.read_at(9, 8) == b"9"
    with pytest.raises(UnreadableError) as failed:
        file.read_at(0, 10)
    assert failed.value.before == b"01234567"
    file.close()


def test_an_empty_file_maps_to_nothing(files: Files, directory: str) -> None:
    file = files.open(f"{directory}/log", create=True)
    assert len(file.map()) == 0
    file.close()


def test_opening_a_missing_file_is_an_error_unless_it_is_created(files: Files, directory: str) -> None:
    with pytest.raises(FileNotFoundError):
        files.open(f"{directory}/log")
    with pytest.raises(FileNotFoundError):
        files.read(f"{directory}/log")
    with pytest.raises(FileNotFoundError):
        files.open(f"{directory}/missing/log", create=True)
    assert not files.exists(f"{directory}/log")
    files.open(f"{directory}/log", create=True).close()
    assert files.exists(f"{directory}/log")


def test_a_directory_says_whether_it_was_made(files: Files, directory: str) -> None:
    assert files.make_directories(f"{directory}/a/b")
    assert files.make_directories(f"{directory}/a/c")
    assert not files.make_directories(f"{directory}/a/c")
    assert files.list(f"{directory}/a") == ["b", "c"]


def test_a_directory_lists_its_own_names_in_order(files: Files, directory: str) -> None:
    assert files.make_directories(f"{directory}/topics/t")
    assert not files.make_directories(f"{directory}/topics/t")
    for name in ("b", "a"):
        files.open(f"{directory}/{name}", create=True).close()
    assert files.list(directory) == ["a", "b", "topics"]
    assert files.list(f"{directory}/topics") == ["t"]
    assert files.list(f"{directory}/missing") == []
    assert files.list(f"{directory}/a") == [], "a foreign file among our directories is no error"


def test_removing_a_missing_file_is_no_error(files: Files, directory: str) -> None:
    files.open(f"{directory}/a", create=True).close()
    files.remove(f"{directory}/a")
    files.remove(f"{directory}/a")
    assert files.list(directory) == []


def test_only_an_empty_directory_is_removed(files: Files, directory: str) -> None:
    files.make_directories(f"{directory}/a/b")
    files.open(f"{directory}/file", create=True).close()
    for name in ("a", "file", "missing"):
        files.remove_empty_directory(f"{directory}/{name}")
    assert files.list(directory) == ["a", "file"]
    files.remove_empty_directory(f"{directory}/a/b")
    files.remove_empty_directory(f"{directory}/a")
    assert files.list(directory) == ["file"]


def test_a_reader_outlives_the_removal_of_its_file(files: Files, directory: str) -> None:
    file = files.open(f"{directory}/log", create=True)
    file.append(b"still here")
    files.remove(f"{directory}/log")
    assert file.read_at(0, 100) == b"still here"
    file.close()


async def test_discarding_a_missing_file_is_no_error(files: Files, directory: str) -> None:
    files.open(f"{directory}/large", create=True).close()
    for _ in range(2):
        await files.discard(f"{directory}/large")
        assert files.list(directory) == []


async def test_a_tree_is_removed_as_a_whole(files: Files, directory: str) -> None:
    files.make_directories(f"{directory}/tree/deep")
    files.make_directories(f"{directory}/tree-top")
    files.open(f"{directory}/tree/deep/leaf", create=True).close()
    await files.discard_tree(f"{directory}/tree")
    await files.discard_tree(f"{directory}/tree")
    assert files.list(directory) == ["tree-top"]


def test_a_rename_takes_the_place_of_what_was_there(files: Files, directory: str) -> None:
    for name in ("new", "old"):
        file = files.open(f"{directory}/{name}", create=True)
        file.append(name.encode())
        file.close()
    files.rename(f"{directory}/new", f"{directory}/old")
    assert files.list(directory) == ["old"]
    assert files.read(f"{directory}/old") == b"new"
    with pytest.raises(FileNotFoundError):
        files.rename(f"{directory}/new", f"{directory}/old")


async def test_replacing_leaves_nothing_else_behind(files: Files, directory: str) -> None:
    await files.replace(f"{directory}/state", b"one")
    await files.replace(f"{directory}/state", b"two")
    assert files.read(f"{directory}/state") == b"two"
    assert files.list(directory) == ["state"]


async def test_an_interrupted_replacement_is_no_obstacle(files: Files, directory: str) -> None:
    left = files.open(f"{directory}/state.new", create=True)
    left.append(b"a much longer text that was not finished")
    left.close()
    await files.replace(f"{directory}/state", b"whole")
    assert files.read(f"{directory}/state") == b"whole"


async def test_a_replacement_that_fails_leaves_the_old_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The partial new file is removed as well, because it would occupy the last free space."""
    files, directory = RealFiles(), str(tmp_path)
    await files.replace(f"{directory}/state", b"old")

    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space"):
        await files.replace(f"{directory}/state", b"new")
    assert files.list(directory) == ["state"]
    assert files.read(f"{directory}/state") == b"old"


async def test_reaching_the_disk(files: Files, directory: str) -> None:
    file = files.open(f"{directory}/log", create=True)
    file.append(b"x")
    await file.sync()
    await files.sync_directory(directory)
    file.close()
    with pytest.raises(FileNotFoundError):
        await files.sync_directory(f"{directory}/missing")


async def test_without_threads_syncs_still_happen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(trio.to_thread, "run_sync", fail)
    files, directory = RealFiles(), str(tmp_path)
    await files.replace(f"{directory}/state", b"new")
    file = files.open(f"{directory}/state")
    await file.sync()
    await files.sync_directory(directory)
    assert file.read_at(0, 9) == b"new"
    with pytest.raises(FileNotFoundError):
        await files.sync_directory(f"{directory}/missing")
    files.make_directories(f"{directory}/tree/deep")
    await files.discard_tree(f"{directory}/tree")
    await files.discard(f"{directory}/state")
    assert files.list(directory) == []
    file.close()


def test_a_lock_is_held_by_one(files: Files, directory: str) -> None:
    lock = files.lock(f"{directory}/lock")
    assert lock is not None
    assert files.lock(f"{directory}/lock") is None
    lock.release()
    again = files.lock(f"{directory}/lock")
    assert again is not None
    again.release()


def test_the_volume_has_room(files: Files, directory: str) -> None:
    total, usable = files.free_bytes(directory)
    assert 0 < usable <= total


def test_the_boot_id_stays_the_same_while_the_machine_runs(files: Files) -> None:
    assert files.boot_id() == files.boot_id() != ""


def test_a_closed_file_gives_an_error_and_not_another_files_bytes(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"x")
    file = RealFiles().open(str(tmp_path / "log"))
    file.close()
    file.close()
    with pytest.raises(OSError) as failed:
        file.read_at(0, 1)
    assert failed.value.errno == errno.EBADF


def test_a_file_closes_itself_with_its_last_reference(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"x")
    file = RealFiles().open(str(tmp_path / "log"))
    descriptor = file.descriptor
    assert descriptor is not None
    os.fstat(descriptor)
    del file
    with pytest.raises(OSError):
        os.fstat(descriptor)


def test_a_short_write_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda descriptor, data, position: real(descriptor, data[:3], position))
    file = RealFiles().open(str(tmp_path / "log"), create=True)
    file.append(b"0123456789")
    file.write_at(1, b"abcdefgh")
    assert file.read_at(0, 20) == b"0abcdefgh9"
    file.close()


def test_a_private_file_is_new_and_only_its_user_reads_it(files: Files, directory: str) -> None:
    path = f"{directory}/key"
    files.write_private(path, b"secret")
    assert files.read(path) == b"secret"
    if isinstance(files, RealFiles):
        assert os.stat(path).st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        files.write_private(path, b"other")
