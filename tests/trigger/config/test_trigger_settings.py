from typing import Any

import pytest

from tailrace.trigger.config.trigger_config import (
    Acknowledgement,
    OnExhausted,
    Order,
    Retry,
    RetryMode,
    SeekTo,
    TriggerConfig,
)
from tailrace.trigger.config.trigger_settings import (
    RETRY_FIELDS,
    SETTINGS,
    Given,
    Layer,
    TriggerConfigError,
    config_document,
    config_of_document,
    guess_text,
    merge_layers,
)


def _layer(place: str = "here", **values: object) -> Layer:
    return {name: Given(value, f"{place}: {name}") for name, value in values.items()}


def _config(**values: Any) -> TriggerConfig:
    return merge_layers([_layer(name="bill", topic="orders") | _layer(**values)], origin="billing.py")


def test_the_table_has_every_field_of_the_configuration() -> None:
    fields = set(TriggerConfig.__struct_fields__) - {"retry"}
    assert fields | set(RETRY_FIELDS) == set(SETTINGS)
    assert set(RETRY_FIELDS.values()) == set(Retry.__struct_fields__)


def test_session_timeout_and_heartbeat_are_10_and_3_seconds_by_default() -> None:
    config = _config()
    assert (config.session_timeout, config.heartbeat_interval) == (10.0, 3.0)


def test_other_defaults() -> None:
    config = _config()
    assert config.group == "bill", "the name of the trigger"
    assert config.seek_to is SeekTo.LATEST
    assert config.replicas == config.max_workers == 1
    assert config.order is Order.SHARD
    assert config.acknowledgement is Acknowledgement.AUTOMATIC
    assert config.retry == Retry(5, (0.1, 30.0), RetryMode.IN_ORDER)
    assert config.on_exhausted is OnExhausted.DEAD_LETTER
    assert config.dead_letter_topic == "orders.bill.dead"
    assert config.retry_topic == "orders.bill.retry"


def test_a_later_source_overrides_an_earlier_one() -> None:
    layers = [
        _layer("decorator", name="bill", topic="orders", group="billing", max_workers=2),
        _layer("file", topic="copies", max_workers="3"),
        _layer("flags", max_workers="4"),
    ]
    config = merge_layers(layers, origin="billing.py")
    assert (config.topic, config.group, config.max_workers) == ("copies", "billing", 4)


def test_retry_settings_become_one_retry() -> None:
    config = _config(retry_attempts="7", retry_backoff="1s..2s", retry_mode="aside", retry_max_age="1h")
    assert config.retry == Retry(7, (1.0, 2.0), RetryMode.ASIDE, 3600.0)


def test_an_error_names_the_place_and_the_value() -> None:
    with pytest.raises(TriggerConfigError, match=r"^here: max_workers: 0 is not a whole number from 1 to 256$"):
        _config(max_workers=0)


def test_an_error_never_shows_an_access_key() -> None:
    with pytest.raises(TriggerConfigError) as caught:
        _config(access_key="sec\0ret")
    assert "sec" not in str(caught.value)


def test_a_missing_topic_says_how_to_give_one() -> None:
    with pytest.raises(TriggerConfigError, match=r'^billing.py: the topic is missing: write @trigger\("TOPIC"\)'):
        merge_layers([_layer(name="bill")], origin="billing.py")


def test_a_contradiction_belongs_to_the_setting_that_was_given() -> None:
    with pytest.raises(TriggerConfigError, match=r"^here: session_timeout: the heartbeat interval of 3s is too long"):
        _config(session_timeout="2s")


def test_a_stored_configuration_reads_as_it_was() -> None:
    config = _config(environment={"A": "1"}, retry_mode="aside", brokers="one:9092,two:9092", min_replicas=1)
    assert config_of_document(config_document(config)) == config


def test_a_stored_configuration_that_is_wrong_is_one_sentence() -> None:
    with pytest.raises(TriggerConfigError, match=r"cannot be read: .*topic"):
        config_of_document({"name": "bill", "group": "x"})


def test_a_guess_ends_a_sentence() -> None:
    assert guess_text("sesionTimeout", ["sessionTimeout"]) == "; did you mean sessionTimeout?"
    assert guess_text("xyz", ["sessionTimeout"]) == ""
