"""`tailrace pipeline archive clean`: removes files that are in the directory of an archive and do not count.

Exit status: 0 done, 1 refused, 2 wrong usage or a directory that is no archive, 3 the SC that has the head is
unreachable.
"""

import argparse

from tailrace.cli.options.sc_options import DONE
from tailrace.cli.output.printing import counted, size_text
from tailrace.cli.output.times import duration
from tailrace.pipeline.archive.stores.archive_folder import ArchiveFolder
from tailrace.pipeline.archive.upkeep.orphan_cleaning import AGE_SECONDS, clean
from tailrace.pipeline.jobs.job_errors import checking_usage
from tailrace.pipeline.jobs.job_status import EXPECTED
from tailrace.runtime.wall_clock import SystemClock

from .job_output import failed

_NAME = "pipeline archive clean"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("directory", metavar="DIRECTORY", help="The archive.")
    parser.add_argument(
        "--older-than",
        metavar="DURATION",
        type=duration,
        default=AGE_SECONDS * 1000,
        help="Remove only files of this age, because an active run has files that do not count yet (default: 1d).",
    )
    parser.add_argument("--dry-run", action="store_true", help="Print the files, and remove none.")


def run(arguments: argparse.Namespace) -> int:
    """Runs the command and returns its exit status."""
    try:
        with checking_usage():
            folder = ArchiveFolder(arguments.directory)
        done = clean(folder, SystemClock().now_ms(), arguments.older_than / 1000, dry_run=arguments.dry_run)
    except EXPECTED as error:
        return failed(_NAME, error)
    if arguments.dry_run:
        print(*done.paths, sep="\n", end="\n" if done.paths else "")
    verb = "would be removed" if arguments.dry_run else "removed"
    print(f"{counted(len(done.paths), 'file')} with {size_text(done.bytes)} {verb}")
    return DONE
