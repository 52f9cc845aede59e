"""Tests what Spark runs in a task. The handling itself is tested beside it."""

from functools import partial

from pyspark import cloudpickle

from tailrace.pipeline.engine.engine_tasks import handle_rows
from tailrace.pipeline.engine.range_work import RangeWork
from tailrace.trigger.config.trigger_config import TriggerConfig
from tailrace.trigger.functions.function_source import FunctionSource

WORK = RangeWork(TriggerConfig(name="bill", topic="orders", group="billing"), FunctionSource("/f.py"))


def test_a_partition_without_rows_has_no_result() -> None:
    assert list(handle_rows(WORK, iter([]))) == []


def test_the_work_of_a_task_is_sent_by_its_name() -> None:
    packed = cloudpickle.dumps(partial(handle_rows, WORK))  # type: ignore[attr-defined,no-untyped-call,unused-ignore]
    assert b"tailrace.pipeline.engine.engine_tasks" in packed
