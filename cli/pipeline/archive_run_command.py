"""`tailrace pipeline archive run`: archives topics, once or again and again.

Exit status: 0 done, 1 refused or failed, 2 wrong usage or a directory that is no archive, 3 no broker responds.
"""

import argparse
import sys

from tailrace.cli.options.sc_options import DONE, REFUSED, UNREACHABLE, WRONG_USAGE, say
from tailrace.cli.output.printing import for_encoding
from tailrace.cli.output.progress import Progress
from tailrace.client.server_connection import RefusedError, UnreachableError
from tailrace.pipeline.archive.manifest.archive_manifest import ManifestError
from tailrace.pipeline.archive.rounds import run_arguments
from tailrace.pipeline.jobs.job_errors import JobError, ServerSilentError
from tailrace.pipeline.jobs.spark_session import check_can_run
from tailrace.runtime.settings import SettingsError

_NAME = "pipeline archive run"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    run_arguments.configure(parser)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command and returns its exit status."""
    try:
        check_can_run(arguments.master)
        from tailrace.pipeline.archive.rounds import asked_run  # what it imports is part of the extra for Spark

        asked = asked_run.asked(arguments)
    except ServerSilentError as error:
        return _fail(error, UNREACHABLE)
    except (JobError, ManifestError, SettingsError) as error:
        return _fail(error, WRONG_USAGE)
    progress = Progress(0, wanted=False, doing="archiving", amount=lambda count: f"{count} tasks")
    try:
        return asked_run.run_and_show(asked, arguments.output, _show, _complain, progress.move_to)
    except (ServerSilentError, UnreachableError) as error:
        return _fail(error, UNREACHABLE)
    except (JobError, ManifestError, RefusedError) as error:
        return _fail(error, REFUSED)
    except KeyboardInterrupt:
        if asked.every_seconds is None:
            raise
        return DONE  # a commit is complete or does not count, so an end between two is as good as any
    finally:
        progress.clear()


def _show(text: str) -> None:
    print(for_encoding(text, sys.stdout.encoding), flush=True)


def _complain(sentence: str) -> None:
    say(_NAME, sentence)


def _fail(error: Exception, status: int) -> int:
    _complain(str(error))
    return status
