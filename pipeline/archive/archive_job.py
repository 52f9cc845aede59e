"""Runs a job of the archive with spark-submit: `spark-submit archive_job.py run TOPIC… --to DIRECTORY [OPTION…]`.

Its first argument is `run`, `verify` or `compact`. The others, and the exit status, are those of
`tailrace pipeline archive run`, `… verify` and `… compact`.
"""

import argparse
import sys
from collections.abc import Callable, Sequence

from tailrace.pipeline.archive.proofs import verify_arguments
from tailrace.pipeline.archive.rounds import asked_run, run_arguments
from tailrace.pipeline.archive.upkeep import compact_arguments
from tailrace.pipeline.jobs.job_files import failed_file
from tailrace.pipeline.jobs.job_results import JobResult
from tailrace.pipeline.jobs.job_status import EXPECTED

_PROGRAM = "archive_job.py"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the job, and returns the exit status."""
    parser = argparse.ArgumentParser(prog=_PROGRAM, description="Copy topics to Parquet, exactly once.")
    jobs = parser.add_subparsers(dest="job", required=True)
    run_arguments.configure(jobs.add_parser("run", help="Archive topics."))
    verify_arguments.configure(jobs.add_parser("verify", help="Prove that an archive has every record once."))
    compact_arguments.configure(jobs.add_parser("compact", help="Merge small chunks of an archive."))
    given = parser.parse_args(argv)
    try:
        return _JOBS[given.job](given)
    except EXPECTED as error:
        return failed_file(_PROGRAM, error)
    except KeyboardInterrupt:
        if getattr(given, "every", None) is None:
            raise
        return 0


def _run(given: argparse.Namespace) -> int:
    return asked_run.run_and_show(asked_run.asked(given), given.output, print, _complain)


def _verify(given: argparse.Namespace) -> int:
    return _show(verify_arguments.run_verify(verify_arguments.asked(given)), given.output)


def _compact(given: argparse.Namespace) -> int:
    return _show(compact_arguments.run_compact(compact_arguments.asked(given)), given.output)


_JOBS: dict[str, Callable[[argparse.Namespace], int]] = {"run": _run, "verify": _verify, "compact": _compact}


def _show(result: JobResult, output: str) -> int:
    print(result.json() if output == "json" else result.text())
    return result.status


def _complain(sentence: str) -> None:
    print(f"{_PROGRAM}: {sentence}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
