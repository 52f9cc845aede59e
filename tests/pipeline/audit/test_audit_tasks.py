from collections.abc import Callable
from pathlib import Path

from audited_spus import ThreeSpus, flip

from tailrace.pipeline.audit.audit_tasks import AuditTask, TaskCopy, compare_range
from tailrace.pipeline.audit.audit_verdicts import Verdict
from tailrace.pipeline.audit.log_views import LogView, view_of


def _task(spus: ThreeSpus, end: int = 200) -> AuditTask:
    copies = tuple(TaskCopy(str(spus.replica(number)), 0, end) for number in spus.spus)
    return AuditTask("events", "id", 0, 0, end, copies)


async def test_a_range_without_findings_is_read_once(tmp_path: Path) -> None:
    spus = await ThreeSpus(tmp_path).write()
    facts = compare_range(_task(spus))
    assert (facts.compared.findings, facts.compared.records, facts.is_settled) == ([], [200] * 3, True)
    assert facts.bytes == [sum(path.stat().st_size for path in spus.segments(1))] * 3


async def test_a_segment_that_was_deleted_meanwhile_is_no_loss(tmp_path: Path) -> None:
    spus = await ThreeSpus(tmp_path).write()
    before = {str(spus.replica(number)): view_of(str(spus.replica(number))) for number in spus.spus}
    await spus.logs[2].advance_log_start(100)
    assert len(spus.segments(2)) < len(spus.segments(1))
    facts = compare_range(_task(spus), _first_then_now(before))
    assert facts.compared.findings == []


async def test_a_change_that_explains_nothing_does_not_hide_a_finding(tmp_path: Path) -> None:
    spus = await ThreeSpus(tmp_path).write()
    before = {str(spus.replica(number)): view_of(str(spus.replica(number))) for number in spus.spus}
    await spus.logs[2].advance_log_start(50)
    flip(spus.segments(3)[-1], 100)
    facts = compare_range(_task(spus), _first_then_now(before))
    assert [(each.copy, each.verdict) for each in facts.compared.findings] == [(2, Verdict.ROTTEN)]


async def test_a_log_that_changes_all_the_time_is_not_settled(tmp_path: Path) -> None:
    spus = await ThreeSpus(tmp_path).write()
    flip(spus.segments(3)[-1], 100)
    starts = iter(range(1, 100))

    def always_other(directory: str) -> LogView:
        view = view_of(directory)
        return type(view)(view.directory, next(starts), *[getattr(view, name) for name in view.__struct_fields__[2:]])

    assert not compare_range(_task(spus), always_other).is_settled


def _first_then_now(before: dict[str, LogView]) -> Callable[[str], LogView]:
    """Returns a view of the past once for each directory, as if the log had changed while it was read."""
    return lambda directory: before.pop(directory, None) or view_of(directory)
