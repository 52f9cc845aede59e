"""Tests what a backfill refuses, and what is left to do."""

from pathlib import Path

import pytest
from archived_orders import archive_of
from msgspec.structs import replace
from trigger_replicas import config
from worker_pools import function_in

from tailrace.client.server_connection import UnreachableError
from tailrace.pipeline.engine.backfill_planning import BackfillError, Window
from tailrace.pipeline.engine.backfill_run import BackfillSettings, backfill_result, plan_backfill
from tailrace.pipeline.engine.engine_results import RangeResult
from tailrace.pipeline.engine.engine_settings import EngineSettingsError
from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.runtime.network import Address
from tailrace.trigger.config.trigger_config import Guarantee, Retry, RetryMode
from tailrace.trigger.replica.replica_setup import ReplicaServers


@pytest.fixture
def settings(tmp_path: Path) -> BackfillSettings:
    return BackfillSettings(
        config=config(),
        source=function_in(tmp_path, "def handler(context, event): pass"),
        archive=archive_of(tmp_path / "archive", {0: [(0, 8), (8, 16)], 1: [(0, 4)]}),
        output_archive=str(tmp_path / "output"),
    )


def test_each_partition_is_a_task(settings: BackfillSettings) -> None:
    plan = plan_backfill(settings)
    assert [(each.partition, len(each.chunks)) for each in plan.tasks] == [(0, 2), (1, 1)]
    assert plan.done_chunks == 0
    result = backfill_result(settings, plan, [[RangeResult("orders", 0, 0, 16, events=16)], []])
    assert (result.status, result.verdict) == (0, "all 3 chunks of orders are handled")
    assert (result.facts["events"], result.facts["chunks"]) == (16, 3)


def test_tasks_get_absolute_paths(settings: BackfillSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plan = plan_backfill(replace(settings, archive="archive", output_archive="output"))
    assert {(each.archive, each.output_archive) for each in plan.tasks} == {
        (str(tmp_path / "archive"), str(tmp_path / "output"))
    }


def test_what_cannot_be_meant_is_refused(settings: BackfillSettings) -> None:
    once = config(guarantee=Guarantee.EXACTLY_ONCE)
    wrong = {
        "the window ends before it begins": {"window": Window(2, 2)},
        "give --progress DIR": {"output_archive": None},
        "give no --progress": {"progress": "p"},
        "with exactly-once the cluster keeps": {"output_archive": None, "progress": "p", "config": once},
        "another directory": {"output_archive": settings.archive},
        "has no topic nothing": {"config": config(topic="nothing")},
    }
    for sentence, change in wrong.items():
        with pytest.raises(BackfillError, match=sentence):
            plan_backfill(replace(settings, **change))
    with pytest.raises(EngineSettingsError):
        plan_backfill(replace(settings, config=config(retry=Retry(mode=RetryMode.ASIDE))))
    with pytest.raises(JobError, match="is no archive"):
        plan_backfill(replace(settings, archive=settings.archive + "-missing"))


def test_topics_need_brokers(settings: BackfillSettings, tmp_path: Path) -> None:
    nobody = ReplicaServers(brokers=(Address("127.0.0.1", 1),))
    wanted = replace(settings, output_archive=None, progress=str(tmp_path / "progress"), servers=nobody)
    with pytest.raises(UnreachableError):
        plan_backfill(wanted)
    with pytest.raises(UnreachableError):
        plan_backfill(replace(wanted, progress=None, config=config(guarantee=Guarantee.EXACTLY_ONCE)))
