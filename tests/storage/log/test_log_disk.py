"""What is on the disk after which call. What a crash leaves of a whole log: test_crash_states."""

import errno
from typing import Never

import pytest
from batch_samples import header_of, make_batch
from simulation.files import SimulatedFile, SimulatedFiles

from tailrace.storage.directory.directory_syncs import DirectorySyncs
from tailrace.storage.indexes.open_files import OpenFiles
from tailrace.storage.log.log_disk import LogDisk
from tailrace.storage.log_config import LogConfig
from tailrace.storage.manifest.manifest import Manifest, SegmentFacts
from tailrace.storage.manifest.manifest_file import ManifestFile
from tailrace.storage.segments.segment_list import Segments
from tailrace.storage.segments.segment_maker import SegmentMaker
from tailrace.storage.segments.segment_recovery import RecoveryReport

pytestmark = pytest.mark.trio

DIRECTORY = "/data/topics/events/7b4bd4a2-45c9-4a05-9f84-6a26aa4a4d6b/0"


class Parts:
    """A log's disk and segments, without the log."""

    def __init__(self) -> None:
        self.files = SimulatedFiles()
        self.files.make_directories(DIRECTORY)
        self.manifest_file = ManifestFile(self.files, DIRECTORY)
        self._maker = SegmentMaker(OpenFiles(self.files), DIRECTORY, LogConfig(), RecoveryReport())
        self.segments = Segments([], self._maker.new_segment(0))
        self.disk = LogDisk(self.files, DIRECTORY, self.segments, self.manifest_file, DirectorySyncs(self.files))

    def append(self, count: int) -> None:
        for _ in range(count):
            batch = make_batch(self.segments.open.end)
            self.segments.open.append(batch, (header_of(batch),))
            self.disk.unsynced_bytes += len(batch)

    def roll(self) -> None:
        sealed = self.segments.open.seal(0)
        self.segments.sealed.append(sealed)
        self.segments.open = self._maker.new_segment(sealed.end)

    def stated(self) -> Manifest:
        return self.manifest_file.load() or Manifest()


@pytest.fixture
async def parts() -> Parts:
    made = Parts()
    await made.files.sync_directory("")
    return made


def _as_it_is(facts: SegmentFacts) -> SegmentFacts:
    return facts


async def test_a_sync_brings_all_there_and_notes_what_is_sealed(parts: Parts) -> None:
    parts.append(3)
    parts.roll()
    parts.append(2)
    await parts.disk.sync(_as_it_is)
    assert (parts.disk.synced_end, parts.disk.unsynced_bytes) == (5, 0)
    assert (list(parts.stated().sealed), parts.stated().flushed_end) == ([0], 5)
    after = parts.files.crash("synced")
    assert [after.size(f"{DIRECTORY}/{base:020}.log") for base in (0, 3)] == [300, 200]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
