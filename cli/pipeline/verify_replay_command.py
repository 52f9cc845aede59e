"""`tailrace pipeline verify-replay`: reads the target of a replay again, and proves that each record is there once.

Exit status: 0 equal, 1 not equal or refused, 2 wrong usage or a directory that is no map, 3 unreachable.
"""

import argparse

from tailrace.cli.output.tables import table
from tailrace.pipeline.jobs.job_status import EXPECTED
from tailrace.pipeline.replay import verify_replay_job

from .job_output import failed, job_progress, show

_NAME = "pipeline verify-replay"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    verify_replay_job.configure(parser)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command and returns its exit status."""
    progress = job_progress("verifying", "partitions")
    try:
        result = verify_replay_job.run_verify_replay(arguments, progress.move_to)
    except EXPECTED as error:
        return failed(_NAME, error)
    finally:
        progress.clear()
    rows = [
        (each.partition, each.records, each.present, each.duplicates, f"{each.rollup:016x}", each.verdict)
        for each in result.rows
    ]
    heads = ("PARTITION", "RECORDS", "PRESENT", "DUPLICATES", "ROLL-UP", "VERDICT")
    show(result.json() if arguments.output == "json" else f"{table(heads, rows)}\n\n{result.text()}")
    return result.status
