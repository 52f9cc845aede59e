"""A session of Spark Connect is a client in another process: some jobs work there, and the others say so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
from pyspark.sql import SparkSession
from segment_logs import Spu, fill

from tailrace.pipeline.archive import archive

from .kafka_side import KafkaSide

pytest.importorskip("grpc", reason="Spark Connect needs grpcio")
pytest.importorskip("pandas", reason="Spark Connect needs pandas")

HERE = Path(__file__).parent
RECORDS = 40


@pytest.fixture(scope="module")
def remote(spark_session: SparkSession) -> Iterator[str]:
    """Serves Spark Connect in the JVM of the session, and yields the address."""
    java: Any = spark_session._jvm  # type: ignore[attr-defined]
    java.org.apache.spark.SparkEnv.get().conf().set("spark.connect.grpc.binding.port", "0")
    service = getattr(getattr(java.org.apache.spark.sql.connect.service, "SparkConnectService$"), "MODULE$")
    service.start(spark_session._jsc.sc())  # type: ignore[attr-defined]
    yield f"sc://127.0.0.1:{service.localPort()}"
    service.stop(java.scala.Option.empty(), java.scala.Option.empty())


def test_lag_segments_and_stats_work_with_connect_and_other_jobs_say_what_they_need(
    remote: str, spark_session: SparkSession, kafka_side: KafkaSide, tmp_path: Path
) -> None:
    spu, archived, topic = tmp_path / "spu", tmp_path / "archive", kafka_side.new_topic("connect", 2)
    trio.run(_write, spu)
    archive(spark_session, ["events"], str(archived), segments=[str(spu)])
    words = (remote, kafka_side.bootstrap, topic, str(spu), str(archived), str(tmp_path / "checkpoints"))
    command = [sys.executable, str(HERE / "connect_program.py"), *words]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
    environment.pop("PYSPARK_GATEWAY_PORT", None)
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout)
    refused = found.pop("refused")
    assert "progress_listener_refused" not in done.stderr, done.stderr
    assert found == {
        "lag": [[15, 0], [0, 3]],
        "a query that ends at once": {"0": 15, "1": 3},
        "a session that ends at once": {"0": 15, "1": 3},
        "segments": [RECORDS, RECORDS],
        "archive": RECORDS,
        "statistics": [RECORDS, RECORDS],
    }
    for job, sentence in refused.items():
        assert "in a classic session of Spark, and this one is a client of Spark Connect" in sentence, job
    assert sorted(tmp_path.glob("archive-*")) == [], "nothing was begun"


async def _write(directory: Path) -> None:
    spu = Spu(directory)
    log = spu.log()
    fill(log, RECORDS)
    await log.sync()
    await spu.commit(log.log_end)
