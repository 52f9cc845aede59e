import pytest
from function_files import KAFKA, SHORT, config_of, error_of, file_of, with_attributes, with_line
from msgspec.structs import replace

from tailrace.trigger.config.function_yaml import read_function_yaml
from tailrace.trigger.config.trigger_config import (
    Acknowledgement,
    OnExhausted,
    Order,
    Retry,
    RetryMode,
    SeekTo,
)
from tailrace.trigger.config.trigger_settings import merge_layers


def test_a_file_for_kafka_reads_unchanged() -> None:
    config = config_of(KAFKA)
    assert (config.topic, config.group, config.max_workers) == ("mytopic", "my-consumer-group", 4)
    assert config.brokers == ("10.0.0.2:9092", "10.0.0.3:9092")
    assert config.seek_to is SeekTo.EARLIEST


def test_a_url_of_kafka_names_brokers_topic_and_group() -> None:
    config = config_of(SHORT.replace("http://v3io-webapi:8081/c/orders@g", "kafka://host:9005/topic@group"))
    assert (config.brokers, config.topic, config.group) == (("host:9005",), "topic", "group")


def test_the_access_key_is_the_password_or_comes_from_the_environment() -> None:
    assert config_of(with_line("password: abc")).access_key == "abc"
    generated = with_line("password: $generate")
    read = read_function_yaml(generated, "f.yaml", environment={"V3IO_ACCESS_KEY": "secret"})
    assert merge_layers([read.layer], origin="f.yaml").access_key == "secret"
    assert "needs the variable V3IO_ACCESS_KEY, which is not set" in error_of(generated)


@pytest.mark.parametrize(
    "line",
    [
        "workerAvailabilityTimeoutMilliseconds: 10000",
        "partitions: []",
        "partitions:\n- id: 0",
        "username: someone",
        "workerAllocatorName: mine",
    ],
)
def test_a_deprecated_field_is_accepted_warned_about_and_has_no_effect(line: str) -> None:
    file = file_of(with_line(line))
    (warning,) = file.warnings
    assert warning.startswith(f"f.yaml: line 6: {line.partition(':')[0]} is deprecated and ignored: ")
    assert merge_layers([file.layer], origin="f.yaml") == config_of(SHORT)


def test_session_timeout_and_heartbeat_come_from_the_file_alone() -> None:
    config = config_of(SHORT)
    assert (config.session_timeout, config.heartbeat_interval) == (10.0, 3.0)
    config = config_of(with_attributes("sessionTimeout: 30s\nheartbeatInterval: 500ms"))
    assert (config.session_timeout, config.heartbeat_interval) == (30.0, 0.5)


def test_annotations_set_what_the_dashboard_of_nuclio_cannot() -> None:
    text = KAFKA.replace(
        "  name: billing\n",
        "  name: billing\n  annotations:\n    nuclio.io/kafka-session-timeout: 40s\n"
        "    nuclio.io/v3iostream-session-timeout: 50s\n    nuclio.io/kafka-explicit-ack-mode: explicitOnly\n"
        "    other/kafka-x: y\n",
    )
    config = config_of(text)
    assert config.session_timeout == 40.0, "the annotation of the same kind"
    assert config.acknowledgement is Acknowledgement.EXPLICIT
    assert config_of(text + "        sessionTimeout: 30s\n").session_timeout == 30.0, "an attribute wins"
    assert error_of(text.replace("40s", "forty")).startswith(
        "f.yaml: annotation nuclio.io/kafka-session-timeout: forty is"
    )


def test_a_duration_without_a_unit_is_an_error_with_its_line() -> None:
    assert error_of(with_attributes("sessionTimeout: 10")) == (
        'f.yaml: line 8: sessionTimeout: 10 is not a duration with a unit, such as "10s" or "500ms"'
    )


def test_the_polling_interval_is_in_milliseconds() -> None:
    assert config_of(with_attributes("pollingIntervalMs: 250")).polling_interval == 0.25
    assert error_of(with_attributes("pollingIntervalMs: 1s")) == (
        "f.yaml: line 8: pollingIntervalMs: 1s is not a whole number from 0 to 3600000"
    )


@pytest.mark.parametrize(
    ("mode", "meant"),
    [
        ("enable", Acknowledgement.EITHER),
        ("explicitOnly", Acknowledgement.EXPLICIT),
        ("disable", Acknowledgement.AUTOMATIC),
    ],
)
def test_the_modes_of_explicit_acknowledgement_are_those_of_nuclio(mode: str, meant: Acknowledgement) -> None:
    assert config_of(with_line(f"explicitAckMode: {mode}")).acknowledgement is meant


def test_a_batch_has_the_size_and_time_of_nuclio_by_default() -> None:
    config = config_of(with_line("batch: {mode: enable}"))
    assert (config.batch_size, config.batch_seconds) == (10, 1.0)
    config = config_of(with_line("batch: {mode: enable, batchSize: 50, timeout: 200ms}"))
    assert (config.batch_size, config.batch_seconds) == (50, 0.2)
    assert config_of(with_line("batch: {mode: disable, batchSize: 50}")).batch_size == 0


def test_attributes_reach_all_that_tailrace_adds() -> None:
    config = config_of(
        with_attributes(
            "errors.deadletterqueue.topic.name: orders.dead\n"
            "errors.deadletterqueue.copy.record.enable: true\n"
            "retry: {attempts: 3, backoff: 1s..8s, mode: aside, maxAge: 1h}\n"
            "onExhausted: dead-letter\n"
            "eventTimeout: 5s\n"
            "workerMemoryMax: 256Mi\n"
        )
    )
    assert config.dead_letters == "orders.dead"
    assert config.retry == Retry(3, (1.0, 8.0), RetryMode.ASIDE, 3600.0)
    assert config.on_exhausted is OnExhausted.DEAD_LETTER
    assert (config.event_timeout, config.worker_memory_max) == (5.0, 256 * 1024**2)
    assert config_of(with_attributes("order: key")).order is Order.KEY
    config = config_of(with_line("batch: {mode: enable}") + "\n      attributes: {retry: {splitBatch: true}}")
    assert config.retry.split_batch


def test_sasl_of_kafka_gives_user_and_access_key() -> None:
    config = config_of(with_attributes("sasl: {enable: true, user: me, password: p, mechanism: plain}"))
    assert (config.access_user, config.access_key) == ("me", "p")
    assert config_of(with_attributes("sasl: {enable: false, user: me}")).access_user is None


def test_names_of_fields_ignore_the_case_as_in_nuclio() -> None:
    assert config_of(with_attributes("SessionTimeout: 20s")) == replace(config_of(SHORT), session_timeout=20.0)
