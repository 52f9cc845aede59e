"""The arguments of an audit, which the command line and the file for spark-submit share."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tailrace.pipeline.jobs.broker_addresses import addresses_of
from tailrace.pipeline.jobs.job_arguments import add_master, add_output, add_topics, positive_number
from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.pipeline.jobs.spark_session import open_session
from tailrace.runtime.embedded.plain_files import make_directories, replace_file
from tailrace.runtime.wall_clock import SystemClock
from tailrace.server.metric_text import render

from .audit_planning import TASK_BYTES
from .audit_report import AuditResult, audit_families, parquet_tables
from .auditing import audit
from .copy_finding import Expected

if TYPE_CHECKING:
    from tailrace.pipeline.jobs.job_progress import Report

_MIB = 2**20


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    parser.add_argument("directories", metavar="DIRECTORY", nargs="+", help="Data directories of SPUs, or above them.")
    add_topics(parser)
    replicas = parser.add_mutually_exclusive_group()
    replicas.add_argument(
        "--replicas", metavar="N", type=positive_number, help="How many replicas each partition should have."
    )
    replicas.add_argument(
        "--sc", metavar="HOST:PORT[,HOST:PORT]", help="Ask this SC which SPUs should have which replicas."
    )
    parser.add_argument(
        "--headers-only",
        action="store_true",
        help="Compare the headers of batches, and read no records: faster, but misses flipped bits in records.",
    )
    parser.add_argument(
        "--task-mib",
        metavar="MIB",
        type=positive_number,
        default=TASK_BYTES // _MIB,
        help="About how much of each copy one task reads (default: %(default)s).",
    )
    parser.add_argument("--parquet", metavar="DIRECTORY", help="Write copies.parquet and findings.parquet there.")
    parser.add_argument("--metrics", metavar="FILE", help="Write metrics of Prometheus to this file.")
    add_master(parser)
    add_output(parser)


def run_audit(arguments: argparse.Namespace, report: "Report | None" = None) -> AuditResult:
    """Runs the audit that the arguments ask for, and writes its files. Prints nothing.

    Raises JobError, SettingsError, and UnreachableError and RefusedError of the SC.
    """
    addresses = [] if arguments.sc is None else addresses_of(arguments.sc, "--sc")
    spark = open_session("audit", arguments.master)
    expected = Expected(count=arguments.replicas)
    if addresses:
        from .expected_replicas import ask_expected

        expected = ask_expected(addresses)
    result = audit(
        spark,
        arguments.directories,
        topics=arguments.topic,
        expected=expected,
        checks_bodies=not arguments.headers_only,
        task_bytes=arguments.task_mib * _MIB,
        report=report,
    )
    _write(result, arguments.parquet, arguments.metrics)
    return result


def _write(result: AuditResult, parquet: str | None, metrics: str | None) -> None:
    if parquet is not None:
        with _writing(parquet):
            make_directories(parquet)
            for name, content in parquet_tables(result):
                replace_file(f"{parquet}/{name}", content)
    if metrics is not None:
        now = SystemClock().now_ms() / 1000
        with _writing(metrics):
            replace_file(metrics, render(lambda: audit_families(result.copies, now)))


@contextmanager
def _writing(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise JobError(f"{path} cannot be written: {error.strerror or error}") from error
