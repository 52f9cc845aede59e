"""A small log on a simulated disk, for tests of logs."""

from batch_samples import header_of, make_batch
from logs import log_at
from simulation.files import SimulatedFiles

from tailrace.protocol.batches.control_batches import bridge
from tailrace.protocol.batches.record_batch import stamp
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.storage.log.log import Log
from tailrace.storage.log_config import LogConfig

DIRECTORY = "/data/topics/events/7b4bd4a2-45c9-4a05-9f84-6a26aa4a4d6b/0"
CONFIG = LogConfig(segment_bytes_max=1000, index_interval_bytes=100)


def open_log(files: SimulatedFiles, config: LogConfig = CONFIG, *, clean: bool = False) -> Log:
    return log_at(files, DIRECTORY, config, clean=clean)


def append(log: Log, count: int = 1, *, size: int = 100, timestamp: int = 0, epoch: int = 0) -> None:
    for _ in range(count):
        batch = make_batch(log.log_end, size=size, timestamp=timestamp, epoch=epoch)
        log.append(batch, header_of(batch))


def offsets(log: Log) -> list[int]:
    found = []
    offset = log.log_start
    while (part := log.read(offset, 1, log.log_end, at_least_one=True)) is not None:
        header = header_of(part.read())
        found.append(header.base_offset)
        offset = header.next_offset
    return found


def produced(offset: int, epoch: int) -> bytearray:
    """Returns a batch of one of three producers, so that segments end with producer states."""
    record = Record(0, 1_700_000_000_000, None, b"a value")
    data = bytearray(build_batch([record], producer_id=offset % 3, producer_epoch=0, base_sequence=offset // 3))
    stamp(data, 0, offset, epoch)
    return data


def bridge_of(log: Log, epoch: int) -> None:
    batch = bridge(log.log_end, epoch)
    log.append(batch, header_of(batch))


async def recovered(files: SimulatedFiles, *, sync_first: bool) -> Log:
    """Makes a log in which epoch 1 left 25 batches; the leader of epoch 2 knew 15 committed ones, recovered the
    rest, and went on."""
    log = open_log(files)
    append(log, 25, epoch=1)
    if sync_first:
        await log.sync()
    await log.restamp(15, 25, 2)
    bridge_of(log, 2)
    append(log, 3, epoch=2)
    return log
