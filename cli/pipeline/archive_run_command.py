"""`tailrace pipeline archive run`: archives topics, once or again and again.

Exit status: 0 done, 1 refused or failed, 2 wrong usage or a directory that is no archive, 3 no broker responds, or the
SC that has the head is unreachable.
"""

import argparse
from functools import partial

from tailrace.cli.options.sc_options import DONE, say
from tailrace.pipeline.archive.rounds import run_arguments
from tailrace.pipeline.jobs.job_status import EXPECTED
from tailrace.pipeline.jobs.spark_session import check_can_run

from .job_output import failed, job_progress, show

_NAME = "pipeline archive run"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    run_arguments.configure(parser)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command and returns its exit status."""
    progress = job_progress("archiving", "tasks")
    try:
        check_can_run(arguments.master)
        from tailrace.pipeline.archive.rounds import asked_run  # what it imports is part of the extra for Spark

        asked = asked_run.asked(arguments)
        return asked_run.run_and_show(asked, arguments.output, show, partial(say, _NAME), progress.move_to)
    except EXPECTED as error:
        return failed(_NAME, error)
    except KeyboardInterrupt:
        if arguments.every is None:
            raise
        return DONE  # a commit is complete or does not count, so an end between two is as good as any
    finally:
        progress.clear()
