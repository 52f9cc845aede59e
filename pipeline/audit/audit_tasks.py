"""What a task does on an executor: compares the copies of one partition in one range of offsets.

SPUs may write meanwhile. So a task looks at the manifests before and after it has found something. If a segment was
compacted, deleted or stamped in between, the task reads the range again.
"""

from collections.abc import Callable

from msgspec import Struct, field

from .audit_verdicts import CopyBounds, Finding, RangeComparison, RangeFacts, Verdict
from .copy_scanning import CopyScan, SegmentPart
from .log_views import LogView, view_of

_TRIES = 6


class TaskCopy(Struct, frozen=True):
    """A copy that a task reads."""

    view: LogView
    """What the range has to know of the copy, as it was when the audit was planned."""
    start: int
    """The first offset that the copy should have."""
    high_watermark: int
    """The offset before which all of the copy is committed."""
    is_shelf: bool = False


class AuditTask(Struct, frozen=True):
    """One range of one partition."""

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int
    copies: tuple[TaskCopy, ...]
    checks_bodies: bool = True
    allows_gaps: bool = False
    """Whether another range has shown that the partition is compacted."""


class TaskFacts(Struct):
    """What a task has found."""

    compared: RangeFacts
    parts: list[SegmentPart] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)
    stamped: list[tuple[int, int]] = field(default_factory=list)
    """The end and the epoch of the stamps of each copy, by its manifest."""
    unfinished: list[int] = field(default_factory=list)
    """The copies that go on beyond their high watermark."""
    is_settled: bool = True
    """Whether no segment changed while the last findings were made."""

    @property
    def has_suspicion(self) -> bool:
        """Whether the task must look at anything again."""
        found = self.compared
        return bool(found.findings or found.falls or found.differences)


def compare_range(task: AuditTask, view: Callable[[str], LogView] = view_of) -> TaskFacts:
    """Compares the copies in the range of the task. Raises ViewError."""
    views = [copy.view for copy in task.copies]
    for _ in range(_TRIES):
        facts = _compare(task, views)
        if not facts.has_suspicion:
            return facts
        before, views = views, [view(copy.view.directory) for copy in task.copies]
        if [_state(task, each) for each in before] == [_state(task, each) for each in views]:
            return facts
    facts.is_settled = False
    return facts


def _state(task: AuditTask, view: LogView) -> object:
    """Returns what must not change while the range is read."""
    segments = [
        (each.base, each.facts)
        for each in view.segments
        if each.base < task.end and (each.end is None or each.end > task.start)
    ]
    return segments, view.log_start > task.start and view.log_start, view.stamped_end, view.stamped_epoch


def _compare(task: AuditTask, views: list[LogView]) -> TaskFacts:
    bounds, scans = [], []
    for number, (copy, view) in enumerate(zip(task.copies, views, strict=True)):
        start = max(copy.start, view.log_start)
        starts = () if copy.is_shelf else view.epoch_starts
        bounds.append(CopyBounds(start, copy.high_watermark, not copy.is_shelf, starts))
        scans.append(
            CopyScan(number, view, task.start, task.end, copy.high_watermark, checks_bodies=task.checks_bodies)
        )
    is_compacted = task.allows_gaps or any(view.compacted_end > 0 for view in views)
    gaps_end = max((view.sealed_end for view in views), default=0) if is_compacted else 0
    comparison = RangeComparison(bounds, task.start, task.end, gaps_end)
    compared = comparison.compare([scan.items() for scan in scans])
    for scan in scans:
        compared.findings += [each for each in scan.findings if _counts(each, bounds[each.copy])]
    return TaskFacts(
        compared,
        [part for scan in scans for part in scan.parts],
        [scan.bytes for scan in scans],
        [(view.stamped_end, view.stamped_epoch) for view in views],
        [number for number, scan in enumerate(scans) if scan.has_more],
    )


def _counts(finding: Finding, bounds: CopyBounds) -> bool:
    return finding.last >= bounds.start or finding.verdict is Verdict.ROTTEN
