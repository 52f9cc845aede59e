"""Data directories of three SPUs with the same logs, and an audit of them without Spark."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segment_logs import Spu, fill

from tailrace.pipeline.audit.audit_report import AuditResult, CopyRow
from tailrace.pipeline.audit.audit_tasks import AuditTask, TaskFacts, compare_range
from tailrace.pipeline.audit.auditing import audit_with
from tailrace.runtime.files import RealFiles
from tailrace.storage.directory.layout import spu_path
from tailrace.storage.log.log import Log

if TYPE_CHECKING:
    from tailrace.pipeline.jobs.job_progress import Report

TASK_BYTES = 3000
"""Small enough that a partition takes several tasks."""


def run_here(tasks: Sequence[AuditTask], name: str, report: "Report | None") -> list[TaskFacts]:
    """Runs tasks in this process."""
    return [compare_range(task) for task in tasks]


def audit_below(directory: Path, **options: Any) -> AuditResult:
    return audit_with(run_here, [str(directory)], **{"task_bytes": TASK_BYTES, **options})


def verdicts(result: AuditResult) -> dict[int | None, str]:
    """Returns the verdict on each SPU's copies that are not equal."""
    return {copy.spu: str(copy.verdict) for copy in result.copies if copy.verdict != "equal"}


def row(result: AuditResult, spu: int, partition: int = 0) -> CopyRow:
    (found,) = (each for each in result.copies if (each.spu, each.partition) == (spu, partition) and each.directory)
    return found


class ThreeSpus:
    """Three SPUs in directories below one."""

    def __init__(self, directory: Path, **config: Any) -> None:
        self.directory = directory
        self.spus = {number: Spu(directory / f"spu-{number}", **config) for number in (1, 2, 3)}
        self.logs: dict[int, Log] = {}
        for number, spu in self.spus.items():
            RealFiles().make_directories(spu.directory)
            Path(spu_path(spu.directory)).write_text(f"tailrace spu {number}\n")

    async def write(self, count: int = 200) -> "ThreeSpus":
        """Writes the same records to all, and commits them."""
        for number, spu in self.spus.items():
            log = self.logs[number] = spu.log()
            fill(log, count)
            await log.sync()
            await spu.commit(log.log_end)
        return self

    async def commit(self) -> None:
        for number, spu in self.spus.items():
            await self.logs[number].sync()
            await spu.commit(self.logs[number].log_end)

    def replica(self, spu: int) -> Path:
        (found,) = (self.directory / f"spu-{spu}").glob("topics/events/*/0")
        return found

    def segments(self, spu: int) -> list[Path]:
        return sorted(self.replica(spu).glob("*.log"))


def flip(path: Path, position: int, mask: int = 1) -> None:
    """Flips bits of a file."""
    content = bytearray(path.read_bytes())
    content[position] ^= mask
    path.write_bytes(content)
