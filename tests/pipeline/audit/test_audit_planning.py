from itertools import pairwise
from pathlib import Path

from audited_spus import ThreeSpus

from tailrace.pipeline.audit.audit_planning import PartitionPlan, plan_partition
from tailrace.pipeline.audit.copy_finding import CopyFinder, Expected
from tailrace.runtime.files import RealFiles


def _plan(directory: Path) -> PartitionPlan:
    found = CopyFinder(RealFiles(read_only=True), [str(directory)]).find(Expected())
    (copies,) = found.copies.values()
    return plan_partition(copies)


async def test_tasks_cover_all_offsets_once(tmp_path: Path) -> None:
    await ThreeSpus(tmp_path).write()
    plan = _plan(tmp_path)
    for task_bytes, count in ((1000, 10), (8000, 2), (10**6, 1)):
        tasks = list(plan.tasks(task_bytes=task_bytes))
        assert len(tasks) >= count
        assert (tasks[0].start, tasks[-1].end) == (0, 200)
        assert all(one.end == other.start for one, other in pairwise(tasks))
        assert len({task.start for task in tasks}) == len(tasks)
    assert [copy.high_watermark for copy in tasks[0].copies] == [200] * 3


async def test_each_copy_is_compared_up_to_its_own_high_watermark(tmp_path: Path) -> None:
    spus = await ThreeSpus(tmp_path).write()
    await spus.spus[2].commit(70)
    plan = _plan(tmp_path)
    assert (plan.ends, plan.end) == ((200, 70, 200), 200)
    await spus.logs[1].advance_log_start(50)
    assert _plan(tmp_path).starts == (50, 0, 0)


async def test_a_log_whose_manifest_is_lost_begins_where_the_others_begin(tmp_path: Path) -> None:
    spus = await ThreeSpus(tmp_path).write()
    (spus.replica(3) / "manifest").unlink()
    spus.segments(3)[0].unlink()
    assert _plan(tmp_path).starts == (0, 0, 0)
    for number in (1, 2):
        await spus.logs[number].advance_log_start(60)
    first = int(spus.segments(3)[0].stem)
    assert _plan(tmp_path).starts == (60, 60, min(first, 60))
