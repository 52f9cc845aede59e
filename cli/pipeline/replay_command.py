"""`tailrace pipeline replay`: sends an archive or segments to a topic again.

Exit status: 0 done, 1 refused or failed, 2 wrong usage or a directory that cannot be used, 3 unreachable.
"""

import argparse

from tailrace.cli.output.tables import table
from tailrace.pipeline.jobs.job_status import EXPECTED
from tailrace.pipeline.replay import replay_arguments

from .job_output import failed, job_progress, show

_NAME = "pipeline replay"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    replay_arguments.configure(parser)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command and returns its exit status."""
    progress = job_progress("replaying", "offsets")
    try:
        result = replay_arguments.run_replay(arguments, progress.move_to)
    except EXPECTED as error:
        return failed(_NAME, error)
    finally:
        progress.clear()
    rows = [
        (each.partition, each.first, each.end, each.read, each.sent, each.to_first, each.to_end, each.rollup)
        for each in result.rows
    ]
    heads = ("PARTITION", "FROM", "TO", "READ", "SENT", "FIRST NEW", "END NEW", "ROLL-UP")
    show(result.json() if arguments.output == "json" else f"{table(heads, rows)}\n\n{result.text()}")
    return result.status
