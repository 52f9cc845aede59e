"""`tailrace pipeline replay`: sends an archive or segments to a topic again.

Exit status: 0 done, 1 refused or failed, 2 wrong usage, 3 unreachable.
"""

import argparse
import sys

from tailrace.cli.options.sc_options import REFUSED, UNREACHABLE, WRONG_USAGE, say
from tailrace.cli.output.printing import for_encoding
from tailrace.cli.output.progress import Progress
from tailrace.cli.output.tables import table
from tailrace.client.server_connection import RefusedError, UnreachableError
from tailrace.pipeline.jobs.job_errors import JobError, ServerSilentError
from tailrace.pipeline.jobs.job_progress import Report
from tailrace.pipeline.jobs.spark_session import MASTER_DEFAULT
from tailrace.runtime.settings import SettingsError

_NAME = "pipeline replay"
_OUTPUTS = ("table", "json")


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    from tailrace.pipeline.replay.replay_arguments import add_arguments

    add_arguments(parser)
    spark = parser.add_argument_group("job")
    spark.add_argument("--master", metavar="ADDRESS", help=f"The master of Spark (default: {MASTER_DEFAULT}).")
    spark.add_argument("--output", "-o", choices=_OUTPUTS, default="table", help="Output format (default: table).")


def run(arguments: argparse.Namespace) -> int:
    """Runs the command and returns its exit status."""
    from tailrace.pipeline.jobs.spark_session import close_session, open_session
    from tailrace.pipeline.replay.replay_arguments import settings_of

    try:
        settings = settings_of(arguments)
    except JobError as error:
        return _fail(error, WRONG_USAGE)
    try:
        from tailrace.pipeline.replay.replay_run import SPARK_SETTINGS, replay

        spark = open_session("replay", arguments.master, SPARK_SETTINGS)
        try:
            result = replay(spark, **settings, report=_reporting())
        finally:
            close_session(spark)
    except SettingsError as error:
        return _fail(error, WRONG_USAGE)
    except (ServerSilentError, UnreachableError) as error:
        return _fail(error, UNREACHABLE)
    except (JobError, RefusedError) as error:
        return _fail(error, REFUSED)
    if arguments.output == "json":
        print(result.json())
    else:
        rows = [
            (each.partition, each.first, each.end, each.read, each.sent, each.to_first, each.to_end, each.rollup)
            for each in result.rows
        ]
        heads = ("PARTITION", "FROM", "TO", "READ", "SENT", "FIRST NEW", "END NEW", "ROLL-UP")
        print(for_encoding(f"{table(heads, rows)}\n\n{result.text()}", sys.stdout.encoding))
    return result.status


def _reporting() -> Report:
    progress = Progress(0, wanted=False, doing="replaying", amount=lambda done: f"{done} offsets")

    def report(done: int, total: int) -> None:
        progress.move_to(done, total)

    return report


def _fail(error: Exception, status: int) -> int:
    say(_NAME, str(error))
    return status
