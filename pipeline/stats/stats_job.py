"""Computes statistics of streams: `spark-submit stats_job.py --segments DIRECTORY --html stats.html`.

`tailrace pipeline stats` takes the same arguments.
"""

import argparse
import os
import sys
from collections.abc import Sequence

from tailrace.pipeline.jobs.job_arguments import add_master, add_output, add_segments, add_topics
from tailrace.pipeline.jobs.job_errors import JobError, WrongUsageError, checking_usage
from tailrace.pipeline.jobs.job_files import run_file
from tailrace.pipeline.jobs.job_progress import Report
from tailrace.pipeline.jobs.spark_session import open_session
from tailrace.pipeline.stats.stat_page import page_of
from tailrace.pipeline.stats.stat_rows import TOP, StatsResult
from tailrace.runtime.embedded.plain_files import replace_file

_TOP_MAX = 1000


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the job."""
    source = parser.add_mutually_exclusive_group(required=True)
    add_segments(source, "--segments", "Data directories of SPUs. A log with several copies is read once")
    source.add_argument("--archive", metavar="DIRECTORY", help="An archive that `tailrace pipeline archive` has made.")
    add_topics(parser)
    parser.add_argument(
        "--top",
        metavar="N",
        type=_top,
        default=TOP,
        help=f"How many keys, producers and duplicates of a topic to show (default: {TOP}).",
    )
    parser.add_argument("--html", metavar="FILE", help="Also write a page with plots to this file.")
    add_master(parser)
    add_output(parser)


def run_stats(arguments: argparse.Namespace, report: Report | None = None) -> StatsResult:
    """Runs the job with these arguments, and writes the page if one is wanted.

    Raises JobError.
    """
    if arguments.html is not None and not os.path.isdir(os.path.dirname(arguments.html) or "."):
        raise WrongUsageError(f"--html: the directory of {arguments.html} does not exist: create it first")
    from tailrace.pipeline.stats.stat_collection import counted
    from tailrace.pipeline.stats.stat_sources import source_of

    with checking_usage():  # before Spark starts, which takes some seconds
        source = source_of(segments=arguments.segments or (), archive=arguments.archive, topics=arguments.topic)
    result = counted(open_session("stats", arguments.master), source, top=arguments.top, report=report)
    if arguments.html is not None:
        try:
            replace_file(arguments.html, page_of(result).encode())
        except OSError as error:
            raise JobError(f"--html: {arguments.html} cannot be written: {error.strerror}") from error
    return result


def _top(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= _TOP_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to {_TOP_MAX}")
    return int(text)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the job, and returns the exit status."""
    return run_file("stats_job.py", "Compute statistics of streams.", configure, run_stats, argv)


if __name__ == "__main__":
    sys.exit(main())
