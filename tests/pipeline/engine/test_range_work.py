"""Tests what tasks are given."""

import pickle

from tailrace.pipeline.engine.range_work import RangeWork, with_import_path
from tailrace.trigger.config.trigger_config import TriggerConfig
from tailrace.trigger.functions.function_source import FunctionSource

CONFIG = TriggerConfig(name="bill", topic="orders", group="billing")


def test_workers_import_from_where_their_task_does() -> None:
    config = with_import_path(CONFIG, ["", "/job.zip", "/lib"], {"PYTHONPATH": "/theirs:/lib"})
    assert config.environment == {"PYTHONPATH": "/theirs:/lib:/job.zip"}


def test_a_path_of_the_trigger_comes_first() -> None:
    given = TriggerConfig(name="bill", topic="orders", group="billing", environment={"PYTHONPATH": "/mine", "A": "1"})
    assert with_import_path(given, ["/lib"], {}).environment == {"PYTHONPATH": "/mine:/lib", "A": "1"}


def test_a_shard_that_was_just_added_has_the_newest_epoch() -> None:
    work = RangeWork(CONFIG, FunctionSource("/f.py"), epochs={0: 3, 1: 5})
    assert (work.epoch_of(0), work.epoch_of(1), work.epoch_of(2)) == (3, 5, 5)
    assert RangeWork(CONFIG, FunctionSource("/f.py")).epoch_of(0) == 0


def test_work_can_be_sent_to_executors() -> None:
    work = RangeWork(CONFIG, FunctionSource("/f.py", source="text"), (("127.0.0.1", 9092),), "spark", {0: 1})
    assert pickle.loads(pickle.dumps(work)) == work
