"""No bit of a replica's files can flip unnoticed, and an intact replica causes no finding."""

from collections.abc import Awaitable, Callable, Iterator
from random import Random
from typing import Any
from uuid import UUID

import pytest
from logs import log_at
from msgspec.structs import replace
from seeds import seeds
from simulation.files import Keep, SimulatedFiles

from tailrace.protocol.batches.control_batches import bridge
from tailrace.protocol.batches.record_batch import HEADER_SIZE, read_header, stamp_crc
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.storage.directory.checkpoints import write_clean_shutdown_mark
from tailrace.storage.directory.layout import replica_directory
from tailrace.storage.log.log import Log
from tailrace.storage.log_config import LogConfig
from tailrace.storage.manifest import manifest
from tailrace.storage.verification.replica_verification import ReplicaVerification
from tailrace.storage.verification.segment_verification import Finding

DATA = "/data"
TOPIC_ID = UUID(int=5)
REPLICA = replica_directory(DATA, "events", TOPIC_ID, 0)
CONFIG = LogConfig(segment_bytes_max=450, index_interval_bytes=100)


def batch_at(offset: int, epoch: int) -> bytearray:
    return build_batch(
        [Record(offset + number, 1000 + offset, b"key", b"value %d" % offset) for number in range(3)],
        base_offset=offset,
        leader_epoch=epoch,
        producer_id=7,
        producer_epoch=0,
        base_sequence=offset,
    )


def open_log(files: SimulatedFiles, *, clean: bool = True) -> Log:
    return log_at(files, REPLICA, CONFIG, clean=clean)


def append(log: Log, count: int, epoch: int) -> None:
    for _ in range(count):
        batch = batch_at(log.log_end, epoch)
        log.append(batch, read_header(batch))


async def closed_log() -> SimulatedFiles:
    """Makes a closed log with two leader epochs, sealed segments, one with a deleted beginning, and an open one."""
    files = SimulatedFiles()
    files.make_directories(REPLICA)
    log = open_log(files)
    append(log, 6, epoch=2)
    await log.sync()
    append(log, 5, epoch=3)
    await log.advance_log_start(4)
    await log.close()
    return files


def verify(files: SimulatedFiles) -> list[Finding]:
    return list(ReplicaVerification(files, REPLICA).findings())


def damage(files: SimulatedFiles) -> list[Finding]:
    return [finding for finding in verify(files) if finding.is_damage]


def content(files: SimulatedFiles, name: str) -> bytearray:
    return files.open(f"{REPLICA}/{name}").node.content


def last_log(files: SimulatedFiles) -> str:
    return [name for name in files.list(REPLICA) if name.endswith(".log")][-1]


def flips(size: int, exhaustive_end: int) -> Iterator[tuple[int, int]]:
    """Yields every bit up to `exhaustive_end`, and one bit of each later byte."""
    for position in range(size):
        for bit in range(8) if position < exhaustive_end else (position * 3 % 8,):
            yield position, bit


async def test_a_closed_log_has_no_findings() -> None:
    files = await closed_log()
    names = files.list(REPLICA)
    assert sum(name.endswith(".log") for name in names) == 4
    assert sum(name.endswith(".index") for name in names) == 4
    assert sum(name.endswith(".producers") for name in names) == 4
    assert verify(files) == []


async def test_no_bit_flips_unnoticed() -> None:
    files = await closed_log()
    for name in files.list(REPLICA):
        data = content(files, name)
        exhaustive_end = HEADER_SIZE if "index" in name or name == last_log(files) else 0
        for position, bit in flips(len(data), exhaustive_end):
            data[position] ^= 1 << bit
            found = damage(files)
            assert found, f"bit {bit} of byte {position} of {name}"
            assert any(finding.path == f"{REPLICA}/{name}" for finding in found), (name, position, bit, found)
            data[position] ^= 1 << bit
    assert verify(files) == []


async def test_the_place_of_a_flip_is_named() -> None:
    files = await closed_log()
    name = f"{0:020}.log"
    data = content(files, name)
    size = read_header(data).size
    for within in (0, 5, 7, 8, 11, 14, 16, 17, 22, 60, 70):
        for bit in range(8):
            position = size + within
            data[position] ^= 1 << bit
            first = damage(files)[0]
            assert (first.path, first.position) == (f"{REPLICA}/{name}", size), (within, bit)
            data[position] ^= 1 << bit


async def test_the_last_offset_of_a_closed_log_is_covered() -> None:
    files = await closed_log()
    data = content(files, last_log(files))
    position = len(data) - read_header(data).size
    data[position + 7] ^= 1 << 6
    assert [finding.position for finding in damage(files)] == [position]


