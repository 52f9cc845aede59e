"""Runs a backfill in a job of spark-submit: `spark-submit backfill_job.py FILE[:NAME] --archive DIR …`.

The settings of the trigger are those of `@trigger`, and of a configuration file if one is given.
"""

import argparse
import sys
from collections.abc import Sequence

from tailrace.pipeline.engine.backfill_planning import Window
from tailrace.pipeline.engine.backfill_run import BackfillSettings, check_backfill, plan_backfill, run_backfill
from tailrace.pipeline.engine.engine_setup import given_function, given_servers
from tailrace.pipeline.jobs.job_arguments import moment
from tailrace.pipeline.jobs.job_errors import WrongUsageError
from tailrace.pipeline.jobs.job_files import failed_file
from tailrace.pipeline.jobs.job_status import EXPECTED
from tailrace.pipeline.jobs.spark_session import open_session
from tailrace.runtime import logs
from tailrace.trigger.config.trigger_settings import TriggerConfigError
from tailrace.trigger.functions.function_source import FunctionLoadError
from tailrace.trigger.replica.replica_setup import ReplicaServers

_PROGRAM = "backfill_job.py"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the backfill, and returns the exit status."""
    given = _parser().parse_args(argv)
    logs.configure()
    try:
        settings = _settings(given)
        plan = plan_backfill(settings)
        result = run_backfill(open_session("trigger backfill"), settings, plan)
    except (TriggerConfigError, FunctionLoadError) as error:
        return failed_file(_PROGRAM, WrongUsageError(str(error)))
    except EXPECTED as error:
        return failed_file(_PROGRAM, error)
    print(result.text())
    return result.status


def _settings(given: argparse.Namespace) -> BackfillSettings:
    function = given_function(given.file, given.config)
    is_archived = given.output_archive is not None
    settings = BackfillSettings(
        config=function.config,
        source=function.source,
        archive=given.archive,
        window=Window(given.begin_ms, given.end_ms),
        servers=ReplicaServers() if is_archived else given_servers(given.bootstrap, given.sc, function.config),
        output_archive=given.output_archive,
        progress=given.progress,
    )
    check_backfill(settings)
    return settings


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=_PROGRAM, description="Run a trigger's function over an archive.")
    parser.add_argument("file", metavar="FILE[:NAME]", help="Python file with the function.")
    parser.add_argument("--config", metavar="YAML", help="Configuration of the function in Nuclio's shape.")
    parser.add_argument("--archive", metavar="DIRECTORY", required=True, help="The archive that is read.")
    parser.add_argument("--from", dest="begin_ms", type=moment, metavar="TIME", help="Time of the first records.")
    parser.add_argument("--until", dest="end_ms", type=moment, metavar="TIME", help="Time after the last records.")
    parser.add_argument("--output-archive", metavar="DIRECTORY", help="Where output and dead letters go, exactly once.")
    parser.add_argument("--progress", metavar="DIRECTORY", help="Into topics at least once: which chunks are done.")
    parser.add_argument("--bootstrap", metavar="HOST:PORT[,HOST:PORT]", help="Brokers of Tailrace or Apache Kafka.")
    parser.add_argument("--sc", metavar="HOST:PORT[,HOST:PORT]", help="Public addresses of the SC and its standbys.")
    return parser


if __name__ == "__main__":
    sys.exit(main())
