"""The arguments of a verification, which the command line and the file for spark-submit share."""

import argparse
from typing import TYPE_CHECKING

from msgspec import Struct

from tailrace.pipeline.archive.stores.archive_folder import ArchiveFolder
from tailrace.pipeline.jobs.broker_addresses import parse_brokers
from tailrace.pipeline.jobs.job_arguments import add_bootstrap, add_master, add_output, add_segments
from tailrace.pipeline.jobs.job_errors import checking_usage
from tailrace.pipeline.jobs.spark_session import check_can_run, open_session

if TYPE_CHECKING:
    from tailrace.pipeline.jobs.job_progress import Report

    from .archive_verification import VerifyResult


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    parser.add_argument("directory", metavar="DIRECTORY", help="The archive.")
    where = parser.add_mutually_exclusive_group()
    add_bootstrap(where, "Brokers of Tailrace or Apache Kafka, with whose logs to compare")
    add_segments(where, "--segments", "Compare with the files in these data directories of SPUs instead")
    where.add_argument("--offline", action="store_true", help="Check the archive alone, and ask no broker.")
    add_master(parser)
    add_output(parser)


class VerifyAsked(Struct, frozen=True):
    """What the arguments ask for."""

    directory: str
    brokers: tuple[str, ...]
    segments: tuple[str, ...]
    """Data directories of SPUs. Without brokers and directories, the archive alone is checked."""
    master: str | None


def asked(arguments: argparse.Namespace) -> VerifyAsked:
    """Reads the arguments, and looks whether the directory is an archive.

    Raises JobError and SettingsError.
    """
    check_can_run(arguments.master)
    segments = tuple(arguments.segments or ())
    asks_brokers = not arguments.offline and not segments
    brokers = [str(each) for each in parse_brokers(arguments.bootstrap)] if asks_brokers else []
    with checking_usage():  # before Spark starts, which takes some seconds
        ArchiveFolder(arguments.directory)
    return VerifyAsked(arguments.directory, tuple(brokers), segments, arguments.master)


def run_verify(asked: VerifyAsked, report: "Report | None" = None) -> "VerifyResult":
    """Verifies an archive. Prints nothing. Raises JobError, and RefusedError and UnreachableError of brokers."""
    from .archive_verification import NAME, verify

    spark = open_session(NAME, asked.master)
    return verify(spark, asked.directory, brokers=asked.brokers, segments=asked.segments, report=report)
