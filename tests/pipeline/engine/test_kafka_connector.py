"""Tests the settings of sessions with a Kafka connector, and the options of its source."""

from tailrace.client.client_security import ClientSecurity
from tailrace.pipeline.engine.kafka_connector import connector_settings, source_options
from tailrace.runtime.network import Address
from tailrace.trigger.config.trigger_config import TriggerConfig

OPEN = ClientSecurity()


def _options(*, logs_in: bool = False, security: ClientSecurity = OPEN, **given: object) -> dict[str, str]:
    config = TriggerConfig(name="bill", topic="orders", group="billing", **given)  # type: ignore[arg-type]
    brokers = [Address("one", 1), Address("two", 2)]
    return source_options(config, brokers, {0: 5, 1: 0}, security, logs_in=logs_in)


def test_the_connector_has_the_version_of_pyspark() -> None:
    settings = connector_settings("4.0.0", None)
    assert settings["spark.jars.packages"] == "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"
    assert "org.apache.hadoop:hadoop-client-api" in settings["spark.jars.excludes"]


def test_other_packages_replace_it() -> None:
    assert connector_settings("4.0.0", "a:b:1") == {"spark.jars.packages": "a:b:1"}
    assert connector_settings("4.0.0", "none") == {}


def test_the_source_begins_at_the_positions_of_the_group() -> None:
    options = _options()
    assert options["kafka.bootstrap.servers"] == "one:1,two:2"
    assert options["startingOffsets"] == '{"orders": {"0": 5, "1": 0}}'
    assert "maxOffsetsPerTrigger" not in options
    assert options["kafka.isolation.level"] == "read_committed"


def test_the_size_of_a_read_bounds_micro_batches() -> None:
    assert _options(read_batch_size=64)["maxOffsetsPerTrigger"] == "128"


def test_the_access_key_is_given_only_to_brokers_that_ask_for_one() -> None:
    assert not any("sasl" in name for name in _options(access_key="secret"))
    options = _options(access_key='se"cret', logs_in=True)
    assert 'username="bill" password="se\\"cret";' in options["kafka.sasl.jaas.config"]


def test_the_source_connects_as_the_client_of_the_job_does() -> None:
    security = ClientSecurity(uses_tls=True, mechanism="SCRAM-SHA-256", user="admin", trusted="PEM")
    options = _options(security=security)
    assert options["kafka.security.protocol"] == "SASL_SSL"
    assert options["kafka.ssl.truststore.certificates"] == "PEM"
    assert 'username="admin"' in options["kafka.sasl.jaas.config"]
    own = _options(security=security, logs_in=True, access_user="bob", access_key="key")
    assert own["kafka.sasl.mechanism"] == "SCRAM-SHA-256"
    assert 'username="bob" password="key"' in own["kafka.sasl.jaas.config"]
