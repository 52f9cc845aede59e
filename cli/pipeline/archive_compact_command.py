"""`tailrace pipeline archive compact`: merges small chunks of an archive into files of a good size.

Exit status: 0 done, 1 the job failed, 2 wrong usage or a directory that is no archive, 3 the SC that has the head is
unreachable.
"""

import argparse

from tailrace.pipeline.archive.upkeep import compact_arguments
from tailrace.pipeline.jobs.job_status import EXPECTED

from .job_output import failed, job_progress, show

_NAME = "pipeline archive compact"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    compact_arguments.configure(parser)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command and returns its exit status."""
    progress = job_progress("compacting", "groups")
    try:
        result = compact_arguments.run_compact(compact_arguments.asked(arguments), progress.move_to)
    except EXPECTED as error:
        return failed(_NAME, error)
    finally:
        progress.clear()
    show(result.json() if arguments.output == "json" else result.text())
    return result.status
