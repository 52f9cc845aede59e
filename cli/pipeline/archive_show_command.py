"""`tailrace pipeline archive show`: shows what an archive has, by partition. Needs no Spark.

Exit status: 0 done, 1 refused, 2 a directory that is no archive, 3 the SC that has the head is unreachable.
"""

import argparse

import msgspec

from tailrace.cli.options.sc_options import DONE
from tailrace.cli.output.printing import counted, size_text
from tailrace.cli.output.tables import table
from tailrace.pipeline.archive.stores.archive_folder import ArchiveFolder
from tailrace.pipeline.archive.upkeep.archive_listing import ArchiveListing, list_archive
from tailrace.pipeline.jobs.job_arguments import add_output
from tailrace.pipeline.jobs.job_errors import checking_usage
from tailrace.pipeline.jobs.job_status import EXPECTED

from .archived_topics import topic_labels
from .job_output import failed, show

_NAME = "pipeline archive show"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("directory", metavar="DIRECTORY", help="The archive.")
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command and returns its exit status."""
    try:
        with checking_usage():
            folder = ArchiveFolder(arguments.directory)
        listing = list_archive(folder)
    except EXPECTED as error:
        return failed(_NAME, error)
    is_json = arguments.output == "json"
    show(msgspec.json.format(msgspec.json.encode(listing), indent=2).decode() if is_json else _text(listing))
    return DONE


def _text(listing: ArchiveListing) -> str:
    archive = listing.archive
    where = f"in the store of the SC at {', '.join(archive.sc)}" if archive.head == "sc" else "beside the files"
    labels = topic_labels((each.topic, each.topic_id) for each in listing.partitions)
    rows = [
        (
            labels[each.topic, each.topic_id],
            each.partition,
            each.start,
            each.position,
            each.records,
            each.files,
            size_text(each.bytes),
        )
        for each in listing.partitions
    ]
    titles = ("TOPIC", "PARTITION", "START", "POSITION", "RECORDS", "FILES", "SIZE")
    lines = [table(titles, rows)] if rows else []
    return "\n".join([*lines, f"archive {archive.id} with {counted(listing.commits, 'commit')}, its head {where}"])
