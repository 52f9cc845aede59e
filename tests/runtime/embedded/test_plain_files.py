import hashlib
import os
from pathlib import Path

import pytest

from tailrace.runtime.embedded.plain_files import (
    FileAge,
    HashedFile,
    PlainFile,
    file_ages_below,
    link_file,
    make_directories,
    names_in,
    read_file,
    remove,
    write_once,
)


def test_a_read_ends_at_the_end_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    file = PlainFile(str(tmp_path / "file"))
    assert file.size() == 10
    assert file.read_at(2, 3) == b"234"
    assert file.read_at(8, 100) == b"89"
    file.close()


def test_an_open_file_keeps_its_content_when_it_is_replaced_or_removed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    file = PlainFile(str(path))
    (tmp_path / "new").write_bytes(b"newer")
    (tmp_path / "new").rename(path)
    path.unlink()
    assert file.read_at(0, 10) == b"old"


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        PlainFile(str(tmp_path / "missing"))


def test_names_are_sorted(tmp_path: Path) -> None:
    for name in "cab":
        (tmp_path / name).touch()
    assert names_in(str(tmp_path)) == ["a", "b", "c"]


def test_only_the_first_writer_of_a_name_succeeds(tmp_path: Path) -> None:
    directory = str(tmp_path / "one" / "two")
    make_directories(directory)
    make_directories(directory)
    assert write_once(f"{directory}/part", b"first")
    assert not write_once(f"{directory}/part", b"second")
    assert (tmp_path / "one" / "two" / "part").read_bytes() == b"first"
    assert names_in(directory) == ["part"]


def test_a_link_that_a_network_file_system_has_repeated_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link_twice(source: str, path: str) -> None:
        link(source, path)
        link(source, path)

    link = os.link
    monkeypatch.setattr(os, "link", link_twice)
    assert write_once(str(tmp_path / "head"), b"first")
    assert not write_once(str(tmp_path / "head"), b"second")
    file = HashedFile(str(tmp_path / ".part.tmp"))
    file.write(b"abc")
    file.publish(str(tmp_path / "part"))
    other = HashedFile(str(tmp_path / ".part.tmp"))
    with pytest.raises(FileExistsError, match="part"):
        other.publish(str(tmp_path / "part"))
    assert read_file(str(tmp_path / "head")) == b"first"
    assert read_file(str(tmp_path / "part")) == b"abc"
    assert names_in(str(tmp_path)) == [".part.tmp", "head", "part"]


def test_a_file_is_read_as_a_whole_and_removed(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    write_once(path, b"content")
    assert read_file(path) == b"content"
    remove(path)
    with pytest.raises(FileNotFoundError):
        read_file(path)


def test_a_hashed_file_gets_its_name_when_it_is_complete(tmp_path: Path) -> None:
    temporary, path = str(tmp_path / ".part.tmp"), str(tmp_path / "part")
    file = HashedFile(temporary)
    file.write(b"abc")
    assert file.tell() == 3
    file.write(memoryview(b"def"))
    assert names_in(str(tmp_path)) == [".part.tmp"]
    assert file.publish(path) == (6, hashlib.sha256(b"abcdef").hexdigest())
    assert file.closed
    assert names_in(str(tmp_path)) == ["part"]
    with pytest.raises(FileNotFoundError):
        HashedFile(str(tmp_path / "missing" / ".part.tmp"))


def test_a_second_name_is_a_link_or_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "file"
    source.write_bytes(b"content" * 1000)
    link_file(str(source), str(tmp_path / "below" / "link"))
    assert (tmp_path / "below" / "link").samefile(source)
    link_file(str(source), str(tmp_path / "below" / "link"))

    def refuse(source: str, path: str) -> None:
        if "tmp" not in source.rpartition("/")[2]:
            raise OSError(18, "Invalid cross-device link")
        link(source, path)

    link = os.link
    monkeypatch.setattr(os, "link", refuse)
    link_file(str(source), str(tmp_path / "copy"))
    assert (tmp_path / "copy").read_bytes() == source.read_bytes()
    assert not (tmp_path / "copy").samefile(source)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["below", "copy", "file"]
    with pytest.raises(FileNotFoundError):
        link_file(str(tmp_path / "none"), str(tmp_path / "other"))


def test_files_have_an_age(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_bytes(b"12345")
    os.utime(tmp_path / "a" / "file", (12.5, 12.5))
    assert file_ages_below(str(tmp_path)) == [FileAge("a/file", 5, 12_500)]
    assert file_ages_below(str(tmp_path / "nothing")) == []
