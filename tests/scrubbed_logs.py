"""Logs with flipped bits, and scrubs of them, for the tests of scrubbing and repair."""

from batch_samples import make_batch
from logs import log_at
from simulation.files import SimulatedFile, SimulatedFiles

from tailrace.storage.directory.layout import Kind, file_name
from tailrace.storage.log.log import Log
from tailrace.storage.segments.sealed_segment import SealedSegment
from tailrace.storage.segments.segment_scrub import DamagedBatch, OpenSegmentPrefix, SegmentScrub
from tailrace.storage.verification.replica_verification import ReplicaVerification

COUNT, SIZE = 10, 90
DIRECTORY = "/data/topics/events/7b4bd4a2-45c9-4a05-9f84-6a26aa4a4d6b/0"
COPIES = {5 * number: make_batch(5 * number, 5, size=SIZE, epoch=3) for number in range(COUNT)}


def segment_of(log: Log) -> SealedSegment:
    (segment,) = log.synced_segments()
    return segment


def flip(log: Log, position: int, bit: int = 0) -> None:
    file = segment_of(log).reader.log.get()
    (byte,) = file.read_at(position, 1)
    file.write_at(position, bytes([byte ^ 1 << bit]))


def content(log: Log) -> bytes:
    return segment_of(log).reader.log.get().read_at(0, 10_000)


def scrub(
    log: Log, copies: dict[int, bytearray] | None = None, *, headers_of: SegmentScrub | None = None
) -> tuple[SegmentScrub, list[DamagedBatch]]:
    """Scrubs the segment to its end with these copies, and with the corrections that `headers_of` suggests."""
    if headers_of is not None:
        tried = [scrub_to_end(other, copies) for other in headers_of.with_other_headers()]
        return next((each for each in tried if each[0].is_proven), tried[0])
    return scrub_to_end(SegmentScrub(segment_of(log)), copies)


def scrub_to_end(running: SegmentScrub, copies: dict[int, bytearray] | None) -> tuple[SegmentScrub, list[DamagedBatch]]:
    found = []
    while not running.is_at_end:
        damaged = running.step()
        if damaged is not None:
            found.append(damaged)
            copy = (copies or {}).get(damaged.offset)
            if copy is None or not running.repair(damaged, copy):
                running.skip(damaged)
    return running, found


def open_file(log: Log, files: SimulatedFiles) -> SimulatedFile:
    return files.open(f"{DIRECTORY}/{file_name(log.segments()[-1].base, Kind.LOG)}")


async def prefix_of(log: Log) -> OpenSegmentPrefix:
    check = log.check_open_segment()
    assert check is not None
    assert not check.step()
    damaged = await log.damaged_open_segment(check)
    assert isinstance(damaged, OpenSegmentPrefix)
    return damaged


async def reopened_with_a_time_that_has_flipped(log: Log, files: SimulatedFiles) -> Log:
    """Returns a log with a corrupt timestamp that was believed.

    The scan at the start computes no checksums of synced batches, and believes their headers.
    """
    flip(log, 3 * SIZE + 42, bit=5)
    await log.restamp(0, COUNT * 5, 4)
    await log.close(clean=False)
    reopened = log_at(files, DIRECTORY, log.config, clean=False)
    await reopened.sync()
    assert segment_of(reopened).facts.max_timestamp == 32, "as the header says"
    return reopened


def damage_found(files: SimulatedFiles) -> list[str]:
    return [each.sentence for each in ReplicaVerification(files, DIRECTORY).findings() if each.is_damage]