async def test_on_a_full_disk_a_write_loses_nothing_and_a_sync_may(
    parts: Parts, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    parts.append(1)

    async def fail(*_: object) -> None:
        raise OSError(number, "it fails")

    with monkeypatch.context() as patch:
        patch.setattr(parts.files, "replace", fail)
        with pytest.raises(OSError, match="it fails"):
            await parts.disk.replace_manifest(Manifest())
    assert parts.disk.may_have_lost == (number == errno.EIO)
    with pytest.raises(OSError, match="it fails"):
        parts.disk.check()
    parts.disk.failure = None
    with monkeypatch.context() as patch:
        patch.setattr(SimulatedFile, "sync", fail)
        with pytest.raises(OSError, match="it fails"):
            await parts.disk.sync(_as_it_is)
    assert parts.disk.may_have_lost


async def test_a_possible_loss_is_never_revoked(parts: Parts) -> None:
    parts.disk.fail("it could not be read", OSError(errno.EIO, "it fails"))
    parts.disk.fail("nor could more be written", OSError(errno.ENOSPC, "it fails"))
    assert parts.disk.may_have_lost


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
async def test_a_directory_that_could_not_be_synced_behind_a_new_manifest_may_have_lost_a_file(
    parts: Parts, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    real = parts.files.sync_directory
    synced: list[str] = []

    async def fail(directory: str) -> None:
        synced.append(directory)
        if len(synced) > 1:  # the sync of the replacement
            raise OSError(number, "it fails")
        await real(directory)

    monkeypatch.setattr(parts.files, "sync_directory", fail)
    with pytest.raises(OSError, match="it fails"):
        await parts.disk.replace_manifest(Manifest())
    assert parts.disk.may_have_lost


async def test_a_note_without_room_is_written_by_the_next_sync(parts: Parts) -> None:
    parts.append(3)
    parts.roll()
    parts.append(2)
    parts.files.room_bytes = 0
    await parts.disk.sync(_as_it_is)
    assert parts.disk.failure is None
    assert (parts.disk.synced_end, parts.disk.unsynced_bytes, parts.stated().sealed) == (5, 0, {})
    assert not parts.segments.sealed[0].is_synced
    parts.files.room_bytes = None
    await parts.disk.sync(_as_it_is)
    assert (list(parts.stated().sealed), parts.stated().flushed_end) == ([0], 5)
    assert parts.segments.sealed[0].is_synced


async def test_directories_are_synced_once_for_each_segment(parts: Parts) -> None:
    synced: list[str] = []
    real = parts.files.sync_directory

    async def noting(directory: str) -> None:
        synced.append(directory)
        await real(directory)

    parts.files.sync_directory = noting  # type: ignore[method-assign]
    for _ in range(3):
        parts.append(1)
        await parts.disk.sync(_as_it_is)
    assert (len(synced), synced[0], synced[-1]) == (5, DIRECTORY, "/data")
    parts.roll()
    parts.append(1)
    await parts.disk.sync(_as_it_is)
    assert synced[5:] == [DIRECTORY]
    parts.disk.forget_entry()
    await parts.disk.sync(_as_it_is)
    assert synced[5:] == [DIRECTORY] * 2


async def test_a_failed_sync_is_never_retried(parts: Parts) -> None:
    parts.append(1)
    parts.files.syncs_fail = True
    with pytest.raises(OSError, match="broken"):
        await parts.disk.sync(_as_it_is)
    parts.files.syncs_fail = False
    with pytest.raises(OSError, match="sync failed"):
        await parts.disk.sync(_as_it_is)
    with pytest.raises(OSError, match="sync failed"):
        parts.disk.check()
    assert parts.disk.synced_end == 0


@pytest.mark.parametrize("call", ["open", "sync_directory"])
async def test_a_sync_that_lacked_an_open_file_may_be_retried(
    parts: Parts, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """It failed before it synced anything."""
    parts.append(1)
    parts.segments.open.reader.log.release()

    def refuse(*_: object, **__: object) -> Never:
        raise OSError(errno.EMFILE, "too many open files")

    with monkeypatch.context() as now:
        now.setattr(parts.files, call, refuse)
        with pytest.raises(OSError, match="too many open files"):
            await parts.disk.sync(_as_it_is)
    assert (parts.disk.failure, parts.disk.synced_end) == (None, 0)
    await parts.disk.sync(_as_it_is)
    assert parts.disk.synced_end == 1
    assert parts.files.crash("synced").size(f"{DIRECTORY}/{0:020}.log") == 100


async def test_a_new_manifest_omits_the_last_clean_close(parts: Parts) -> None:
    parts.append(1)
    parts.disk.closed = SegmentFacts(0, 1)
    await parts.disk.replace_manifest(Manifest(log_start=7))
    assert parts.disk.closed is None
    assert ManifestFile(parts.files.crash("synced"), DIRECTORY).load() == Manifest(log_start=7)
    parts.files.syncs_fail = True
    with pytest.raises(OSError, match="broken"):
        await parts.disk.replace_manifest(Manifest())
    with pytest.raises(OSError, match="sync failed"):
        parts.disk.check()


async def test_a_note_is_on_the_disk_when_it_was_synced(parts: Parts) -> None:
    parts.append(1)
    await parts.disk.sync(_as_it_is)
    file = parts.disk.note([b"not a fact\n"])
    await parts.disk.sync_note(file)
    assert parts.files.crash("synced").read(f"{DIRECTORY}/manifest").endswith(b"not a fact\n")
