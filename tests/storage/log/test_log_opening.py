"""What the opening of a directory trusts, what it recovers, and what it refuses as damaged."""

from collections.abc import Callable

import pytest
from batch_samples import header_of, make_batch
from logs import log_at
from simulation.files import SimulatedFile, SimulatedFiles

from tailrace.storage.directory.directory_syncs import DirectorySyncs
from tailrace.storage.indexes.open_files import OpenFiles
from tailrace.storage.log.log import Log
from tailrace.storage.log_config import LogConfig
from tailrace.storage.manifest.manifest import flushed_line, start_line
from tailrace.storage.segments.segment_recovery import LogDamagedError, WouldLoseRecordsError
from tailrace.storage.verification.replica_verification import ReplicaVerification

pytestmark = pytest.mark.trio

DIRECTORY = "/r"
CONFIG = LogConfig(segment_bytes_max=1000, index_interval_bytes=100)


def _path(base: int, suffix: str = "log") -> str:
    return f"{DIRECTORY}/{base:020}.{suffix}"


def _open(files: SimulatedFiles, *, clean: bool = True, open_files: OpenFiles | None = None) -> Log:
    return log_at(files, DIRECTORY, CONFIG, clean=clean, open_files=open_files)


def _append(log: Log, end: int) -> None:
    """Appends batches of one offset and 100 bytes each, up to the offset `end`."""
    for offset in range(log.log_end, end):
        batch = make_batch(offset)
        log.append(batch, header_of(batch))


async def _closed_log(*, clean: bool = True) -> SimulatedFiles:
    """Makes a closed log of 25 batches of one offset and 100 bytes each, in segments at 0, 10 and 20."""
    files = SimulatedFiles()
    log = _open(files)
    _append(log, 25)
    await log.sync()
    await log.close(clean=clean)
    return files


async def test_after_a_clean_close_nothing_is_scanned() -> None:
    files = await _closed_log()
    log = _open(files)
    assert log.recovery.was_clean
    assert (log.recovery.scanned_bytes, log.recovery.indexes_rebuilt, log.recovery.events) == (0, 0, [])
    assert (log.log_end, log.synced_end, log.size_bytes) == (25, 25, 2500)


@pytest.mark.parametrize("closed_cleanly", [True, False])
async def test_otherwise_the_open_segment_is_scanned_and_no_other(closed_cleanly: bool) -> None:
    files = await _closed_log(clean=closed_cleanly)
    log = _open(files, clean=not closed_cleanly)
    assert not log.recovery.was_clean
    assert log.recovery.scanned_bytes == 500
    assert log.log_end == 25
    assert log.recovery.truncated_bytes == 0


@pytest.mark.parametrize("is_noted", [True, False])
async def test_records_that_a_failed_sync_may_have_lost_are_rewritten(is_noted: bool) -> None:
    files = SimulatedFiles()
    log = _open(files)
    _append(log, 5)
    if is_noted:
        await log.end_segment()
    else:
        await log.sync()
    _append(log, 18)
    files.syncs_fail = True
    with pytest.raises(OSError, match="broken"):
        await log.sync()
    after = files.after_kill()
    again = log_at(after, DIRECTORY, CONFIG, clean=False, rewrite_unsynced=True)
    assert again.log_end == 18
    await again.sync()
    await again.close()
    await after.sync_directory("")
    whole = _open(after.crash("synced"))
    assert [header.base_offset for header, _ in whole.headers(0, 18)] == list(range(18))


async def test_stamps_that_a_failed_sync_may_have_lost_are_rewritten() -> None:
    files = await _closed_log()
    log = _open(files)
    await log.restamp(5, 23, 7)
    files.syncs_fail = True
    with pytest.raises(OSError, match="broken"):
        await log.sync()
    after = files.after_kill()
    again = log_at(after, DIRECTORY, CONFIG, clean=False, rewrite_unsynced=True)
    await again.sync()
    await again.close()
    await after.sync_directory("")
    whole = _open(after.crash("synced"))
    assert [header.leader_epoch for header, _ in whole.headers(0, 25)] == [0] * 5 + [7] * 18 + [0] * 2


