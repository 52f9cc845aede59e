"""Runs the function of a trigger in a job of spark-submit: `spark-submit engine_job.py FILE[:NAME] --checkpoint DIR`.

The settings of the trigger are those of `@trigger`, and of a configuration file if one is given.
"""

import argparse
import sys
from collections.abc import Sequence
from contextlib import closing

from tailrace.pipeline.engine.engine_run import MEMBER_ID, EngineRun, EngineRunSettings
from tailrace.pipeline.engine.engine_setup import given_function, given_servers
from tailrace.pipeline.jobs.job_errors import WrongUsageError
from tailrace.pipeline.jobs.job_files import failed_file
from tailrace.pipeline.jobs.job_status import EXPECTED
from tailrace.pipeline.jobs.spark_session import open_session
from tailrace.runtime import logs
from tailrace.trigger.config.trigger_settings import TriggerConfigError
from tailrace.trigger.functions.function_source import FunctionLoadError

_PROGRAM = "engine_job.py"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the trigger until the query ends, and returns the exit status."""
    given = _parser().parse_args(argv)
    try:
        settings = settings_of(given)
        run = EngineRun(settings)
    except (TriggerConfigError, FunctionLoadError) as error:
        return failed_file(_PROGRAM, WrongUsageError(str(error)))
    except EXPECTED as error:
        return failed_file(_PROGRAM, error)
    logs.configure(settings.log_level, json=settings.log_json)
    try:
        with closing(run):
            result = run.run(open_session(f"trigger {settings.config.name}"))
    except EXPECTED as error:
        return failed_file(_PROGRAM, error)
    print(result.text())
    return result.status


def settings_of(given: argparse.Namespace) -> EngineRunSettings:
    """Loads the function and its configuration.

    Raises TriggerConfigError, FunctionLoadError and SettingsError.
    """
    function = given_function(given.file, given.config)
    return EngineRunSettings(
        config=function.config,
        source=function.source,
        servers=given_servers(given.bootstrap, given.sc, function.config),
        checkpoint=given.checkpoint,
        available_now=given.available_now,
        member_id=given.replica,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=_PROGRAM, description="Run the function of a trigger on Spark.")
    parser.add_argument("file", metavar="FILE[:NAME]", help="Python file with the function.")
    parser.add_argument("--config", metavar="YAML", help="Configuration of the function in Nuclio's shape.")
    parser.add_argument("--checkpoint", metavar="DIRECTORY", required=True, help="Where Spark keeps its positions.")
    parser.add_argument("--available-now", action="store_true", help="Handle what is there now, and end.")
    parser.add_argument("--bootstrap", metavar="HOST:PORT[,HOST:PORT]", help="Brokers of Tailrace or Apache Kafka.")
    parser.add_argument("--sc", metavar="HOST:PORT[,HOST:PORT]", help="Public addresses of the SC and its standbys.")
    parser.add_argument("--replica", metavar="NAME", default=MEMBER_ID, help=f"Name in the group ({MEMBER_ID}).")
    return parser


if __name__ == "__main__":
    sys.exit(main())
