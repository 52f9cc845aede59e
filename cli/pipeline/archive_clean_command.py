"""`tailrace pipeline archive clean`: removes files that are in the directory of an archive and do not count.

Exit status: 0 done, 1 refused, 2 wrong usage or a directory that is no archive, 3 the SC that has the head is
unreachable.
"""

import argparse

from tailrace.cli.options.sc_options import DONE, REFUSED, UNREACHABLE, WRONG_USAGE, say
from tailrace.cli.output.printing import counted, size_text
from tailrace.cli.output.times import duration
from tailrace.pipeline.archive.manifest.archive_manifest import ManifestError
from tailrace.pipeline.archive.stores.archive_folder import ArchiveFolder
from tailrace.pipeline.archive.upkeep.orphan_cleaning import AGE_SECONDS, clean
from tailrace.pipeline.jobs.job_errors import JobError, ServerSilentError
from tailrace.runtime.wall_clock import SystemClock

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
        folder = ArchiveFolder(arguments.directory)
    except (JobError, ManifestError) as error:
        return _fail(error, WRONG_USAGE)
    try:
        done = clean(folder, SystemClock().now_ms(), arguments.older_than / 1000, dry_run=arguments.dry_run)
    except ServerSilentError as error:
        return _fail(error, UNREACHABLE)
    except (JobError, ManifestError) as error:
        return _fail(error, REFUSED)
    if arguments.dry_run:
        print(*done.paths, sep="\n", end="\n" if done.paths else "")
    verb = "would be removed" if arguments.dry_run else "removed"
    print(f"{counted(len(done.paths), 'file')} with {size_text(done.bytes)} {verb}")
    return DONE


def _fail(error: Exception, status: int) -> int:
    say(_NAME, str(error))
    return status
