"""Compares all replicas of all partitions below some directories, as one Spark job."""

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.pipeline.jobs.spark_session import check_classic
from tailrace.pipeline.jobs.task_running import run_tasks
from tailrace.runtime.files import RealFiles

from .audit_planning import TASK_BYTES, PartitionPlan, plan_partition
from .audit_report import AuditResult, CopyRow, FindingRow, result_of
from .audit_tasks import AuditTask, TaskFacts, compare_range
from .audit_verdicts import Finding, Verdict, named, worst
from .copy_finding import CopyFinder, Expected, Found, FoundCopy, LostCopy
from .log_views import ViewError
from .partition_verdicts import findings_of, mismatched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tailrace.pipeline.jobs.job_progress import Report

_LOOKS_MAX = 4
"""How often a range in which something was found is looked at again before it counts."""
NO_EXPECTATION = Expected()

Run = Callable[[Sequence[AuditTask], str, "Report | None"], list[TaskFacts]]
"""Runs tasks, under a name and with progress, and returns what they found in the same order."""


class _Partition(Struct):
    """A partition, and what is known of it."""

    plan: PartitionPlan
    tasks: list[AuditTask]
    facts: list[TaskFacts]


def audit(
    spark: "SparkSession",
    paths: Sequence[str],
    *,
    topics: Sequence[str] = (),
    expected: Expected = NO_EXPECTATION,
    checks_bodies: bool = True,
    task_bytes: int = TASK_BYTES,
    report: "Report | None" = None,
) -> AuditResult:
    """Compares all replicas below the directories, and returns a verdict for each. SPUs may write meanwhile.

    `expected` says which replicas there should be, so that lost ones are noticed. Without `checks_bodies` only the
    headers of batches are read and compared. Raises JobError.
    """
    check_classic(spark, "audit")

    def run(tasks: Sequence[AuditTask], name: str, report: "Report | None") -> list[TaskFacts]:
        return run_tasks(spark, tasks, compare_range, name=name, report=report)

    return audit_with(
        run,
        paths,
        topics=topics,
        expected=expected,
        checks_bodies=checks_bodies,
        task_bytes=task_bytes,
        report=report,
    )


def audit_with(
    run: Run,
    paths: Sequence[str],
    *,
    topics: Sequence[str] = (),
    expected: Expected = NO_EXPECTATION,
    checks_bodies: bool = True,
    task_bytes: int = TASK_BYTES,
    report: "Report | None" = None,
) -> AuditResult:
    """Does what `audit` does, with any way to run tasks."""
    # Executors may have another working directory.
    finder = CopyFinder(RealFiles(read_only=True), [os.path.abspath(each) for each in paths], topics)
    found = finder.find(expected)
    try:
        partitions = [_planned(copies, checks_bodies, task_bytes) for copies in found.copies.values()]
    except ViewError as error:
        raise JobError(str(error)) from error
    tasks = [task for partition in partitions for task in partition.tasks]
    results = iter(run(tasks, "audit", report))
    for partition in partitions:
        partition.facts = [next(results) for _ in partition.tasks]
    _look_again(run, partitions)
    rows = [row for partition in partitions for row in _rows(partition, found)]
    if found.lost or any(row.findings for row in rows):
        # A topic that was deleted meanwhile has lost nothing.
        now = finder.find(expected, may_be_empty=True)
        there = {copy.directory for copies in now.copies.values() for copy in copies}
        rows = [row for row in rows if row.directory in there]
        rows += [_lost_row(each, found) for each in found.lost if each in now.lost]
        rows += [_lost_row(each, found) for each in now.lost if each not in found.lost and each.directory is not None]
    return result_of(rows, len({(row.topic_id, row.partition) for row in rows}))


def _planned(copies: Sequence[FoundCopy], checks_bodies: bool, task_bytes: int) -> _Partition:
    plan = plan_partition(copies)
    return _Partition(plan, list(plan.tasks(checks_bodies=checks_bodies, task_bytes=task_bytes)), [])


def _look_again(run: Run, partitions: Sequence[_Partition]) -> None:
    """Reads ranges again in which something was found.

    What an SPU was doing at that moment is done then. And it is known then whether the partition is compacted, because
    another range has shown it.
    """
    seen: dict[tuple[int, int], Sequence[Finding]] = {}
    for _ in range(_LOOKS_MAX):
        again: list[tuple[_Partition, int]] = []
        for number, partition in enumerate(partitions):
            findings = findings_of(partition.facts)
            is_compacted = any(each.compared.has_compacted for each in partition.facts)
            for place in sorted(_suspicious(partition, findings)):
                task = partition.tasks[place]
                is_same = seen.get((number, place)) == findings and task.allows_gaps == is_compacted
                if is_same and partition.facts[place].is_settled:
                    continue
                seen[number, place] = findings
                partition.tasks[place] = replace(task, allows_gaps=is_compacted)
                again.append((partition, place))
        if not again:
            return
        results = run([partition.tasks[place] for partition, place in again], "audit again", None)
        for (partition, place), facts in zip(again, results, strict=True):
            partition.facts[place] = facts


def _suspicious(partition: _Partition, findings: Iterable[Finding]) -> set[int]:
    """Returns the places of the ranges in which there is a finding."""
    ranges = [(each.first, each.last) for each in findings]
    ranges += [(each.base, each.end - 1) for each in mismatched(partition.facts)]
    return {
        place
        for place, task in enumerate(partition.tasks)
        if any(first < task.end and last >= task.start for first, last in ranges)
    }


def _rows(partition: _Partition, found: Found) -> list[CopyRow]:
    plan = partition.plan
    names = [_name(copy, found) for copy in plan.copies]
    findings = findings_of(partition.facts)
    rows = []
    for number, copy in enumerate(plan.copies):
        own = [
            FindingRow(each.verdict, each.first, each.last, named(each.sentence, names))
            for each in findings
            if each.copy == number
        ]
        if plan.views[number].damaged_lines:
            own.append(
                FindingRow(
                    Verdict.ROTTEN, plan.starts[number], plan.starts[number],
                    f"{plan.views[number].damaged_lines} lines of the manifest do not match their checksums",
                )
            )  # fmt: skip
        rows.append(
            CopyRow(
                copy.topic,
                str(copy.topic_id),
                copy.partition,
                found.spus.get(copy.data_directory),
                copy.directory,
                copy.is_shelf,
                worst(each.verdict for each in own),
                plan.starts[number],
                plan.ends[number],
                0 if copy.is_shelf else plan.end - plan.ends[number],
                sum(each.compared.batches[number] for each in partition.facts),
                sum(each.compared.records[number] for each in partition.facts),
                sum(each.bytes[number] for each in partition.facts),
                tuple(own),
            )
        )
    return rows


def _lost_row(lost: LostCopy, found: Found) -> CopyRow:
    end = max((copy.high_watermark or 0 for copy in found.copies.get((lost.topic_id, lost.partition), ())), default=0)
    finding = FindingRow(Verdict.MISSING, 0, max(0, end - 1), lost.reason)
    return CopyRow(
        lost.topic, str(lost.topic_id), lost.partition, found.spus.get(lost.directory or ""), lost.directory or "",
        False, Verdict.MISSING, 0, 0, end, 0, 0, 0, (finding,),
    )  # fmt: skip


def _name(copy: FoundCopy, found: Found) -> str:
    spu = found.spus.get(copy.data_directory)
    kind = "the shelf on " if copy.is_shelf else ""
    return kind + (f"SPU {spu}" if spu is not None else copy.data_directory)
