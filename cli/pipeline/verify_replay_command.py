"""`tailrace pipeline verify-replay`: reads the target of a replay again, and proves that each record is there once.

Exit status: 0 equal, 1 not equal or refused, 2 wrong usage or a directory that is no map, 3 unreachable.
"""

import argparse
import sys

from tailrace.cli.options.sc_options import REFUSED, UNREACHABLE, WRONG_USAGE, say
from tailrace.cli.output.printing import for_encoding
from tailrace.cli.output.progress import Progress
from tailrace.cli.output.tables import table
from tailrace.client.server_connection import RefusedError, UnreachableError
from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.pipeline.jobs.spark_session import MASTER_DEFAULT
from tailrace.runtime.settings import SettingsError

_NAME = "pipeline verify-replay"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("--map", metavar="DIR", required=True, help="The directory of the map that the replay wrote.")
    parser.add_argument("--bootstrap", metavar="HOST:PORT[,HOST:PORT]", help="Brokers of Tailrace or Apache Kafka.")
    parser.add_argument("--master", metavar="ADDRESS", help=f"The master of Spark (default: {MASTER_DEFAULT}).")
    parser.add_argument("--output", "-o", choices=("table", "json"), default="table", help="Output format.")


def run(arguments: argparse.Namespace) -> int:
    """Runs the command and returns its exit status."""
    from tailrace.pipeline.jobs.spark_session import close_session, open_session
    from tailrace.pipeline.replay.replay_verification import document_at, verify_replay

    try:
        document_at(arguments.map)
    except JobError as error:
        return _fail(error, WRONG_USAGE)
    progress = Progress(0, wanted=False, doing="verifying", amount=lambda done: f"{done} partitions")
    try:
        spark = open_session("verify-replay", arguments.master)
        try:
            result = verify_replay(spark, arguments.map, bootstrap=arguments.bootstrap, report=progress.move_to)
        finally:
            close_session(spark)
    except SettingsError as error:
        return _fail(error, WRONG_USAGE)
    except (JobError, RefusedError) as error:
        return _fail(error, REFUSED)
    except UnreachableError as error:
        return _fail(error, UNREACHABLE)
    if arguments.output == "json":
        print(result.json())
    else:
        rows = [
            (each.partition, each.records, each.present, each.duplicates, f"{each.rollup:016x}", each.verdict)
            for each in result.rows
        ]
        heads = ("PARTITION", "RECORDS", "PRESENT", "DUPLICATES", "ROLL-UP", "VERDICT")
        print(for_encoding(f"{table(heads, rows)}\n\n{result.text()}", sys.stdout.encoding))
    return result.status


def _fail(error: Exception, status: int) -> int:
    say(_NAME, str(error))
    return status
