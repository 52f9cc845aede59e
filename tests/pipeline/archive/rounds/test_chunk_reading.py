from pathlib import Path
from uuid import UUID

import pytest
from segment_logs import TOPIC_ID, Spu, fill

from tailrace.pipeline.archive.chunks.chunk_writing import ChunkTarget
from tailrace.pipeline.archive.rounds.archive_planning import EARLIEST
from tailrace.pipeline.archive.rounds.archive_sources import SegmentSource
from tailrace.pipeline.archive.rounds.chunk_reading import ArchiveTask, archive_range
from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.pipeline.segments.log_gaps import Gap


async def test_a_task_archives_segments_and_what_they_do_not_have_any_more(tmp_path: Path) -> None:
    spu = Spu(tmp_path / "spu")
    log = spu.log()
    fill(log, 100)
    await log.sync()
    await spu.commit(100)
    source = SegmentSource([spu.directory])
    (extent,) = source.look(None, EARLIEST, None)
    target = ChunkTarget(str(tmp_path / "archive"), "events", str(TOPIC_ID), 0)
    tasks = list(source.tasks(extent, target, "0a1b", 30, 100))
    first = ArchiveTask(target, "0a1b", TOPIC_ID, 10, tasks[0].end, ranges=tasks[0].ranges)
    (chunk,) = archive_range(first).chunks
    chunk.check()
    assert (chunk.start, chunk.end, chunk.gaps) == (10, 100, (Gap(10, 29, "deleted"),))
    (gone,) = archive_range(ArchiveTask(target, "0a1b", TOPIC_ID, 10, 20)).chunks
    assert (gone.records, gone.gaps) == (0, (Gap(10, 19, "deleted"),))


def test_a_task_on_brokers_that_are_not_there_says_so(tmp_path: Path) -> None:
    target = ChunkTarget(str(tmp_path), "events", str(TOPIC_ID), 0)
    with pytest.raises(JobError, match="--bootstrap"):
        archive_range(ArchiveTask(target, "0a1b", UUID(int=0), 0, 10, ("nowhere",)))
    assert list(tmp_path.iterdir()) == []
