"""The arguments of an archive run, which the command line and the file for spark-submit share."""

import argparse

from tailrace.pipeline.archive.manifest.archive_manifest import CHUNK_BYTES
from tailrace.pipeline.jobs.job_arguments import add_bootstrap, add_master, add_output, add_segments

from .archive_planning import EARLIEST, LATEST

MIB = 2**20


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    parser.add_argument("topics", metavar="TOPIC", nargs="*", help="A topic; may be repeated.")
    parser.add_argument("--all", action="store_true", help="Archive all topics, also those that are created later.")
    parser.add_argument(
        "--to",
        metavar="DIRECTORY",
        required=True,
        help="The archive. All executors must see this directory. It is made if it does not exist.",
    )
    where = parser.add_mutually_exclusive_group()
    add_bootstrap(where)
    add_segments(where, "--segments", "Read the files in these data directories of SPUs instead")
    parser.add_argument(
        "--from",
        dest="begin",
        metavar="WHEN",
        default=EARLIEST,
        help=f"Where partitions begin that are new in the archive: {EARLIEST}, {LATEST}, or a time "
        f"(default: {EARLIEST}).",
    )
    parser.add_argument("--until", metavar="TIME", help="Stop before the first record of this time.")
    parser.add_argument("--every", metavar="DURATION", help="Go on until the command is stopped, such as every 5m.")
    parser.add_argument(
        "--chunk-mib",
        metavar="MIB",
        type=int,
        default=CHUNK_BYTES // MIB,
        help=f"About how much of a log one task reads (default: {CHUNK_BYTES // MIB}).",
    )
    parser.add_argument(
        "--schema",
        metavar="KIND:FILE",
        help="Add a column of the values as this schema reads them, such as json:order.ddl or avro:order.avsc.",
    )
    parser.add_argument(
        "--sc",
        metavar="HOST:PORT[,HOST:PORT]",
        help="Keep the head of a new archive in the store of this SC (default: beside the files).",
    )
    add_master(parser)
    add_output(parser)
