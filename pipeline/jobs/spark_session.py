"""Opens the session of a job: the one that runs already, or a new one, by default on all cores of this machine."""

import os
import shutil  # noqa: TID251 - it only looks for a program here
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

from .job_errors import JobError, SessionEndedError, reason_of_job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER_DEFAULT = "local[*]"
_EXTRA = {"pyspark": "PySpark", "numpy": "NumPy", "pyarrow": "PyArrow"}
"""The packages of the extra `spark`, by their modules."""
NO_SETTINGS: Mapping[str, str] = {}
_CONNECT = "sc://"
_DEFAULTS = {"spark.ui.showConsoleProgress": "false"}
"""Settings of new sessions. Our own progress line would mix with Spark's."""
_QUIET = {"spark.log.level": "FATAL"}
"""A failure is one sentence of ours, without a stack trace of Spark. With spark-submit, its own settings count."""


def open_session(name: str, master: str | None = None, settings: Mapping[str, str] = NO_SETTINGS) -> "SparkSession":
    """Returns a session for the job `name`. Raises JobError if there can be none.

    `master` is an address of Spark, such as `spark://HOST:7077`, or of a Connect server, `sc://HOST:15002`. Without
    one, spark-submit decides, or else the job runs in this process.
    """
    check_can_run(master)
    from pyspark.sql import SparkSession

    if master is None or master.startswith("local"):
        # Without it Spark takes the first python3 of PATH, which may be another one, without what tasks need.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(f"tailrace {name}")
    if master is not None and master.startswith(_CONNECT):
        builder = builder.remote(master)
    elif master is not None:
        builder = builder.master(master)
    elif not is_submitted(os.environ):
        builder = builder.master(MASTER_DEFAULT)
    defaults = _DEFAULTS if is_submitted(os.environ) else {**_DEFAULTS, **_QUIET}
    for key, value in {**defaults, **settings}.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except Exception as error:
        where = master or MASTER_DEFAULT
        raise JobError(f"Spark does not start at {where}: {reason_of_job(error)}") from error


def check_can_run(master: str | None) -> None:
    """Raises JobError if a package of the extra is missing, or Java where this process would start a JVM."""
    for module, name in _EXTRA.items():
        if find_spec(module) is None:
            raise JobError(f"{name} is not installed. Install it with `pip install 'tailrace[spark]'`")
    if master is not None and master.startswith(_CONNECT):
        return
    if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        raise JobError("Java is not installed, and Spark needs 17 or newer. Install a JDK, or set JAVA_HOME to one")


def runs_in_one_process(master: str) -> bool:
    """Returns whether tasks run in the process of the driver: `local`, `local[2]`, but not `local-cluster[…]`."""
    return master == "local" or master.startswith("local[")


def is_submitted(environment: Mapping[str, str]) -> bool:
    """Returns whether spark-submit has started this process, and so has chosen master and settings."""
    return "PYSPARK_GATEWAY_PORT" in environment or "SPARK_REMOTE" in environment


def close_session(spark: "SparkSession") -> None:
    """Ends a session. It may have ended already, which another error says then."""
    with suppress(Exception):
        spark.stop()


def check_classic(spark: "SparkSession", name: str) -> None:
    """Raises JobError if the job `name` cannot run its tasks in this session. Jobs call it before anything else."""
    if is_connect(spark):
        raise JobError(
            f"{name} runs its tasks in a classic session of Spark, and this one is a client of Spark Connect: give "
            "the address of a master, such as spark://HOST:7077 or local[*]; lag, segments and stats work with Spark "
            "Connect"
        )


def cores_of(spark: "SparkSession") -> int:
    """Returns how many tasks of a classic session run at once. Raises SessionEndedError."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception as error:  # of Py4J, or of PySpark's own attributes: there is no JVM any more
        raise SessionEndedError(
            "the session of Spark has ended, because it was stopped or its JVM was killed: run the job again"
        ) from error


def is_connect(spark: "SparkSession") -> bool:
    """Returns whether the session is a client of a Spark Connect server, without a JVM of its own."""
    return type(spark).__module__.startswith("pyspark.sql.connect")
