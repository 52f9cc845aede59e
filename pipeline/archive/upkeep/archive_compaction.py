"""Compacts an archive: merges small neighbouring chunks, so that it has few files of a good size.

The merged chunks take the place of the small ones in one commit. The old files stay for readers that have begun
before, until `clean` removes them.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tailrace.pipeline.archive.chunks.chunk_writing import WrittenChunks, remove_files
from tailrace.pipeline.archive.manifest.archive_manifest import Chunk
from tailrace.pipeline.archive.stores.archive_folder import ArchiveFolder, StoreOf, new_token
from tailrace.pipeline.jobs.job_results import JobResult
from tailrace.pipeline.jobs.spark_session import check_classic
from tailrace.pipeline.jobs.task_running import run_tasks
from tailrace.runtime.chance import Chance, RandomChance
from tailrace.runtime.wall_clock import SystemClock, WallClock

from .chunk_merging import MergeTask, merge_chunks
from .compaction_planning import TARGET_BYTES_DEFAULT, Merge, plan_merges

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tailrace.pipeline.jobs.job_progress import Report

NAME = "archive compact"
MERGES_PER_COMMIT = 64
"""How many merges are committed together. A compaction that is stopped keeps what it has committed."""

RunMerges = Callable[[Sequence[MergeTask]], Sequence[WrittenChunks]]
"""Runs the tasks of one commit."""


def compact(
    spark: "SparkSession",
    directory: str,
    *,
    target_bytes: int = TARGET_BYTES_DEFAULT,
    store_of: StoreOf | None = None,
    report: "Report | None" = None,
) -> JobResult:
    """Compacts the archive in `directory`. Raises JobError and ManifestError."""
    check_classic(spark, NAME)

    def run(tasks: Sequence[MergeTask]) -> list[WrittenChunks]:
        return run_tasks(spark, tasks, merge_chunks, name=NAME, report=report)

    return compact_folder(ArchiveFolder(directory, store_of), target_bytes, run, SystemClock(), RandomChance())


def compact_folder(
    folder: ArchiveFolder, target_bytes: int, run: RunMerges, wall_clock: WallClock, chance: Chance
) -> JobResult:
    """Plans merges, has them run, and commits them. Raises JobError and ManifestError."""
    manifest = folder.load().manifest
    files_before = sum(1 for _ in manifest.files())
    merged = lost = 0
    plan = plan_merges(manifest.chunks, target_bytes)
    for place in range(0, len(plan), MERGES_PER_COMMIT):
        merges = plan[place : place + MERGES_PER_COMMIT]
        written = run([MergeTask(folder.directory, each) for each in merges])
        committed = _commit(folder, list(zip(merges, written, strict=True)), wall_clock, chance)
        merged += committed
        lost += len(merges) - committed
    files_after = sum(1 for _ in folder.load().manifest.files())
    return JobResult(
        NAME,
        is_ok=True,
        verdict=_verdict(merged, lost),
        facts={"files before": files_before, "files after": files_after},
    )


def _verdict(merged: int, lost: int) -> str:
    if not merged and not lost:
        return "every chunk is large enough, or has no small neighbour"
    done = f"{_groups(merged)} of small chunks became one chunk{'' if merged == 1 else ' each'}"
    if not merged:
        done = "no chunk was merged"
    return f"{done}; {_groups(lost)} had been merged by another compaction meanwhile" if lost else done


def _groups(count: int) -> str:
    return f"{count} group{'' if count == 1 else 's'}"


def _commit(
    folder: ArchiveFolder, done: Sequence[tuple[Merge, WrittenChunks]], wall_clock: WallClock, chance: Chance
) -> int:
    """Commits merges, whatever other writers commit meanwhile. Returns how many still had their chunks."""
    while True:
        loaded = folder.load()
        known = {each.id for each in loaded.manifest.chunks}
        kept = [pair for pair in done if all(chunk.id in known for chunk in pair[0].chunks)]
        for _, written in [pair for pair in done if pair not in kept]:
            remove_files(folder.directory, written.chunks)
        done = kept
        if not done:
            return 0
        added: list[Chunk] = [chunk for _, written in done for chunk in written.chunks]
        removed = [chunk.id for merge, _ in done for chunk in merge.chunks]
        time_ms = wall_clock.now_ms()
        if folder.commit(loaded, new_token(chance), time_ms, chunks_added=added, chunks_removed=removed) is not None:
            return len(done)
