"""Runs a PySpark program with the lag of its queries attached: `spark-submit lag_job.py --group G PROGRAM [ARGUMENT…]`.

The program needs no change: its `SparkSession.builder.getOrCreate()` returns the session to which the lag is attached.
"""

import argparse
import runpy
import sys
from collections.abc import Sequence

from tailrace.pipeline.jobs.job_files import failed_file
from tailrace.pipeline.jobs.job_status import EXPECTED
from tailrace.pipeline.jobs.spark_session import open_session
from tailrace.pipeline.lag.attachment import attach


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program, and returns the exit status."""
    parser = argparse.ArgumentParser(prog="lag_job.py", description="Run a PySpark program and show its lag.")
    parser.add_argument("--group", required=True, help="Consumer group; {query} stands for the name of a query.")
    parser.add_argument(
        "--bootstrap",
        metavar="HOST:PORT[,HOST:PORT]",
        help="Brokers of Tailrace or Apache Kafka (default: $TAILRACE_BOOTSTRAP, or those of the first query).",
    )
    parser.add_argument("--metrics", metavar="HOST:PORT", help="Address to listen on for Prometheus.")
    parser.add_argument("program", help="The Python file to run.")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="Its arguments.")
    given = parser.parse_args(argv)
    try:
        attachment = attach(open_session(given.program), given.group, bootstrap=given.bootstrap, metrics=given.metrics)
    except EXPECTED as error:
        return failed_file(parser.prog, error)
    with attachment:
        sys.argv = [given.program, *given.arguments]
        runpy.run_path(given.program, run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
