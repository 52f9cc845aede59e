from types import SimpleNamespace

from tailrace.pipeline.jobs.job_progress import StageTasks, stages_of, task_counts


def test_tasks_of_all_stages_count() -> None:
    assert task_counts([StageTasks(4, 4, 0), StageTasks(8, 2, 1)]) == (6, 12)
    assert task_counts([]) == (0, 0)


def test_a_stage_that_is_run_again_has_no_more_done_than_tasks() -> None:
    assert task_counts([StageTasks(4, 6, 2)]) == (4, 4)


def test_spark_is_asked_for_the_stages_of_a_job_group() -> None:
    jobs = {1: SimpleNamespace(stageIds=[10, 11]), 2: SimpleNamespace(stageIds=[11, 12]), 3: None}
    infos = {10: SimpleNamespace(numTasks=4, numCompletedTasks=3, numFailedTasks=1)}
    tracker = SimpleNamespace(
        getJobIdsForGroup=lambda group: list(jobs) if group == "audit" else [],
        getJobInfo=jobs.__getitem__,
        getStageInfo=infos.get,
    )
    spark = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker))
    assert stages_of(spark, "audit") == [StageTasks(4, 3, 1)]  # type: ignore[arg-type]
    assert stages_of(spark, "other") == []  # type: ignore[arg-type]


def test_a_session_of_connect_tells_nothing() -> None:
    assert stages_of(object(), "audit") == []  # type: ignore[arg-type]