async def test_synced_records_are_not_rewritten(monkeypatch: pytest.MonkeyPatch) -> None:
    files = SimulatedFiles()
    log = _open(files)
    _append(log, 2)
    await log.sync()
    log.disk.note([flushed_line(log.synced_end)])
    _append(log, 3)
    await log.close(clean=False)
    positions = []
    write_at = SimulatedFile.write_at

    def note(file: SimulatedFile, position: int, data: bytes) -> None:
        if file.path == _path(0):
            positions.append((position, len(data)))
        write_at(file, position, data)

    monkeypatch.setattr(SimulatedFile, "write_at", note)
    log_at(files, DIRECTORY, CONFIG, clean=False, rewrite_unsynced=True)
    assert positions == [(200, 100)]


async def test_a_torn_tail_is_truncated_and_reported() -> None:
    files = await _closed_log()
    files.open(_path(20)).append(make_batch(25)[:70])
    log = _open(files, clean=False)
    assert (log.log_end, log.recovery.truncated_bytes) == (25, 70)
    assert "70 bytes truncated at position 500" in log.recovery.events[0]
    assert files.size(_path(20)) == 500


async def test_without_its_manifest_a_log_is_read_from_its_beginning() -> None:
    files = await _closed_log()
    files.remove(f"{DIRECTORY}/manifest")
    log = _open(files)
    assert (log.log_start, log.log_end) == (0, 25)
    assert log.recovery.scanned_bytes == 2500
    await log.close()
    assert _open(files).recovery.was_clean


@pytest.mark.parametrize("manifest", ["missing", "empty", "damaged"])
async def test_without_its_manifest_a_log_does_not_claim_that_its_beginning_was_deleted(manifest: str) -> None:
    """Other replicas would delete it as well."""
    files = SimulatedFiles()
    log = _open(files)
    _append(log, 15)
    await log.advance_log_start(12)
    if manifest == "missing":
        files.remove(f"{DIRECTORY}/manifest")
    elif manifest == "empty":
        files.open(f"{DIRECTORY}/manifest").truncate(0)
    else:
        content = files.read(f"{DIRECTORY}/manifest").replace(b'"start"', b'"stars"')
        files.open(f"{DIRECTORY}/manifest").write_at(0, content)
    names = files.list(DIRECTORY)
    with pytest.raises(LogDamagedError, match="begins with offset 10, and no intact manifest says"):
        _open(files)
    assert files.list(DIRECTORY) == names
    damage = [each.sentence for each in ReplicaVerification(files, DIRECTORY).findings() if each.is_damage]
    assert "does not say whether the records before offset 10 are deleted or lost" in damage


@pytest.mark.parametrize("is_written_anew", [False, True])
async def test_a_bit_of_the_manifest_that_flips_hides_no_log_start(is_written_anew: bool) -> None:
    files = SimulatedFiles()
    log = _open(files)
    _append(log, 15)
    await log.advance_log_start(12)
    if is_written_anew:
        await log.truncate(14)
    content = files.read(f"{DIRECTORY}/manifest")
    for position, byte in enumerate(content):
        files.open(f"{DIRECTORY}/manifest").write_at(0, content)
        files.open(f"{DIRECTORY}/manifest").write_at(position, bytes([byte ^ 1]))
        assert _open(files.crash("all"), clean=False).log_start == 12


async def test_a_damaged_line_of_the_manifest_costs_a_scan() -> None:
    files = await _closed_log()
    data = files.read(f"{DIRECTORY}/manifest")
    position = data.index(b'"base":10')
    files.open(f"{DIRECTORY}/manifest").write_at(position, b"?")
    log = _open(files)
    assert (log.log_end, log.recovery.scanned_bytes) == (25, 1000)
    assert "1 damaged line" in log.recovery.events[0]


def _remove(base: int) -> Callable[[SimulatedFiles], None]:
    return lambda files: files.remove(_path(base))


def _cut(base: int, size: int) -> Callable[[SimulatedFiles], None]:
    return lambda files: files.open(_path(base)).truncate(size)


def _lengthen(files: SimulatedFiles) -> None:
    files.open(_path(10)).append(b"x")


def _break_header(files: SimulatedFiles) -> None:
    files.open(_path(20)).write_at(216, b"\7")


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("damage", [_remove(0), _remove(10), _cut(0, 900), _cut(10, 950), _lengthen])
async def test_what_was_sealed_must_be_there(damage: Callable[[SimulatedFiles], None], clean: bool) -> None:
    files = await _closed_log()
    damage(files)
    with pytest.raises(LogDamagedError):
        _open(files, clean=clean)
    assert files.list(DIRECTORY) == (await _closed_log()).list(DIRECTORY) or damage is not _lengthen


