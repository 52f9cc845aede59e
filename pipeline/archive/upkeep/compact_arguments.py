"""The arguments of a compaction, which the command line and the file for spark-submit share."""

import argparse
from typing import TYPE_CHECKING

from msgspec import Struct

from tailrace.pipeline.archive.stores.archive_folder import ArchiveFolder
from tailrace.pipeline.jobs.job_arguments import add_master, add_output, positive_number
from tailrace.pipeline.jobs.job_errors import checking_usage
from tailrace.pipeline.jobs.job_results import JobResult
from tailrace.pipeline.jobs.spark_session import check_can_run, open_session

from .compaction_planning import TARGET_BYTES_DEFAULT

if TYPE_CHECKING:
    from tailrace.pipeline.jobs.job_progress import Report

_MIB = 2**20


class CompactAsked(Struct, frozen=True):
    """What the arguments ask for."""

    directory: str
    target_bytes: int
    master: str | None


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    parser.add_argument("directory", metavar="DIRECTORY", help="The archive.")
    parser.add_argument(
        "--target-mib",
        metavar="MIB",
        type=positive_number,
        default=TARGET_BYTES_DEFAULT // _MIB,
        help="How large a merged chunk may be. Chunks of half this size stay (default: %(default)s).",
    )
    add_master(parser)
    add_output(parser)


def asked(arguments: argparse.Namespace) -> CompactAsked:
    """Reads the arguments, and looks whether the directory is an archive. Raises JobError."""
    check_can_run(arguments.master)
    with checking_usage():  # before Spark starts, which takes some seconds
        ArchiveFolder(arguments.directory)
    return CompactAsked(arguments.directory, arguments.target_mib * _MIB, arguments.master)


def run_compact(asked: CompactAsked, report: "Report | None" = None) -> JobResult:
    """Compacts an archive. Prints nothing. Raises JobError."""
    from .archive_compaction import NAME, compact

    spark = open_session(NAME, asked.master)
    return compact(spark, asked.directory, target_bytes=asked.target_bytes, report=report)
