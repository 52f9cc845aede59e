"""`tailrace pipeline archive show`: shows what an archive has, by partition. Needs no Spark.

Exit status: 0 done, 1 refused, 2 a directory that is no archive, 3 the SC that has the head is unreachable.
"""

import argparse
import sys

import msgspec

from tailrace.cli.options.sc_options import DONE, REFUSED, UNREACHABLE, WRONG_USAGE, say
from tailrace.cli.output.printing import counted, for_encoding, size_text
from tailrace.cli.output.tables import table
from tailrace.pipeline.archive.manifest.archive_manifest import ManifestError
from tailrace.pipeline.archive.stores.archive_folder import ArchiveFolder
from tailrace.pipeline.archive.upkeep.archive_listing import ArchiveListing, list_archive
from tailrace.pipeline.jobs.job_errors import JobError, ServerSilentError

_NAME = "pipeline archive show"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("directory", metavar="DIRECTORY", help="The archive.")
    parser.add_argument(
        "--output", "-o", choices=("table", "json"), default="table", help="Output format (default: table)."
    )


def run(arguments: argparse.Namespace) -> int:
    """Runs the command and returns its exit status."""
    try:
        folder = ArchiveFolder(arguments.directory)
    except (JobError, ManifestError) as error:
        return _fail(error, WRONG_USAGE)
    try:
        listing = list_archive(folder)
    except ServerSilentError as error:
        return _fail(error, UNREACHABLE)
    except (JobError, ManifestError) as error:
        return _fail(error, REFUSED)
    if arguments.output == "json":
        print(msgspec.json.format(msgspec.json.encode(listing), indent=2).decode())
    else:
        print(for_encoding(_text(listing), sys.stdout.encoding))
    return DONE


def _text(listing: ArchiveListing) -> str:
    archive = listing.archive
    where = f"in the store of the SC at {', '.join(archive.sc)}" if archive.head == "sc" else "beside the files"
    rows = [
        (each.topic, each.partition, each.start, each.position, each.records, each.files, size_text(each.bytes))
        for each in listing.partitions
    ]
    titles = ("TOPIC", "PARTITION", "START", "POSITION", "RECORDS", "FILES", "SIZE")
    lines = [table(titles, rows)] if rows else []
    return "\n".join([*lines, f"archive {archive.id} with {counted(listing.commits, 'commit')}, its head {where}"])


def _fail(error: Exception, status: int) -> int:
    say(_NAME, str(error))
    return status
