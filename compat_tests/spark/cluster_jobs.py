"""Runs commands of the command line in one process, which has one session with executors of their own.

It is a program that the fixture `spark_cluster` starts. It reads one JSON list of words per line, and writes one JSON
document per line: the exit status and what the command printed.
"""

import io
import json
import os
import subprocess
import sys
import sysconfig
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

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


def python_without_tailrace() -> Path:
    """Makes a program that is this Python with its packages, but without Tailrace. Executors get that from jobs.

    Without the module `site`, Python reads no file that says where editable packages are.
    """
    path = Path("python-without-tailrace").absolute()
    packages = sysconfig.get_path("purelib")
    path.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec {sys.executable} -S "$@"\n')
    path.chmod(0o755)
    with_packages = subprocess.run([path, "-c", "import msgspec"])
    assert with_packages.returncode == 0, "it has the packages"
    with_tailrace = subprocess.run([path, "-c", "import tailrace"], env={}, capture_output=True)
    assert with_tailrace.returncode != 0, "it has no Tailrace"
    return path


def serve() -> None:
    """Runs commands until the input ends."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = str(python_without_tailrace())
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
