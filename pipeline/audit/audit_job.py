"""Runs an audit with spark-submit: `spark-submit audit_job.py DIRECTORY… [--topic TOPIC] [--output json]`.

It takes the arguments of `tailrace pipeline audit` and has the same exit status.
"""

import argparse
import sys
from collections.abc import Sequence

from tailrace.client.server_connection import RefusedError, UnreachableError
from tailrace.pipeline.audit.audit_arguments import configure, run_audit, shown
from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.runtime.settings import SettingsError


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the audit, and returns the exit status."""
    parser = argparse.ArgumentParser(prog="audit_job.py", description="Compare all replicas of all partitions.")
    configure(parser)
    given = parser.parse_args(argv)
    try:
        result = run_audit(given)
    except (JobError, SettingsError) as error:
        return _fail(error, 2)
    except RefusedError as error:
        return _fail(error, 1)
    except UnreachableError as error:
        return _fail(error, 3)
    print(shown(result, given.output))
    return result.status


def _fail(error: Exception, status: int) -> int:
    print(f"audit_job.py: {error}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
