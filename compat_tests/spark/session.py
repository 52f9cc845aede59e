"""Starts the only SparkSession of a run, for which Spark itself downloads its Kafka connector.

docs/spark.md names the same version, and where the list of excluded dependencies is. Without them, only four jars are
downloaded.
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Mapping
from contextlib import chdir
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from tailrace.pipeline.engine.kafka_connector import PART_OF_PYSPARK

CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
HERE = Path(__file__).resolve().parent
JARS = HERE.parents[1] / ".cache" / "ivy"
"""The directory of the jars, in the checkout: a clean checkout thus shows what happens on a new machine."""

TASKS_AT_ONCE = 2
NO_SETTINGS: Mapping[str, str] = {}

SUBMIT_ARGUMENTS = (
    f"--driver-memory 512m --conf spark.jars.ivySettings={HERE / 'ivysettings.xml'} --conf spark.jars.ivy={JARS} "
    "--conf spark.ui.enabled=false --conf spark.driver.host=127.0.0.1 --conf spark.driver.bindAddress=127.0.0.1 "
    "--driver-java-options '-XX:+UseSerialGC -XX:TieredStopAtLevel=1' "
    "pyspark-shell"
)
"""The value of PYSPARK_SUBMIT_ARGS for commands that start a session of their own with the same jars."""


def start_session(scratch: Path, tasks: int = TASKS_AT_ONCE, other: Mapping[str, str] = NO_SETTINGS) -> SparkSession:
    """Starts a session in local mode that runs so many tasks at once, with other settings where it needs them."""
    # Without it Spark takes the first python3 of PATH for its workers.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # A busy machine may need more than the 15 s that each side waits for a connection of the other.
    os.environ.setdefault("SPARK_AUTH_SOCKET_TIMEOUT", "60")
    settings = {
        "spark.jars.packages": CONNECTOR,
        "spark.jars.excludes": ",".join(PART_OF_PYSPARK),
        "spark.jars.ivySettings": str(HERE / "ivysettings.xml"),
        "spark.jars.ivy": str(JARS),
        "spark.driver.memory": "768m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "spark.executor.heartbeatInterval": "1s",
        "spark.local.dir": str(scratch / "local"),
        "spark.python.authenticate.socketTimeout": "60s",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.streaming.pollingDelay": "10ms",
        # Spark gives up a query that waits for a lost broker, so that one failed test does not fail others.
        "spark.sql.streaming.stopTimeout": "20s",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **other,
    }
    builder = SparkSession.builder.master(f"local[{tasks}]").appName("tailrace compatibility")
    for name, value in settings.items():
        builder = builder.config(name, value)
    JARS.mkdir(parents=True, exist_ok=True)
    # Spark leaves a directory behind where its JVM was started. Two sessions must not download the same jars at once.
    with chdir(scratch), (JARS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return builder.getOrCreate()
