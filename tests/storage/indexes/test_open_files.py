"""How many files are open, and which are closed to make room."""

import errno
from pathlib import Path
from typing import Never

import pytest
from simulation.files import SimulatedFiles

from tailrace.runtime.files import File, RealFiles
from tailrace.storage.indexes.open_files import LazyFile, OpenFiles


def _lazy_files(count: int, limit: int) -> tuple[OpenFiles, list[LazyFile]]:
    open_files = OpenFiles(SimulatedFiles(), limit)
    return open_files, [LazyFile(open_files, f"/{number}", create=True) for number in range(count)]


def test_a_file_opens_on_its_first_use_and_stays_open() -> None:
    open_files, (file, _) = _lazy_files(2, limit=3)
    assert len(open_files) == 0
    assert file.get() is file.get()
    assert len(open_files) == 1


def test_no_more_than_the_limit_are_open() -> None:
    open_files, files = _lazy_files(10, limit=3)
    for file in [*files, *files[::-1], *files[::3]]:
        file.get().append(b"x")
        assert len(open_files) <= 3
    assert all(file.get().size() >= 2 for file in files)


def test_used_files_stay_open_and_idle_ones_close() -> None:
    _, (busy, *others) = _lazy_files(20, limit=3)
    first = busy.get()
    for other in others:
        other.get()
        assert busy.get() is first


def test_a_closed_file_makes_room() -> None:
    open_files, files = _lazy_files(3, limit=3)
    for file in files:
        file.get()
    files[0].close()
    files[0].close()
    assert len(open_files) == 2


def test_a_reader_keeps_its_file_when_the_pool_closes_it(tmp_path: Path) -> None:
    open_files = OpenFiles(RealFiles(), 1)
    one, other = (LazyFile(open_files, f"{tmp_path}/{name}", create=True) for name in "ab")
    reading = one.get()
    reading.append(b"abc")
    other.get()
    assert one.get() is not reading
    assert reading.read_at(0, 3) == b"abc"


class _Used:
    """A holder that was used since the pool looked last."""

    def __init__(self) -> None:
        self.used, self.is_open = True, True

    def release(self) -> None:
        self.is_open = False


def test_a_holder_that_opens_again_does_not_close_itself() -> None:
    """An index that has grown is in the pool already, and may be the next one to close."""
    open_files, holders = OpenFiles(SimulatedFiles(), 3), [_Used() for _ in range(3)]
    for holder in holders:
        open_files.opened(holder)
        holder.used = True
    open_files.opened(holders[0])
    assert [holder.is_open for holder in holders] == [True, True, True]
    assert len(open_files) == 3


def test_without_descriptors_held_files_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    open_files, files = _lazy_files(4, limit=10)
    for file in files[:3]:
        file.get()
    open_now = open_files.files.open

    def open_while_none_is_held(path: str, *, create: bool = False) -> File:
        if len(open_files):
            raise OSError(errno.EMFILE, "too many open files")
        return open_now(path, create=create)

    with monkeypatch.context() as patch:
        patch.setattr(open_files.files, "open", open_while_none_is_held)
        files[3].get()
        assert len(open_files) == 1
        files[0].get()
        assert len(open_files) == 1
        patch.setattr(open_files.files, "open", _refuse)
        with pytest.raises(OSError, match="too many"):
            files[1].get()
    assert all(file.get().size() == 0 for file in files)


def _refuse(path: str, *, create: bool = False) -> Never:
    raise OSError(errno.EMFILE, "too many open files")
