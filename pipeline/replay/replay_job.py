"""Runs a replay with spark-submit: `spark-submit replay_job.py --from-archive A --topic T --to-topic U --map M`.

It takes the arguments of `tailrace pipeline replay` and has the same exit status.
"""

import sys
from collections.abc import Sequence

from tailrace.pipeline.jobs.job_files import run_file
from tailrace.pipeline.replay.replay_arguments import configure, run_replay


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the replay, and returns the exit status."""
    return run_file("replay_job.py", "Send an archive or segments to a topic again.", configure, run_replay, argv)


if __name__ == "__main__":
    sys.exit(main())
