"""Runs the function of a trigger in a job of spark-submit: `spark-submit engine_job.py FILE[:NAME] --checkpoint DIR`.

The settings of the trigger are those of `@trigger`, and of a configuration file if one is given.
"""

import argparse
import sys
from collections.abc import Sequence
from contextlib import closing

from tailrace.client.server_connection import RefusedError, UnreachableError
from tailrace.pipeline.engine.engine_run import MEMBER_ID, EngineRun, EngineRunSettings
from tailrace.pipeline.engine.engine_settings import EngineSettingsError
from tailrace.pipeline.engine.engine_setup import given_function, given_servers
from tailrace.pipeline.engine.shard_ownership import OwnershipError
from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.pipeline.jobs.spark_session import open_session
from tailrace.runtime import logs
from tailrace.runtime.settings import SettingsError
from tailrace.trigger.config.trigger_settings import TriggerConfigError
from tailrace.trigger.functions.function_source import FunctionLoadError

_WRONG = (TriggerConfigError, FunctionLoadError, EngineSettingsError, SettingsError)
_REFUSED = (JobError, OwnershipError, RefusedError)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the trigger until the query ends, and returns the exit status."""
    given = _parser().parse_args(argv)
    try:
        settings = settings_of(given)
        run = EngineRun(settings)
    except _WRONG as error:
        return _fail(error, 2)
    logs.configure(settings.log_level, json=settings.log_json)
    try:
        with closing(run):
            result = run.run(open_session(f"trigger {settings.config.name}"))
    except _REFUSED as error:
        return _fail(error, 1)
    except UnreachableError as error:
        return _fail(error, 3)
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
    parser = argparse.ArgumentParser(prog="engine_job.py", description="Run the function of a trigger on Spark.")
    parser.add_argument("file", metavar="FILE[:NAME]", help="Python file with the function.")
    parser.add_argument("--config", metavar="YAML", help="Configuration of the function in Nuclio's shape.")
    parser.add_argument("--checkpoint", metavar="DIR", required=True, help="Where Spark keeps its positions.")
    parser.add_argument("--available-now", action="store_true", help="Handle what is there now, and end.")
    parser.add_argument("--bootstrap", metavar="HOST:PORT[,HOST:PORT]", help="Brokers of Tailrace or Apache Kafka.")
    parser.add_argument("--sc", metavar="HOST:PORT[,HOST:PORT]", help="Public addresses of the SC and its standbys.")
    parser.add_argument("--replica", metavar="NAME", default=MEMBER_ID, help=f"Name in the group ({MEMBER_ID}).")
    return parser


def _fail(error: Exception, status: int) -> int:
    print(f"engine_job.py: {error}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
