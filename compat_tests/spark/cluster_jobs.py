"""Runs commands of the command line in one process, which has one session with executors of their own.

It is a program that the fixture `spark_cluster` starts. It reads one JSON list of words per line, and writes one JSON
document per line: the exit status and what the command printed.
"""

import io
import json
import os
import sys
from contextlib import redirect_stderr, redirect_stdout

from pyspark.sql import SparkSession

from tailrace.cli.main import main

MASTER = "local-cluster[2,1,1024]"
"""Two executors, each a process with one core and 1024 MiB."""
SETTINGS = {
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}


def serve() -> None:
    """Runs commands until the input ends."""
    # Without it Spark takes the first python3 of PATH for its workers.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(MASTER).appName("tailrace cluster jobs")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    for line in sys.stdin:
        output, errors = io.StringIO(), io.StringIO()
        with redirect_stdout(output), redirect_stderr(errors):
            try:
                status = main(json.loads(line))
            except SystemExit as ended:
                status = ended.code if isinstance(ended.code, int) else 1
        print(json.dumps([status, output.getvalue(), errors.getvalue()]), flush=True)
    session.stop()


if __name__ == "__main__":
    serve()
