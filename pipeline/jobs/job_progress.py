"""The progress of a job that Spark runs: how many tasks of how many are done, from Spark's own status."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Report = Callable[[int, int], None]
"""Shows that `done` of `total` tasks are done. The command line passes a progress bar."""


class StageTasks(Struct, frozen=True):
    """The tasks of one stage."""

    total: int
    done: int
    failed: int


def task_counts(stages: Iterable[StageTasks]) -> tuple[int, int]:
    """Returns how many tasks are done, of how many. A stage that is run again may have more done than it has tasks."""
    known = list(stages)
    return sum(min(each.done, each.total) for each in known), sum(each.total for each in known)


def stages_of(spark: "SparkSession", group: str) -> list[StageTasks]:
    """Asks Spark for the stages of the jobs that run in a job group; none with Spark Connect, which does not tell."""
    try:
        tracker = spark.sparkContext.statusTracker()
    except Exception:
        return []
    jobs = [tracker.getJobInfo(each) for each in tracker.getJobIdsForGroup(group)]
    ids = {stage for job in jobs if job is not None for stage in job.stageIds}
    stages = [tracker.getStageInfo(each) for each in sorted(ids)]
    return [StageTasks(each.numTasks, each.numCompletedTasks, each.numFailedTasks) for each in stages if each]
