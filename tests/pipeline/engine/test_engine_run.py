"""Tests what a run refuses before it begins; compat_tests/spark/ runs queries in real sessions."""

from pathlib import Path
from typing import Any

import pytest
from trigger_replicas import config
from worker_pools import function_in

from tailrace.pipeline.engine import run_trigger
from tailrace.pipeline.engine.engine_results import LOSSES_MAX, EngineCounts, RangeResult
from tailrace.pipeline.engine.engine_run import EngineRun, EngineRunSettings, handle_until_committed
from tailrace.pipeline.engine.engine_settings import EngineSettingsError
from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.runtime.network import Address
from tailrace.trigger.functions.function_source import FunctionLoadError, source_of
from tailrace.trigger.replica.replica_setup import ReplicaServers

NO_BROKER = ReplicaServers(brokers=(Address("127.0.0.1", 1),))


class _Speculating:
    """A session that runs slow tasks twice."""

    def __init__(self) -> None:
        self.conf = {"spark.speculation": "true"}


class _Remote:
    """A session of Spark Connect."""


_Remote.__module__ = "pyspark.sql.connect.session"


def _run(directory: Path, spark: Any, **settings: object) -> None:
    path = function_in(directory, "def handler(context, event): pass").path
    given = {"topic": "orders", **settings}
    run_trigger(spark, path, checkpoint=str(directory), bootstrap="127.0.0.1:1", settings=given)


@pytest.mark.parametrize(
    ("spark", "sentence"), [(_Speculating(), "spark.speculation would handle events twice"), (_Remote(), "classic")]
)
def test_sessions_that_cannot_do_it_are_refused(tmp_path: Path, spark: Any, sentence: str) -> None:
    with pytest.raises(JobError, match=sentence):
        _run(tmp_path, spark)


def test_settings_that_cannot_hold_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineSettingsError, match="aside"):
        _run(tmp_path, _Speculating(), retry_mode="aside")


def test_the_file_of_the_function_is_read_at_the_start(tmp_path: Path) -> None:
    missing = source_of(str(tmp_path / "missing.py"))
    settings = EngineRunSettings(config=config(), source=missing, servers=NO_BROKER, checkpoint="c")
    with pytest.raises(FunctionLoadError, match=r"missing\.py"):
        EngineRun(settings)


def _results(*marks: int, lost: str = "", problem: str = "") -> list[RangeResult]:
    return [RangeResult("orders", shard, 0, mark, lost=lost, problem=problem) for shard, mark in enumerate(marks)]


def _handle(attempts: list[list[RangeResult]]) -> tuple[int, list[float]]:
    """Handles a micro-batch. Returns how many attempts are left, and the pauses."""
    pauses: list[float] = []
    handle_until_committed(lambda: attempts.pop(0), EngineCounts(), pauses.append)
    return len(attempts), pauses


def test_a_micro_batch_is_handled_again_while_transactions_are_lost() -> None:
    attempts = [_results(3, 5, lost="fenced"), _results(3, 7, lost="fenced"), _results(9, 9), _results(9, 9)]
    assert _handle(attempts) == (1, [0.2, 0.2])


def test_a_micro_batch_that_does_not_get_on_ends_the_run() -> None:
    attempts = [_results(3, 5, lost="fenced")] * LOSSES_MAX
    with pytest.raises(JobError, match="shard orders/0: fenced; 5 attempts have failed"):
        _handle(attempts)
    assert attempts == []


def test_a_shard_with_a_problem_ends_the_run_at_once() -> None:
    attempts = [_results(3, problem="stopped at offset 3"), _results(4)]
    with pytest.raises(JobError, match="shard orders/0: stopped at offset 3"):
        _handle(attempts)
    assert len(attempts) == 1
