"""Runs the function of a trigger in a job of spark-submit: `spark-submit engine_job.py FILE[:NAME] --checkpoint DIR`.

The settings of the trigger are those of `@trigger`, and of a configuration file if one is given.
"""

import argparse
import os
import sys
from collections.abc import Sequence

from tailrace.client.server_connection import RefusedError, UnreachableError
from tailrace.pipeline.engine.engine_run import MEMBER_ID, EngineRun, EngineRunSettings
from tailrace.pipeline.engine.engine_settings import EngineSettingsError
from tailrace.pipeline.engine.shard_ownership import OwnershipError
from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.pipeline.jobs.spark_session import open_session
from tailrace.runtime import logs
from tailrace.runtime.network import Address
from tailrace.runtime.settings import SettingsError, parse_address
from tailrace.trigger.config.function_yaml import read_function_yaml
from tailrace.trigger.config.trigger_settings import TriggerConfigError, merge_layers
from tailrace.trigger.functions.function_loader import load
from tailrace.trigger.functions.function_source import FunctionLoadError, FunctionSource, read_source, source_of
from tailrace.trigger.replica.replica_setup import ReplicaServers

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
    function = load(source_of(given.file))
    layers = [function.declared]
    if given.config is not None:
        text = read_source(FunctionSource(os.path.abspath(given.config)))
        layers.append(read_function_yaml(text, given.config, environment=os.environ).layer)
    config = merge_layers(layers, origin=function.place)
    brokers = _addresses(given.bootstrap or ",".join(config.brokers), "--bootstrap")
    return EngineRunSettings(
        config=config,
        source=function.source,
        servers=ReplicaServers(_addresses(given.sc, "--sc"), brokers),
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


def _addresses(text: str | None, flag: str) -> tuple[Address, ...]:
    return tuple(parse_address(each.strip(), flag, port_min=1) for each in (text or "").split(",") if each.strip())


def _fail(error: Exception, status: int) -> int:
    print(f"engine_job.py: {error}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