async def test_whenever_a_broker_or_its_machine_stops_nothing_is_damaged() -> None:
    files, chance = SimulatedFiles(), Random(1)
    files.make_directories(REPLICA)
    found: list[Finding] = []
    states = 0

    def crash() -> None:
        nonlocal states
        keeps: list[Keep] = ["all", "synced", Random(chance.random())]
        for keep in keeps:
            states += 1
            found.extend(
                finding
                for finding in damage(files.crash(keep))
                # Files that are never synced may be torn; all of them can be rebuilt from the log.
                if not isinstance(keep, Random) or ".log" in finding.path
            )

    files.on_operation = crash
    log = open_log(files)
    for epoch in range(8):
        append(log, 6, epoch=epoch)
        await log.sync()
        append(log, 2, epoch=epoch)
        if epoch % 2 == 1:
            await log.restamp(log.log_end - 9, log.log_end - epoch, epoch + 1)
        if epoch % 3 == 1:
            await log.truncate(log.log_end - 12)
        if epoch % 3 == 2:
            await log.advance_log_start(log.log_end - 20)
        if epoch % 4 == 3:
            await log.close()
            log = open_log(files, clean=epoch == 3)
    assert states > 500
    assert found == []


@pytest.mark.parametrize("is_synced", [True, False])
async def test_a_killed_broker_leaves_notes_at_most(*, is_synced: bool) -> None:
    files = await closed_log()
    log = open_log(files)
    append(log, 1, epoch=3)
    if is_synced:
        await log.sync()
    append(log, 2, epoch=3)
    assert verify(files) == []
    content(files, last_log(files))[-10:] = b""
    (torn,) = verify(files)
    assert not torn.is_damage
    assert "will be truncated" in torn.sentence


async def test_damage_to_flushed_records_is_no_torn_tail() -> None:
    files = SimulatedFiles()
    files.make_directories(REPLICA)
    log = open_log(files)
    append(log, 7, epoch=3)
    await log.sync()
    assert verify(files) == []
    content(files, last_log(files))[-1] ^= 1
    (torn,) = damage(files)
    assert torn.path.endswith(last_log(files))


@pytest.mark.parametrize(("epoch", "index", "sentence"), [(2, 1, "2 follows 3"), (4, 2, "3 follows 4")])
async def test_an_epoch_that_falls_before_anything_was_closed(epoch: int, index: int, sentence: str) -> None:
    files = SimulatedFiles()
    files.make_directories(REPLICA)
    append(open_log(files), 3, epoch=3)
    data = content(files, f"{0:020}.log")
    size = read_header(data).size
    data[size + 15] = epoch
    _, note = verify(files)
    assert (note.position, note.is_damage) == (index * size, False)
    assert f"leader epoch {sentence}" in note.sentence


async def test_stamped_batches_are_no_damage() -> None:
    files = await closed_log()
    log = open_log(files, clean=True)
    for epoch in (5, 6):
        await log.restamp(log.log_end - 4, log.log_end, epoch)
        assert damage(files) == []
        batch = bridge(log.log_end, epoch)
        log.append(batch, read_header(batch))
        assert damage(files) == []
        append(log, 4, epoch=epoch)
        await log.sync()
        assert damage(files) == []
    await log.close()
    assert verify(files) == []
    for name in files.list(REPLICA):
        if name.endswith(".log"):
            content(files, name)[15] ^= 1
            (finding,) = damage(files)
            assert finding.path.endswith(name)
            content(files, name)[15] ^= 1


async def test_older_epochs_behind_batches_stamped_elsewhere_are_no_damage() -> None:
    """The batches were copied from two logs, and only one of these was stamped."""
    files = SimulatedFiles()
    log = open_log(files)
    await log.expect_stamped(100, 6)
    append(log, 10, epoch=6)
    await log.end_segment()
    append(log, 10, epoch=5)
    await log.end_segment()
    await log.close()
    assert any("after one of epoch 6" in note.sentence for note in verify(files))
    assert damage(files) == []


async def test_a_recovery_interrupted_between_two_segments_is_no_damage() -> None:
    files = await closed_log()
    log = open_log(files, clean=True)
    append(log, 30, epoch=4)
    *_, before_last, _ = log.segments()
    await log.restamp(before_last.base, before_last.end, 9)
    assert damage(files) == []
    assert any("after one of epoch 9" in note.sentence for note in verify(files))
    await log.close()
    assert damage(files) == []


async def test_missing_records_are_damage() -> None:
    files = await closed_log()
    second = [name for name in files.list(REPLICA) if name.endswith(".log")][1]
    files.remove(f"{REPLICA}/{second}")
    assert [finding.sentence for finding in damage(files)][1:] == ["is missing"]
    assert "is missing; the next begins at offset" in damage(files)[0].sentence
    files = await closed_log()
    last = f"{REPLICA}/{last_log(files)}"
    files.remove(last)
    assert damage(files)[0].path == last


async def test_a_manifest_of_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as later:
        later.setattr(manifest, "VERSION", 2)
        files = await closed_log()
    (first, *_) = damage(files)
    assert first.path == f"{REPLICA}/manifest"
    assert first.sentence == "its format version is 2, and this Tailrace knows only 1"


