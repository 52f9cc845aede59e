"""Measures how fast one core decodes segments to Arrow: `PYTHONPATH=tests python bench/spark/decoder.py`.

It reads real segments from the page cache, and needs neither Spark nor a JVM.
"""

import random
import tempfile
import time
from pathlib import Path

import trio
from segment_logs import START_MS, Spu

from tailrace.pipeline.segments.query_planning import QueryPlan
from tailrace.pipeline.segments.segment_options import read_options
from tailrace.pipeline.segments.segment_readers import settings_of
from tailrace.pipeline.segments.segment_rows import rows_of
from tailrace.protocol.batches.compression import Compression
from tailrace.protocol.batches.record_batch import read_header
from tailrace.protocol.batches.records import Record, build_batch, read_records
from tailrace.storage.log_config import LogConfig

_ROWS = 200_000
_ROWS_PER_BATCH = 150
_CASES: tuple[tuple[str, dict[str, str]], ...] = (
    ("all columns", {}),
    ("key, value, offset", {"columns": "key,value,offset"}),
    ("offset", {"columns": "offset"}),
    ("header only", {"headerOnly": "true"}),
)


async def _fill(directory: Path, sizes: range, compression: Compression) -> float:
    """Writes a log, and returns the rows that `read_records` decodes in a second."""
    chance = random.Random(1)
    spu = Spu(directory, LogConfig())
    log = spu.log()
    seconds = 0.0
    while log.log_end < _ROWS:
        base = log.log_end
        values = [chance.randbytes(chance.choice(sizes)) for _ in range(_ROWS_PER_BATCH)]
        records = [
            Record(base + i, START_MS + base + i, b"key-%06d" % chance.randrange(10**6), value)
            for i, value in enumerate(values)
        ]
        batch = build_batch(records, base_offset=base, leader_epoch=0, compression=compression)
        log.append(memoryview(batch), read_header(batch))
        if base < _ROWS // 10:
            began = time.process_time()
            read_records(batch)
            seconds += time.process_time() - began
    log.roll()
    await log.sync()
    await spu.commit(log.log_end)
    return _ROWS / 10 / seconds


def _rows_per_second(directory: Path, given: dict[str, str]) -> float:
    best = 0.0
    for _ in range(5):
        options = read_options({"path": str(directory), **given})
        tasks = QueryPlan(options).tasks()
        began = time.process_time()
        for task in tasks:
            for _ in rows_of(task, settings_of(options)):
                pass
        best = max(best, _ROWS / (time.process_time() - began))
    return best


def main() -> None:
    kinds = (
        ("values of 100 B", range(100, 101), Compression.NONE),
        ("values of 50 to 400 B", range(50, 400), Compression.NONE),
        ("values of 50 to 400 B, lz4", range(50, 400), Compression.LZ4),
    )
    for kind, sizes, compression in kinds:
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            slow = trio.run(_fill, directory, sizes, compression)
            print(f"{kind:28} {'one record after the other':20} {slow / 1e6:7.2f} M rows/s of CPU time")
            for columns, given in _CASES:
                print(f"{kind:28} {columns:26} {_rows_per_second(directory, given) / 1e6:7.2f} M rows/s of CPU time")


if __name__ == "__main__":
    main()
