"""Jobs run lists of tasks on Spark."""

from __future__ import annotations

import os

import pytest
from pyspark.sql import SparkSession

from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.pipeline.jobs.task_running import run_tasks


def test_results_come_in_the_order_of_the_tasks_with_progress(spark_session: SparkSession) -> None:
    def work(number: int) -> tuple[int, int]:
        return number * number, os.getpid()

    seen: list[tuple[int, int]] = []
    found = run_tasks(
        spark_session, range(20), work, name="squares", report=lambda done, total: seen.append((done, total))
    )
    assert [square for square, _ in found] == [number * number for number in range(20)]
    assert os.getpid() not in {process for _, process in found}
    assert seen[0][0] <= seen[-1][0] and seen[-1] == (20, 20)
    assert run_tasks(spark_session, [], work, name="nothing") == []


def test_a_job_fails_with_the_sentence_of_its_task(spark_session: SparkSession) -> None:
    def work(number: int) -> int:
        if number == 3:
            raise JobError("piece 3 is missing in /data: mount it")
        return number

    with pytest.raises(JobError, match=r"^piece 3 is missing in /data: mount it$"):
        run_tasks(spark_session, range(5), work, name="pieces")
