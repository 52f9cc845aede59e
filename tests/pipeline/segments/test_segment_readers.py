import pickle
import subprocess
import sys
from pathlib import Path

from segment_logs import Spu, fill

from tailrace.pipeline.segments.segment_options import SegmentOptions, read_options
from tailrace.pipeline.segments.segment_readers import SegmentsReader, SegmentsStreamReader, SegmentTask


def _options(tmp_path: Path, **given: str) -> SegmentOptions:
    return read_options({"path": str(tmp_path), "columns": "offset", **given})


async def test_reader_and_tasks_reach_executors_as_they_are(tmp_path: Path) -> None:
    spu = Spu(tmp_path)
    log = spu.log()
    fill(log, 100)
    await spu.commit(100)
    reader = SegmentsReader(_options(tmp_path, includeUnsealed="true"))
    reader, tasks = pickle.loads(pickle.dumps((reader, reader.partitions())))
    found = [offset for task in tasks for part in reader.read(task) for offset in part.column("offset").to_pylist()]
    assert found == list(range(100))
    assert list(reader.read(None)) == []


def test_executors_import_neither_trio_nor_storage() -> None:
    code = (
        "import sys, tailrace.pipeline.segments.segment_source; "
        "print([name for name in sys.modules if name.startswith(('trio', 'structlog', 'tailrace.storage'))])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


async def test_a_stream_reads_each_record_once_while_the_log_grows(tmp_path: Path) -> None:
    spu = Spu(tmp_path)
    log = spu.log()
    reader = SegmentsStreamReader(_options(tmp_path))
    fill(log, 20)
    await log.sync()
    await spu.commit(20)
    position = reader.initialOffset()
    found: list[int] = []
    for _ in range(4):
        fill(log, 60)
        await log.sync()
        await spu.commit(log.log_end)
        end = reader.latestOffset()
        tasks = reader.partitions(position, end)
        assert all(isinstance(task, SegmentTask) for task in tasks)
        found += [
            offset for task in tasks for part in reader.read(task) for offset in part.column("offset").to_pylist()
        ]
        position = end
    assert found == list(range(log.segments()[-1].base))
    assert reader.partitions(position, position) == []


async def test_a_reader_of_a_stream_brings_no_module_of_storage_to_executors(tmp_path: Path) -> None:
    spu = Spu(tmp_path)
    fill(spu.log(), 20)
    await spu.commit(20)
    reader = SegmentsStreamReader(_options(tmp_path, includeUnsealed="true"))
    assert reader.latestOffset()
    assert b"walked_segments" not in pickle.dumps(reader)
