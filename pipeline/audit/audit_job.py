"""Runs an audit with spark-submit: `spark-submit audit_job.py DIRECTORY… [--topic TOPIC] [--output json]`.

It takes the arguments of `tailrace pipeline audit` and has the same exit status.
"""

import argparse
import sys
from collections.abc import Sequence

from tailrace.pipeline.audit.audit_arguments import configure, run_audit, shown
from tailrace.pipeline.jobs.job_status import EXPECTED, failed_file


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the audit, and returns the exit status."""
    parser = argparse.ArgumentParser(prog="audit_job.py", description="Compare all replicas of all partitions.")
    configure(parser)
    given = parser.parse_args(argv)
    try:
        result = run_audit(given)
    except EXPECTED as error:
        return failed_file(parser.prog, error)
    print(shown(result, given.output))
    return result.status


if __name__ == "__main__":
    sys.exit(main())
