"""Tests what each setting of a trigger does on Spark."""

from math import inf
from pathlib import Path

import pytest

from tailrace.pipeline.engine.engine_settings import (
    TREATMENTS,
    EngineSettingsError,
    Way,
    engine_config,
    without_effect,
    workers_of_task,
)
from tailrace.trigger.config.trigger_config import Guarantee, Order, Retry, RetryMode, TriggerConfig
from tailrace.trigger.config.trigger_settings import SETTINGS


def _config(**given: object) -> TriggerConfig:
    return TriggerConfig(name="bill", topic="orders", group="billing", **given)  # type: ignore[arg-type]


def test_every_setting_has_a_treatment() -> None:
    assert TREATMENTS.keys() == SETTINGS.keys()


def test_settings_without_effect_are_those_that_were_changed_and_do_nothing() -> None:
    config = _config(replicas=3, batch_seconds=1.0, event_timeout=5.0, max_workers=2)
    assert without_effect(config, Way.STREAM) == ["batch_seconds", "max_workers", "replicas"]
    assert without_effect(_config(), Way.STREAM) == without_effect(_config(), Way.BACKFILL) == []


def test_a_backfill_has_no_use_for_the_settings_of_reads_and_members() -> None:
    config = _config(polling_interval=1.0, session_timeout=5.0, retry=Retry(max_age=3.0))
    assert without_effect(config, Way.STREAM) == []
    assert without_effect(config, Way.BACKFILL) == ["polling_interval", "retry_max_age", "session_timeout"]
    assert engine_config(config, Way.STREAM).retry.max_age == 3.0
    assert engine_config(config, Way.BACKFILL).retry.max_age is None


def test_retries_aside_are_refused() -> None:
    with pytest.raises(EngineSettingsError, match="retry_mode aside"):
        engine_config(_config(retry=Retry(mode=RetryMode.ASIDE)), Way.STREAM)


def test_only_an_exactly_once_backfill_has_a_commit_interval() -> None:
    once = _config(guarantee=Guarantee.EXACTLY_ONCE, commit_interval=3.0)
    assert engine_config(once, Way.STREAM).is_exactly_once
    assert without_effect(once, Way.BACKFILL) == []
    assert without_effect(_config(commit_interval=3.0), Way.BACKFILL) == ["commit_interval"]
    assert without_effect(_config(commit_interval=3.0), Way.STREAM) == []


def test_lists_of_events_are_full_and_reads_have_no_pauses() -> None:
    config = engine_config(_config(replicas=3, read_batch_size=64, polling_interval=0.5, batch_size=10), Way.STREAM)
    assert (config.replicas, config.read_batch_size, config.polling_interval) == (1, 0, 0.0)
    assert (config.batch_size, config.batch_seconds) == (10, inf)


def test_a_task_has_several_workers_only_for_an_order_by_key() -> None:
    assert workers_of_task(_config(max_workers=4)) == 1
    assert workers_of_task(_config(max_workers=4, order=Order.KEY)) == 4


def test_the_page_has_the_same_table() -> None:
    page = (Path(__file__).parents[3] / "docs" / "pipeline.md").read_text()
    for name, treatment in TREATMENTS.items():
        stream, backfill = ("yes" if way in treatment.holds else "–" for way in Way)
        assert f"| `{name}` | {stream} | {backfill} | {treatment.note} |" in page
