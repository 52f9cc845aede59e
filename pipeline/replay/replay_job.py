"""Runs a replay with spark-submit: `spark-submit replay_job.py --from-archive A --topic T --to-topic U --map M`.

It takes the arguments of `tailrace pipeline replay` and has the same exit status.
"""

import argparse
import sys
from collections.abc import Sequence

from tailrace.pipeline.jobs.job_status import EXPECTED, failed_file
from tailrace.pipeline.replay.replay_arguments import configure, run_replay


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the replay, and returns the exit status, which is that of `tailrace pipeline replay`."""
    parser = argparse.ArgumentParser(prog="replay_job.py", description="Send an archive or segments to a topic again.")
    configure(parser)
    given = parser.parse_args(argv)
    try:
        result = run_replay(given)
    except EXPECTED as error:
        return failed_file(parser.prog, error)
    print(result.json() if given.output == "json" else result.text())
    return result.status


if __name__ == "__main__":
    sys.exit(main())
