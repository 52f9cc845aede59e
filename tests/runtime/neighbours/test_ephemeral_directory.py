"""Tests with real files that an ephemeral directory is removed, by its own process or by the next one."""

import os
from pathlib import Path

import pytest

from tailrace.runtime.files import RealFiles
from tailrace.runtime.neighbours.ephemeral_directory import PREFIX, ephemeral_directory

FILES = RealFiles()


def _left(parent: Path) -> list[str]:
    return sorted(each.name for each in parent.iterdir())


async def test_the_directory_is_there_until_the_end(tmp_path: Path) -> None:
    parent = tmp_path / "new"
    async with ephemeral_directory(FILES, str(parent)) as path:
        assert Path(path).parent == parent
        assert os.stat(path).st_mode & 0o077 == 0, "other users see nothing"
        (Path(path) / "deep" / "er").mkdir(parents=True)
        (Path(path) / "deep" / "file").write_text("content")
    assert _left(parent) == []


async def test_what_a_killed_process_left_is_removed_and_what_is_in_use_is_not(tmp_path: Path) -> None:
    for name in ("killed", "killed-while-it-removed.removed"):
        (tmp_path / f"{PREFIX}{name}" / "spu-1").mkdir(parents=True)
    (tmp_path / f"{PREFIX}killed" / "lock").write_text("1")
    (tmp_path / f"{PREFIX}just-made").mkdir()
    (tmp_path / "other").mkdir()
    async with (
        ephemeral_directory(FILES, str(tmp_path)) as first,
        ephemeral_directory(FILES, str(tmp_path)) as second,
    ):
        assert first != second
        assert _left(tmp_path) == sorted(
            ["other", f"{PREFIX}just-made", os.path.basename(first), os.path.basename(second)]
        )


async def test_a_trap_of_another_user_is_not_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    trap = tmp_path / f"{PREFIX}trap"
    trap.mkdir()
    (trap / "lock").symlink_to(precious)
    monkeypatch.setattr(os, "getuid", lambda: os.lstat(trap).st_uid + 1)
    async with ephemeral_directory(FILES, str(tmp_path)):
        pass
    assert precious.read_text() == "mine"
    assert trap.exists()


async def test_a_parent_that_cannot_be_used_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="Not a directory"):
        async with ephemeral_directory(FILES, str(tmp_path / "file" / "in")):
            pass
