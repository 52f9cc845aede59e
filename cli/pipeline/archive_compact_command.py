"""`tailrace pipeline archive compact`: merges small chunks of an archive into files of a good size.

Exit status: 0 done, 1 the job failed, 2 wrong usage or a directory that is no archive, 3 the SC that has the
head is unreachable.
"""

import argparse
import sys

from tailrace.cli.options.sc_options import REFUSED, UNREACHABLE, WRONG_USAGE, say
from tailrace.cli.output.printing import for_encoding
from tailrace.cli.output.progress import Progress
from tailrace.pipeline.archive.manifest.archive_manifest import ManifestError
from tailrace.pipeline.archive.upkeep import compact_arguments
from tailrace.pipeline.jobs.job_errors import JobError, ServerSilentError

_NAME = "pipeline archive compact"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    compact_arguments.configure(parser)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command and returns its exit status."""
    try:
        asked = compact_arguments.asked(arguments)
    except (JobError, ManifestError) as error:
        return _fail(error, WRONG_USAGE)
    progress = Progress(0, wanted=False, doing="compacting", amount=lambda count: f"{count} groups")
    try:
        result = compact_arguments.run_compact(asked, progress.move_to)
    except ServerSilentError as error:
        return _fail(error, UNREACHABLE)
    except (JobError, ManifestError) as error:
        return _fail(error, REFUSED)
    finally:
        progress.clear()
    print(for_encoding(result.json() if arguments.output == "json" else result.text(), sys.stdout.encoding))
    return result.status


def _fail(error: Exception, status: int) -> int:
    say(_NAME, str(error))
    return status