async def test_a_log_without_its_manifest() -> None:
    files = await closed_log()
    files.remove(f"{REPLICA}/manifest")
    assert damage(files) == []
    assert [finding.path for finding in verify(files)] == [f"{REPLICA}/manifest"]
    await write_clean_shutdown_mark(files, DATA, [(TOPIC_ID, 1)])
    assert damage(files) == [], "it was never opened, since its partition had moved away"
    await write_clean_shutdown_mark(files, DATA, [(TOPIC_ID, 0)])
    assert [finding.path for finding in damage(files)] == [f"{REPLICA}/manifest"]


async def test_a_missing_index_will_be_rebuilt() -> None:
    files = await closed_log()
    files.remove(f"{REPLICA}/{0:020}.index")
    content(files, f"{0:020}.timeindex")[-8:] = b""
    missing, short = verify(files)
    assert (missing.is_damage, short.is_damage) == (False, False)
    assert missing.sentence == "is missing, as after a crash; it will be rebuilt from the log"
    assert short.sentence == "has 16 bytes instead of 24, as after a crash; it will be rebuilt from the log"


async def test_a_wrongly_written_index_is_found_by_the_log() -> None:
    """The manifest's checksum alone would not tell."""
    files = SimulatedFiles()
    files.make_directories(REPLICA)
    log = open_log(files)
    append(log, 4, epoch=0)
    index = log.segment_list.open.reader.index.new  # type: ignore[union-attr]
    index.times[0] += 1
    await log.close()
    (wrong,) = damage(files)
    assert (wrong.path, wrong.position) == (f"{REPLICA}/{0:020}.timeindex", 0)


async def test_a_consistent_checksum_does_not_hide_other_records() -> None:
    """The checksum of the segment reveals a batch that was replaced by another one with a right checksum."""
    files = await closed_log()
    data = content(files, f"{0:020}.log")
    size = read_header(data).size
    data[size - 2] ^= 1
    stamp_crc(data, 0, size)
    (finding,) = damage(files)
    assert finding.sentence.startswith("its checksum is ")


async def test_a_snapshot_of_another_life_of_the_log() -> None:
    """It is intact, but not the one that the manifest names."""
    files = await closed_log()
    first, *_, last = (name for name in files.list(REPLICA) if name.endswith(".producers"))
    content(files, last)[:] = content(files, first)
    (other,) = verify(files)
    assert not other.is_damage
    assert other.path == f"{REPLICA}/{last}"
    assert "not the one that the manifest names" in other.sentence
    files.remove(f"{REPLICA}/{last}")
    (missing,) = verify(files)
    assert missing.sentence.startswith("is missing")


async def test_leftovers_are_notes() -> None:
    files = await closed_log()
    for name in ("manifest.new", "notes.txt", f"{17:020}.index", f"{0:020}.log.cleaned"):
        files.open(f"{REPLICA}/{name}", create=True)
    notes = verify(files)
    assert [finding.is_damage for finding in notes] == [False] * 4


async def test_a_line_that_was_being_written_is_a_note() -> None:
    files = await closed_log()
    data = content(files, "manifest")
    data += data[:30]
    (note,) = verify(files)
    assert not note.is_damage


class MovingFiles:
    """Files that change during the verification: by chance a look is later than the one before."""

    def __init__(self, moments: list[SimulatedFiles], chance: Random) -> None:
        self._moments = moments
        self._chance = chance
        self._now = 0

    def __getattr__(self, name: str) -> object:
        self._now = min(self._now + self._chance.choice([0, 0, 0, 5]), len(self._moments) - 1)
        return getattr(self._moments[self._now], name)


async def _use(log: Log, chance: Random, now_ms: int) -> None:
    append(log, chance.randint(1, 4), epoch=now_ms // 300)
    offset = chance.randint(log.log_start, log.log_end)
    actions: list[Callable[[], Awaitable[object]]] = [
        log.sync,
        log.sync,
        lambda: log.apply_retention(1000 + now_ms, log.log_end),
        lambda: log.compact(1000 + now_ms, log.log_end),
        lambda: log.advance_log_start(offset),
        lambda: log.truncate(offset),
    ]
    await chance.choice(actions)()


@pytest.mark.parametrize("seed", seeds(60, always=5))
async def test_a_log_that_is_in_use_is_not_damaged(seed: int) -> None:
    chance = Random(35 + seed)
    files = SimulatedFiles()
    files.make_directories(REPLICA)
    config = replace(CONFIG, retention_ms=100, compacts=True, min_cleanable_dirty_ratio=0.0)
    log = log_at(files, REPLICA, config, clean=True)
    for turn in range(24):
        await _use(log, chance, turn * 30)
    moments = [files.after_kill()]
    files.on_operation = lambda: moments.append(files.after_kill())
    for turn in range(24, 40):
        await _use(log, chance, turn * 30)
    moving: Any = MovingFiles(moments, chance)
    assert [finding for finding in ReplicaVerification(moving, REPLICA).findings() if finding.is_damage] == []
