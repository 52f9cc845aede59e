"""`tailrace pipeline audit`: compares all replicas of all partitions from the files of SPUs, with Spark.

Exit status: 0 all copies are equal, 1 something is wrong with a copy, 2 wrong usage or a directory that cannot be
read, 3 the SC is unreachable.
"""

import argparse
import sys

from tailrace.cli.options.sc_options import REFUSED, UNREACHABLE, WRONG_USAGE, say
from tailrace.cli.output.printing import for_encoding
from tailrace.cli.output.progress import Progress
from tailrace.client.server_connection import RefusedError, UnreachableError
from tailrace.pipeline.audit import audit_arguments
from tailrace.pipeline.audit.audit_arguments import run_audit, shown
from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.runtime.settings import SettingsError

_NAME = "pipeline audit"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    audit_arguments.configure(parser)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command and returns its exit status."""
    progress = Progress(0, wanted=False, doing="comparing", amount=lambda count: f"{count} ranges")
    try:
        result = run_audit(arguments, progress.move_to)
    except (JobError, SettingsError) as error:
        return _fail(error, WRONG_USAGE)
    except RefusedError as error:
        return _fail(error, REFUSED)
    except UnreachableError as error:
        return _fail(error, UNREACHABLE)
    finally:
        progress.clear()
    print(for_encoding(shown(result, arguments.output), sys.stdout.encoding))
    return result.status


def _fail(error: Exception, status: int) -> int:
    say(_NAME, str(error))
    return status
