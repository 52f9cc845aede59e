"""A replay for spark-submit: `spark-submit replay_job.py --topic T --to-topic U --from-archive DIR --map DIR …`."""

import argparse
import sys
from collections.abc import Sequence

from tailrace.client.server_connection import RefusedError, UnreachableError
from tailrace.pipeline.jobs.job_errors import JobError, ServerSilentError
from tailrace.pipeline.jobs.spark_session import open_session
from tailrace.pipeline.replay.replay_arguments import add_arguments, settings_of
from tailrace.pipeline.replay.replay_run import SPARK_SETTINGS, replay
from tailrace.runtime.settings import SettingsError


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the replay, and returns the exit status, which is that of `tailrace pipeline replay`."""
    parser = argparse.ArgumentParser(prog="replay_job.py", description="Send an archive or segments to a topic again.")
    add_arguments(parser)
    given = parser.parse_args(argv)
    try:
        settings = settings_of(given)
    except JobError as error:
        return _fail(error, 2)
    try:
        result = replay(open_session("replay", settings=SPARK_SETTINGS), **settings)
    except SettingsError as error:
        return _fail(error, 2)
    except (ServerSilentError, UnreachableError) as error:
        return _fail(error, 3)
    except (JobError, RefusedError) as error:
        return _fail(error, 1)
    print(result.text())
    return result.status


def _fail(error: Exception, status: int) -> int:
    print(f"replay_job.py: {error}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
