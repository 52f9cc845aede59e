from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tailrace.trigger.config.config_checks import ConfigCheckError, check_config
from tailrace.trigger.config.function_document import function_document
from tailrace.trigger.config.function_yaml import read_function_yaml
from tailrace.trigger.config.trigger_config import (
    Acknowledgement,
    Guarantee,
    OnExhausted,
    Order,
    Retry,
    RetryMode,
    SeekTo,
    TriggerConfig,
)
from tailrace.trigger.config.trigger_settings import RETRY_FIELDS, SETTINGS, merge_layers

_NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,10}", fullmatch=True)


def _milliseconds(minimum: int, maximum: int) -> st.SearchStrategy[float]:
    return st.integers(minimum, maximum).map(lambda milliseconds: milliseconds / 1000)


_RETRIES = st.builds(
    Retry,
    attempts=st.integers(1, 100),
    backoff=st.tuples(_milliseconds(0, 1000), _milliseconds(1000, 60_000)),
    mode=st.sampled_from(RetryMode),
    max_age=st.none() | _milliseconds(1000, 10**7),
    split_batch=st.booleans(),
)
_CONFIGS = st.builds(
    TriggerConfig,
    name=_NAMES,
    topic=_NAMES,
    group=_NAMES,
    brokers=st.lists(_NAMES.map(lambda host: f"{host}:9092"), max_size=2).map(tuple),
    replicas=st.integers(3, 1000),
    min_replicas=st.none() | st.integers(1, 2),
    max_workers=st.integers(1, 256),
    seek_to=st.sampled_from(SeekTo),
    read_batch_size=st.integers(0, 100_000),
    polling_interval=_milliseconds(0, 3_600_000),
    session_timeout=_milliseconds(5000, 3_600_000),
    heartbeat_interval=_milliseconds(20, 3999),
    commit_interval=_milliseconds(10, 3_600_000),
    batch_size=st.integers(0, 100_000),
    batch_seconds=_milliseconds(0, 3_600_000),
    event_timeout=_milliseconds(10, 10**8),
    stop_timeout=_milliseconds(0, 3_600_000),
    order=st.sampled_from(Order),
    guarantee=st.sampled_from(Guarantee),
    acknowledgement=st.sampled_from(Acknowledgement),
    open_events_max=st.integers(1, 10**6),
    acknowledgement_timeout=_milliseconds(100, 10**8),
    retry=_RETRIES,
    on_exhausted=st.sampled_from(OnExhausted),
    dead_letters=st.none() | _NAMES,
    worker_memory_max=st.none() | st.integers(2**25, 2**40),
    access_key=st.none() | _NAMES,
    access_user=st.none() | _NAMES,
    environment=st.dictionaries(st.from_regex(r"[A-Z]{1,5}", fullmatch=True), st.text("a=: \"'1", max_size=5)),
)


def _value(config: TriggerConfig, name: str) -> object:
    return getattr(config.retry, RETRY_FIELDS[name]) if name in RETRY_FIELDS else getattr(config, name)


def _without_contradictions(config: TriggerConfig) -> TriggerConfig:
    """Takes settings back to their defaults until none contradicts another."""
    default = TriggerConfig(name=config.name, topic=config.topic, group=config.group)
    while True:
        chosen = {name for name in SETTINGS if _value(config, name) != _value(default, name)}
        try:
            check_config(config, chosen)
        except ConfigCheckError as error:
            name = next(name for name in error.settings if name in chosen)
            if name in RETRY_FIELDS:
                retry = replace(config.retry, **{RETRY_FIELDS[name]: _value(default, name)})
                config = replace(config, retry=retry)
            else:
                config = replace(config, **{name: _value(default, name)})
        else:
            return config


@given(_CONFIGS)
def test_every_configuration_reads_back_as_it_was(config: TriggerConfig) -> None:
    config = _without_contradictions(config)
    text = yaml.safe_dump(function_document(config))
    file = read_function_yaml(text, "f.yaml")
    assert file.warnings == ()
    assert merge_layers([file.layer], origin="f.yaml") == config


def test_session_timeout_and_heartbeat_are_always_shown() -> None:
    document: Any = function_document(TriggerConfig(name="bill", topic="orders", group="billing"), "main:handler")
    attributes = document["spec"]["triggers"]["stream"]["attributes"]
    assert (attributes["sessionTimeout"], attributes["heartbeatInterval"]) == ("10s", "3s")
    assert document["spec"]["handler"] == "main:handler"
    assert set(attributes) == {"topics", "consumerGroup", "seekTo", "sessionTimeout", "heartbeatInterval"}
