"""Reading segments needs no more memory for ten times as much data, neither in Python workers nor in the JVM."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import trio
from pyspark.sql import SparkSession
from segment_logs import START_MS, Spu

from tailrace.pipeline.segments.segment_source import register
from tailrace.protocol.batches.compression import Compression
from tailrace.protocol.batches.record_batch import read_header, stamp
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.storage.log_config import LogConfig

from .memory_peaks import Peak, can_be_measured, forget_peaks, peaks

PARTITIONS = 2
VALUE_BYTES, PER_BATCH = 100_000, 10
BATCHES = 1000
"""How many batches a partition has: 1 GB of values, which take a twentieth of that in the files."""
SHARE = 10
"""The large read has so many times the data of the small one."""
WORKER_GROWTH_MAX = 100 * 2**20
JVM_GROWTH_MAX = 450 * 2**20
"""Most of the JVM's memory is a heap, which it may fill before it collects garbage. All data would be 2 GB."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("spu")
    trio.run(_write, directory)
    return directory


async def _write(directory: Path) -> None:
    """Writes the same batch again and again. Only its offset differs, which the checksum does not cover."""
    chance = random.Random(1)
    values = [chance.randbytes(VALUE_BYTES // 20).ljust(VALUE_BYTES, b"v") for _ in range(PER_BATCH)]
    records = [Record(number, START_MS, b"key", value) for number, value in enumerate(values)]
    batch = build_batch(records, leader_epoch=0, compression=Compression.LZ4)
    spu = Spu(directory, LogConfig())
    for partition in range(PARTITIONS):
        log = spu.log(partition)
        for number in range(BATCHES):
            stamp(batch, 0, number * PER_BATCH, 0)
            log.append(memoryview(batch), read_header(batch))
        await log.sync()
        await spu.commit(log.log_end, partition)


@pytest.mark.skipif(not can_be_measured(), reason="only Linux tells the peak of a process")
def test_ten_times_as_much_data_needs_no_more_memory(spark_session: SparkSession, data: Path) -> None:
    register(spark_session)
    every = BATCHES * PER_BATCH
    _peak_of_read(spark_session, data, every // SHARE)  # starts the workers
    small = _peak_of_read(spark_session, data, every // SHARE)
    large = _peak_of_read(spark_session, data, every)
    assert small.worker > 0
    assert large.worker - small.worker < WORKER_GROWTH_MAX, f"{small} for a tenth of the data, {large} for all"
    assert large.jvm - small.jvm < JVM_GROWTH_MAX, f"{small} for a tenth of the data, {large} for all"


def _peak_of_read(session: SparkSession, data: Path, end: int) -> Peak:
    forget_peaks(session)
    frame = session.read.format("tailrace-segments").options(includeUnsealed="true", endingOffsets=str(end))
    (row,) = frame.load(str(data)).selectExpr("count(*)", "sum(length(value))", "sum(offset)").collect()
    assert list(row) == [PARTITIONS * end, PARTITIONS * end * VALUE_BYTES, PARTITIONS * end * (end - 1) // 2]
    return peaks(session)
