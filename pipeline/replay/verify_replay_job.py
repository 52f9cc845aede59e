"""Verifies a replay with spark-submit: `spark-submit verify_replay_job.py --map DIRECTORY`.

It takes the arguments of `tailrace pipeline verify-replay` and has the same exit status.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tailrace.pipeline.jobs.job_arguments import add_bootstrap, add_master, add_output
from tailrace.pipeline.jobs.job_errors import checking_usage
from tailrace.pipeline.jobs.job_files import run_file
from tailrace.pipeline.jobs.spark_session import close_session, open_session

if TYPE_CHECKING:
    from tailrace.pipeline.jobs.job_progress import Report
    from tailrace.pipeline.replay.replay_verification import VerifyReplayResult


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    parser.add_argument(
        "--map", metavar="DIRECTORY", required=True, help="The directory of the map that the replay wrote."
    )
    add_bootstrap(parser)
    add_master(parser)
    add_output(parser)


def run_verify_replay(arguments: argparse.Namespace, report: "Report | None" = None) -> "VerifyReplayResult":
    """Verifies the replay that the arguments name. Prints nothing.

    Raises JobError, SettingsError, and UnreachableError and RefusedError of brokers.
    """
    from tailrace.pipeline.replay.replay_verification import document_at, verify_replay

    with checking_usage():  # before Spark starts, which takes some seconds
        document_at(arguments.map)
    spark = open_session("verify-replay", arguments.master)
    try:
        return verify_replay(spark, arguments.map, bootstrap=arguments.bootstrap, report=report)
    finally:
        close_session(spark)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the job, and returns the exit status."""
    return run_file("verify_replay_job.py", "Prove that a replay arrived once.", configure, run_verify_replay, argv)


if __name__ == "__main__":
    sys.exit(main())
