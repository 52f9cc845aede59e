"""The manifest on the disk."""

import pytest
from msgspec.structs import replace
from simulation.files import SimulatedFile, SimulatedFiles

from tailrace.storage.manifest import manifest
from tailrace.storage.manifest.manifest import Manifest
from tailrace.storage.manifest.manifest_file import ManifestFile

pytestmark = pytest.mark.trio


@pytest.fixture
def files() -> SimulatedFiles:
    files = SimulatedFiles()
    files.make_directories("/r")
    return files


async def test_lines_are_added_and_the_whole_replaced(files: SimulatedFiles) -> None:
    file = ManifestFile(files, "/r")
    assert file.load() is None
    file.append([manifest.start_line(3), manifest.flushed_line(9)])
    assert ManifestFile(files, "/r").load() == Manifest(log_start=3, flushed_end=9)
    await file.replace(Manifest(log_start=5))
    file.append([manifest.flushed_line(11)])
    assert ManifestFile(files, "/r").load() == Manifest(log_start=5, flushed_end=11)


async def test_an_unfinished_line_is_truncated_before_others_follow(files: SimulatedFiles) -> None:
    ManifestFile(files, "/r").append([manifest.start_line(3)])
    files.open("/r/manifest").append(manifest.start_line(4)[:-1])
    file = ManifestFile(files, "/r")
    assert file.load() == Manifest(log_start=3)
    file.append([manifest.flushed_line(9)])
    assert ManifestFile(files, "/r").load() == Manifest(log_start=3, flushed_end=9)


async def test_a_manifest_of_another_version_is_left_alone(
    files: SimulatedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest, "VERSION", 2)
    ManifestFile(files, "/r").append([manifest.start_line(3).replace(b"start", b"begin")])
    files.open("/r/manifest").append(b"half a line")
    before = files.read("/r/manifest")
    monkeypatch.undo()
    with pytest.raises(
        OSError,
        match=r"/r/manifest has format version 2, and this Tailrace knows 1: start the version of Tailrace that ",
    ):
        ManifestFile(files, "/r").load()
    assert files.read("/r/manifest") == before


async def test_a_line_that_does_not_fit_leaves_nothing_behind(files: SimulatedFiles) -> None:
    file = ManifestFile(files, "/r")
    file.append([manifest.start_line(3)])
    files.room_bytes = 10
    with pytest.raises(OSError):
        file.append([manifest.flushed_line(9)])
    files.room_bytes = None
    file.append([manifest.flushed_line(11)])
    assert file.load() == Manifest(log_start=3, flushed_end=11)


@pytest.mark.parametrize("is_replaced", [True, False])
async def test_nothing_is_written_behind_a_torn_line(
    files: SimulatedFiles, monkeypatch: pytest.MonkeyPatch, is_replaced: bool
) -> None:
    file = ManifestFile(files, "/r")
    file.append([manifest.start_line(3)])

    def refuse(_: SimulatedFile, __: int) -> None:
        raise OSError("no space for that either")

    files.room_bytes = 10
    with monkeypatch.context() as broken:
        broken.setattr(SimulatedFile, "truncate", refuse)
        for _ in range(2):
            with pytest.raises(OSError, match="for that either"):
                file.append([manifest.flushed_line(9)])
    files.room_bytes = None
    if is_replaced:
        await file.replace(Manifest(log_start=3))
    file.append([manifest.flushed_line(11)])
    file.append([manifest.flushed_line(12)])
    assert ManifestFile(files, "/r").load() == Manifest(log_start=3, flushed_end=12)


async def test_lines_of_a_killed_process_can_be_synced(files: SimulatedFiles) -> None:
    ManifestFile(files, "/r").append([manifest.start_line(3)])
    await files.sync_directory("")
    await files.sync_directory("/r")
    next_process = files.after_kill()
    file = ManifestFile(next_process, "/r")
    file.load()
    assert ManifestFile(next_process.crash("synced"), "/r").load() == Manifest(has_start=False)
    file.sync_now()
    assert ManifestFile(next_process.crash("synced"), "/r").load() == Manifest(log_start=3)


async def test_lines_that_a_failed_sync_may_have_lost_can_be_rewritten(files: SimulatedFiles) -> None:
    file = ManifestFile(files, "/r")
    await file.append([manifest.start_line(5)]).sync()
    for directory in ("", "/r"):
        await files.sync_directory(directory)
    files.syncs_fail = True
    with pytest.raises(OSError, match="broken"):
        await file.append([manifest.start_line(7)]).sync()
    files.syncs_fail = False
    for rewrite_unsynced, start in ((False, 5), (True, 7)):
        after = files.after_kill()
        again = ManifestFile(after, "/r")
        again.load(rewrite_unsynced=rewrite_unsynced)
        again.sync_now()
        found = ManifestFile(after.crash("synced"), "/r").load()
        assert found is not None and found.log_start == start


async def test_a_long_file_wants_to_be_replaced(files: SimulatedFiles) -> None:
    file = ManifestFile(files, "/r")
    file.append([manifest.flushed_line(end) for end in range(2000)])
    assert file.wants_replacement
    again = ManifestFile(files, "/r")
    content = again.load()
    assert content is not None
    assert again.wants_replacement
    await again.replace(content)
    assert not again.wants_replacement
    assert ManifestFile(files, "/r").load() == replace(content, has_start=True)


async def test_a_file_with_a_torn_line_wants_to_be_replaced(files: SimulatedFiles) -> None:
    ManifestFile(files, "/r").append([manifest.start_line(3)])
    files.open("/r/manifest").append(bytes(20) + manifest.flushed_line(4))
    file = ManifestFile(files, "/r")
    content = file.load()
    assert content is not None
    assert content.log_start == 3
    assert file.wants_replacement
    await file.replace(content)
    assert not file.wants_replacement
