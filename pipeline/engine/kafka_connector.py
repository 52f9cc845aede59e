"""Spark's Kafka connector: which packages a session needs for it, and the options of a source. Pure."""

import json
from collections.abc import Mapping, Sequence

from tailrace.client.client_security import ClientSecurity
from tailrace.runtime.network import Address
from tailrace.trigger.config.trigger_config import TriggerConfig

from .java_settings import java_settings

PART_OF_PYSPARK = (
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.slf4j:slf4j-api",
    "org.lz4:lz4-java",
    "org.xerial.snappy:snappy-java",
    "com.google.code.findbugs:jsr305",
    "org.scala-lang.modules:scala-parallel-collections_2.13",
)
"""Dependencies of the connector that PySpark has itself, or never uses."""
NO_PACKAGES = "none"
"""What stands for no packages, if the connector is among the jars of the session already."""


def connector_settings(version: str, packages: str | None) -> dict[str, str]:
    """Returns the settings of a new session. `packages` replaces the connector that fits PySpark's version."""
    if packages == NO_PACKAGES:
        return {}
    if packages is not None:
        return {"spark.jars.packages": packages}
    return {
        "spark.jars.packages": f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version}",
        "spark.jars.excludes": ",".join(PART_OF_PYSPARK),
    }


def source_options(
    config: TriggerConfig,
    brokers: Sequence[Address],
    positions: Mapping[int, int],
    security: ClientSecurity,
    *,
    logs_in: bool,
) -> dict[str, str]:
    """Returns the options of the source for a stream of the trigger's topic. `positions` count without a checkpoint.

    With `logs_in`, the source logs in with the access key of the trigger, and otherwise as `security` says.
    """
    options = {
        "kafka.bootstrap.servers": ",".join(map(str, brokers)),
        "subscribe": config.topic,
        "startingOffsets": json.dumps({config.topic: {str(each): offset for each, offset in positions.items()}}),
        "includeHeaders": "true",
        # The function never gets records of transactions that are open or aborted.
        "kafka.isolation.level": "read_committed",
        # As a replica does, a run goes on at the log start if records were deleted.
        "failOnDataLoss": "false",
    }
    if config.read_batch_size:
        options["maxOffsetsPerTrigger"] = str(config.read_batch_size * max(1, len(positions)))
    if logs_in and config.access_key is not None:
        security = security.as_user(config.access_user or config.name, config.access_key)
    return options | {f"kafka.{name}": value for name, value in java_settings(security).items()}
