"""A session of the newest PySpark, with the Kafka connector of an older release.

The repository has no connector of the newest release of PySpark yet. That of the release before does as well.
"""

from __future__ import annotations

import os
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

REPOSITORY = "https://repo1.maven.org/maven2"
JARS = (
    "org/apache/spark/spark-sql-kafka-0-10_2.13/4.2.0/spark-sql-kafka-0-10_2.13-4.2.0.jar",
    "org/apache/spark/spark-token-provider-kafka-0-10_2.13/4.2.0/spark-token-provider-kafka-0-10_2.13-4.2.0.jar",
    "org/apache/kafka/kafka-clients/3.9.2/kafka-clients-3.9.2.jar",
    "org/apache/commons/commons-pool2/2.12.1/commons-pool2-2.12.1.jar",
)
CACHE = Path(__file__).resolve().parents[2] / ".cache" / "newest-spark-jars"
OLDEST = (4, 2)
TIMEOUT_SECONDS = 240


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    release = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.timeout(TIMEOUT_SECONDS))
            if release < OLDEST:
                item.add_marker(pytest.mark.skip(reason="`make test-newest-spark` runs it with a newer PySpark"))


@pytest.fixture(scope="session")
def spark_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    scratch = tmp_path_factory.mktemp("spark")
    jars = [str(_jar(each)) for each in JARS]
    settings = {
        "spark.jars": ",".join(jars),
        "spark.driver.extraClassPath": os.pathsep.join(jars),
        "spark.driver.memory": "768m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.heartbeatInterval": "1s",
        "spark.local.dir": str(scratch / "local"),
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2]").appName("tailrace newest")
    for name, value in settings.items():
        builder = builder.config(name, value)
    with chdir(scratch):
        session = builder.getOrCreate()
    yield session
    session.stop()


def _jar(path: str) -> Path:
    """Returns a jar, and downloads it first if it is missing."""
    jar = CACHE / path.rpartition("/")[2]
    if not jar.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        part = jar.with_suffix(".part")
        urllib.request.urlretrieve(f"{REPOSITORY}/{path}", part)
        part.rename(jar)
    return jar
