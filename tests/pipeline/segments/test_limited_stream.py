from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StructType
from segment_logs import Spu, fill

from tailrace.pipeline.segments.segment_source import SegmentsDataSource

limits: Any = pytest.importorskip("pyspark.sql.streaming.datasource", reason="limits of a stream need PySpark 4.2")


async def _reader(tmp_path: Path, **given: str) -> Any:
    spu = Spu(tmp_path)
    log = spu.log()
    fill(log, 200)
    await log.sync()
    await spu.commit(200)
    source = SegmentsDataSource({"path": str(tmp_path), "columns": "offset", "includeUnsealed": "true", **given})
    return source.streamReader(StructType().add("offset", "long"))


def _offsets(reader: Any, start: Any, end: Any) -> list[int]:
    tasks = reader.partitions(start, end)
    return [offset for task in tasks for part in reader.read(task) for offset in part.column("offset").to_pylist()]


@pytest.mark.parametrize("limit", [{"maxOffsetsPerTrigger": "30"}, {"maxBytesPerTrigger": "3000"}])
async def test_each_trigger_reads_at_most_the_limit(tmp_path: Path, limit: dict[str, str]) -> None:
    reader = await _reader(tmp_path, **limit)
    position, found, steps = reader.initialOffset(), [], 0
    while (end := reader.latestOffset(position, reader.getDefaultReadLimit())) != position:
        part = _offsets(reader, position, end)
        assert len(part) <= 60
        found += part
        position = end
        steps += 1
    assert found == list(range(200))
    assert steps > 3


async def test_available_now_ends_at_what_there_was_when_it_began(tmp_path: Path) -> None:
    reader = await _reader(tmp_path, maxOffsetsPerTrigger="150")
    reader.prepareForTriggerAvailableNow()
    spu = Spu(tmp_path)
    log = spu.log()
    fill(log, 100)
    await spu.commit(300)
    position, found = reader.initialOffset(), []
    while (end := reader.latestOffset(position, reader.getDefaultReadLimit())) != position:
        found += _offsets(reader, position, end)
        position = end
    assert found == list(range(200))
    assert reader.latestOffset(position, limits.ReadAllAvailable()) == position


async def test_without_a_limit_a_trigger_reads_all(tmp_path: Path) -> None:
    reader = await _reader(tmp_path)
    limit = reader.getDefaultReadLimit()
    assert isinstance(limit, limits.ReadAllAvailable)
    start = reader.initialOffset()
    assert _offsets(reader, start, reader.latestOffset(start, limit)) == list(range(200))
