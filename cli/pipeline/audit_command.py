"""`tailrace pipeline audit`: compares all replicas of all partitions from the files of SPUs, with Spark.

Exit status: 0 all copies are equal, 1 something is wrong with a copy, or the audit failed, 2 wrong usage or a directory
without logs, 3 the SC is unreachable.
"""

import argparse

from tailrace.pipeline.audit import audit_arguments
from tailrace.pipeline.audit.audit_arguments import run_audit
from tailrace.pipeline.jobs.job_status import EXPECTED

from .job_output import failed, job_progress, show

_NAME = "pipeline audit"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    audit_arguments.configure(parser)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command and returns its exit status."""
    progress = job_progress("comparing", "ranges")
    try:
        result = run_audit(arguments, progress.move_to)
    except EXPECTED as error:
        return failed(_NAME, error)
    finally:
        progress.clear()
    show(result.json() if arguments.output == "json" else result.text())
    return result.status
