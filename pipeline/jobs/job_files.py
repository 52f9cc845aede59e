"""What files for spark-submit do alike: they read their arguments, run their job, print, and return the exit status."""

import argparse
import sys
from collections.abc import Callable, Sequence

from .job_results import JobResult
from .job_status import EXPECTED, status_of


def run_file(
    program: str,
    description: str,
    configure: Callable[[argparse.ArgumentParser], None],
    run: Callable[[argparse.Namespace], JobResult],
    argv: Sequence[str] | None,
) -> int:
    """Runs the job that the arguments ask for, prints its result, and returns the exit status."""
    parser = argparse.ArgumentParser(prog=program, description=description)
    configure(parser)
    given = parser.parse_args(argv)
    try:
        result = run(given)
    except EXPECTED as error:
        return failed_file(program, error)
    print(result.json() if given.output == "json" else result.text())
    return result.status


def failed_file(program: str, error: Exception) -> int:
    """Prints one of the expected errors, and returns the exit status."""
    print(f"{program}: {error}", file=sys.stderr)
    return status_of(error)
