from pathlib import Path

from audited_spus import ThreeSpus, flip
from msgspec.structs import replace

from tailrace.pipeline.audit.audit_tasks import AuditTask, TaskCopy, compare_range
from tailrace.pipeline.audit.audit_verdicts import Verdict
from tailrace.pipeline.audit.log_views import LogView, view_of


def _task(spus: ThreeSpus, end: int = 200) -> AuditTask:
    copies = tuple(TaskCopy(view_of(str(spus.replica(number))).between(0, end), 0, end) for number in spus.spus)
    return AuditTask("events", "id", 0, 0, end, copies)


async def test_a_range_without_findings_is_read_once(tmp_path: Path) -> None:
    spus = await ThreeSpus(tmp_path).write()
    facts = compare_range(_task(spus))
    assert (facts.compared.findings, facts.compared.records, facts.is_settled) == ([], [200] * 3, True)
    assert facts.bytes == [sum(path.stat().st_size for path in spus.segments(1))] * 3


async def test_a_segment_that_was_deleted_since_the_audit_was_planned_is_no_loss(tmp_path: Path) -> None:
    spus = await ThreeSpus(tmp_path).write()
    task = _task(spus)
    await spus.logs[2].advance_log_start(100)
    assert len(spus.segments(2)) < len(spus.segments(1))
    assert compare_range(task).compared.findings == []


async def test_a_change_that_explains_nothing_does_not_hide_a_finding(tmp_path: Path) -> None:
    spus = await ThreeSpus(tmp_path).write()
    task = _task(spus)
    await spus.logs[2].advance_log_start(50)
    flip(spus.segments(3)[-1], 100)
    facts = compare_range(task)
    assert [(each.copy, each.verdict) for each in facts.compared.findings] == [(2, Verdict.ROTTEN)]
    assert facts.is_settled


async def test_a_log_that_changes_all_the_time_is_not_settled(tmp_path: Path) -> None:
    spus = await ThreeSpus(tmp_path).write()
    flip(spus.segments(3)[-1], 100)
    starts = iter(range(1, 100))

    def always_other(directory: str) -> LogView:
        return replace(view_of(directory), log_start=next(starts))

    assert not compare_range(_task(spus), always_other).is_settled
