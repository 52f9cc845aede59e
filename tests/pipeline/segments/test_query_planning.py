from pathlib import Path

import pytest
from segment_logs import TOPIC_ID, Spu, fill

from tailrace.pipeline.segments.query_planning import QueryPlan
from tailrace.pipeline.segments.segment_options import OptionError, read_options
from tailrace.pipeline.segments.segment_reading import SegmentError
from tailrace.runtime.files import RealFiles

A, B = (TOPIC_ID, 0), (TOPIC_ID, 1)


async def _plan(tmp_path: Path, **given: str) -> QueryPlan:
    spu = Spu(tmp_path)
    for partition, count in ((0, 200), (1, 50)):
        log = spu.log(partition)
        if not log.log_end:
            fill(log, count)
        await log.sync()
        await spu.commit(count, partition)
    return QueryPlan(read_options({"path": str(tmp_path), "includeUnsealed": "true", **given}))


async def test_a_task_reads_about_so_many_bytes_or_a_partition_if_keys_matter(tmp_path: Path) -> None:
    plan = await _plan(tmp_path, maxSplitBytes="4096")
    tasks = plan.tasks()
    assert len(tasks) > 5
    (together,) = (await _plan(tmp_path)).tasks()
    assert [each for ranges in tasks for each in ranges] == list(together)
    with_headers = (await _plan(tmp_path, maxSplitBytes="4096", headerOnly="true")).tasks()
    assert len(with_headers) < len(tasks) / 2, "headers are less to read"
    plan = await _plan(tmp_path, latestByKey="true")
    assert [sum(each.end - each.start for each in ranges) for ranges in plan.tasks()] == [200, 50]


async def test_a_stream_begins_where_the_options_say(tmp_path: Path) -> None:
    plan = await _plan(tmp_path, startingOffsets='{"events":{"0":150}}')
    assert plan.first_positions() == {A: 150, B: 0}
    ranges = [each for task in plan.tasks_between({A: 150, B: 0}, {A: 200, B: 10}) for each in task]
    assert sum(each.end - each.start for each in ranges) == 60


async def test_a_stream_that_would_go_back_or_lost_a_partition_is_an_error(tmp_path: Path) -> None:
    plan = await _plan(tmp_path)
    with pytest.raises(SegmentError, match="events/0 ends at offset 200, and the stream has read up to offset 210"):
        plan.tasks_between({A: 210}, {A: 200})
    plan = await _plan(tmp_path, partitions="0")
    with pytest.raises(SegmentError, match="partition 1 of the topic"):
        plan.tasks_between({B: 5}, {B: 50})


async def test_a_limit_in_bytes_is_kept_and_every_trigger_proceeds(tmp_path: Path) -> None:
    plan = await _plan(tmp_path)
    latest = {A: 200, B: 50}
    position: dict = {}  # type: ignore[type-arg]
    steps = []
    while position != latest:
        position = plan.positions_within(position, latest, 5000)
        steps.append(position)
    assert len(steps) > 3
    assert plan.positions_within({}, latest, 1)[A] == plan.tasks()[0][0].end
    assert plan.positions_within({}, latest, 10**9) == latest


async def test_a_directory_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    class LockedFiles(RealFiles):
        def list(self, path: str) -> list[str]:
            if path.endswith("/topics"):
                raise PermissionError(13, "Permission denied", path)
            return super().list(path)

    await _plan(tmp_path)
    with pytest.raises(OptionError, match="/topics cannot be read: Permission denied"):
        QueryPlan(read_options({"path": str(tmp_path)}), LockedFiles(read_only=True))


async def test_offsets_of_other_topics_are_refused(tmp_path: Path) -> None:
    for name in ("startingOffsets", "endingOffsets"):
        plan = await _plan(tmp_path, **{name: '{"evnets":{"0":5}}'})
        with pytest.raises(OptionError, match=f"{name} names the topic evnets, and the query reads events"):
            plan.tasks()
    with pytest.raises(OptionError, match="startingOffsets names the topic evnets"):
        (await _plan(tmp_path, startingOffsets='{"evnets":{"0":5}}')).first_positions()


async def test_a_stream_may_begin_with_what_comes_after_its_start(tmp_path: Path) -> None:
    await _plan(tmp_path)
    given = {"path": str(tmp_path), "includeUnsealed": "true", "startingOffsets": "Latest"}
    assert QueryPlan(read_options(given, is_streaming=True)).first_positions() == {A: 200, B: 50}
    read_options(given)  # Spark asks for the schema
    with pytest.raises(OptionError, match="startingOffsets cannot be 'Latest': it takes earliest"):
        read_options(given, is_streaming=False)
