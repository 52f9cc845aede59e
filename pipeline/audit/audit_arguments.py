"""The arguments of an audit, which the command line and the file for spark-submit share."""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.pipeline.jobs.spark_session import open_session
from tailrace.runtime.embedded.plain_files import make_directories, replace_file
from tailrace.runtime.network import Address
from tailrace.runtime.settings import parse_address
from tailrace.runtime.wall_clock import SystemClock
from tailrace.server.metric_text import render

from .audit_planning import TASK_BYTES
from .audit_report import AuditResult, audit_families, parquet_tables
from .auditing import audit
from .copy_finding import Expected

if TYPE_CHECKING:
    from tailrace.pipeline.jobs.job_progress import Report

OUTPUTS = ("text", "json")
_MIB = 2**20


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    parser.add_argument("directories", metavar="DIRECTORY", nargs="+", help="Data directories of SPUs, or above them.")
    parser.add_argument("--topic", metavar="TOPIC", action="append", default=[], help="Only this topic; repeatable.")
    replicas = parser.add_mutually_exclusive_group()
    replicas.add_argument(
        "--replicas", metavar="N", type=_positive, help="How many replicas each partition should have."
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
        type=_positive,
        default=TASK_BYTES // _MIB,
        help="About how much of each copy one task reads (default: %(default)s).",
    )
    parser.add_argument("--parquet", metavar="DIRECTORY", help="Write copies.parquet and findings.parquet there.")
    parser.add_argument("--metrics", metavar="FILE", help="Write metrics of Prometheus to this file.")
    parser.add_argument("--master", help="Master of Spark (default: that of spark-submit, or local[*]).")
    parser.add_argument("--output", "-o", choices=OUTPUTS, default="text", help="Output format (default: text).")


def run_audit(arguments: argparse.Namespace, report: "Report | None" = None) -> AuditResult:
    """Runs the audit that the arguments ask for, and writes its files. Prints nothing.

    Raises JobError, SettingsError, and UnreachableError and RefusedError of the SC.
    """
    addresses = _addresses(arguments.sc)
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


def shown(result: AuditResult, output: str) -> str:
    """Returns the result as text or as JSON."""
    return result.json() if output == "json" else result.text()


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


def _addresses(text: str | None) -> Sequence[Address]:
    return [] if text is None else [parse_address(each.strip(), "--sc", port_min=1) for each in text.split(",")]


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


_positive.__name__ = "positive number"
