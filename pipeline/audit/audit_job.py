"""Runs an audit with spark-submit: `spark-submit audit_job.py DIRECTORY… [--topic TOPIC] [--output json]`.

It takes the arguments of `tailrace pipeline audit` and has the same exit status.
"""

import sys
from collections.abc import Sequence

from tailrace.pipeline.audit.audit_arguments import configure, run_audit
from tailrace.pipeline.jobs.job_files import run_file


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the audit, and returns the exit status."""
    return run_file("audit_job.py", "Compare all replicas of all partitions.", configure, run_audit, argv)


if __name__ == "__main__":
    sys.exit(main())