async def test_a_broken_header_among_synced_records_is_not_truncated() -> None:
    files = await _closed_log()
    _break_header(files)
    with pytest.raises(LogDamagedError, match="position 200"):
        _open(files, clean=False)
    assert files.size(_path(20)) == 500


async def test_a_torn_batch_that_had_been_synced_is_damage() -> None:
    files = await _closed_log()
    files.open(_path(20)).truncate(450)
    with pytest.raises(LogDamagedError):
        _open(files, clean=True)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("damage", [_remove(20), _cut(20, 0), _cut(20, 400)])
async def test_a_synced_end_must_exist(damage: Callable[[SimulatedFiles], None], clean: bool) -> None:
    files = await _closed_log()
    damage(files)
    with pytest.raises(LogDamagedError, match="everything below offset 25 was on the disk"):
        _open(files, clean=clean)


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
async def test_a_lost_index_is_rebuilt_when_it_is_used(suffix: str) -> None:
    files = await _closed_log()
    for base in (0, 10, 20):
        files.remove(_path(base, suffix))
    open_files = OpenFiles(files)
    rebuilt: list[str] = []
    open_files.on_index_rebuilt = rebuilt.append
    log = _open(files, open_files=open_files)
    for offset in range(25):
        found = log.read(offset, 1, 25, at_least_one=True)
        assert found is not None
        assert header_of(found.read()).base_offset == offset
    assert rebuilt == [_path(base, "index") for base in (0, 10, 20)]
    assert files.exists(_path(10, suffix))


async def test_leftovers_are_removed_and_foreign_files_are_not() -> None:
    files = await _closed_log()
    leftovers = [_path(10, "log.cleaned"), _path(7, "index"), _path(7, "timeindex"), _path(7, "producers")]
    for path in [*leftovers, f"{DIRECTORY}/notes.txt"]:
        files.open(path, create=True).append(b"something")
    _open(files)
    assert not any(files.exists(path) for path in leftovers)
    assert files.exists(f"{DIRECTORY}/notes.txt")


async def test_an_opening_removes_segments_below_the_log_start() -> None:
    files = await _closed_log()
    old = files.read(_path(0))
    log = _open(files)
    await log.advance_log_start(12)
    await log.close()
    files.open(_path(0), create=True).append(old)
    log = _open(files)
    assert (log.log_start, log.size_bytes) == (12, 1500)
    assert not files.exists(_path(0))


async def test_an_expired_segment_that_comes_back_torn_is_no_damage() -> None:
    files = await _closed_log(clean=False)
    log = _open(files, clean=False)
    await log.truncate_fully(99)
    files.open(_path(20), create=True).append(make_batch(20)[:32])
    assert not [finding for finding in ReplicaVerification(files, DIRECTORY).findings() if finding.is_damage]
    log = _open(files, clean=False)
    assert (log.log_start, log.log_end) == (99, 99)
    assert not files.exists(_path(20))


async def test_a_log_that_does_not_open_leaves_no_file_open() -> None:
    for damage in (_break_header, _cut(20, 400), _remove(10), _lengthen):
        files = await _closed_log(clean=False)
        damage(files)
        open_files = OpenFiles(files)
        with pytest.raises(LogDamagedError):
            _open(files, clean=False, open_files=open_files)
        assert len(open_files) == 0


async def test_a_log_that_would_lose_records_leaves_no_file_open() -> None:
    files = SimulatedFiles()
    log = _open(files)
    _append(log, 5)
    files.open(_path(0)).write_at(290, b"x")
    open_files = OpenFiles(files)
    with pytest.raises(WouldLoseRecordsError):
        Log(
            files,
            DIRECTORY,
            CONFIG,
            clean=False,
            may_lose=False,
            open_files=open_files,
            directory_syncs=DirectorySyncs(files),
        )
    assert len(open_files) == 0


@pytest.mark.parametrize("log_start", [30, 25])
async def test_segments_removed_at_an_opening_are_closed(log_start: int) -> None:
    """Otherwise their blocks would stay allocated; here those of the last segment and of the one before it."""
    files = await _closed_log(clean=False)
    files.remove(f"{DIRECTORY}/manifest")
    files.open(f"{DIRECTORY}/manifest", create=True).append(start_line(log_start))
    if log_start == 25:
        batch = make_batch(25)
        files.open(_path(25), create=True).append(batch)
    open_files = OpenFiles(files)
    log = _open(files, clean=False, open_files=open_files)
    assert (log.log_start, [segment.base for segment in log.segments()]) == (log_start, [log_start])
    assert len(open_files) == (log_start == 25), "the file of the remaining segment"
