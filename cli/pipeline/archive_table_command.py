"""`tailrace pipeline archive table`: makes a Delta or Iceberg table equal to an archive. It needs no Spark.

Exit status: 0 done, 1 refused, 2 wrong usage or a directory that is no archive, 3 the SC that has the head is
unreachable.
"""

import argparse
import logging
from collections.abc import Mapping, Sequence

from tailrace.pipeline.jobs.job_arguments import add_output, add_topics
from tailrace.pipeline.jobs.job_errors import WrongUsageError, checking_usage
from tailrace.pipeline.jobs.job_status import EXPECTED

from .job_output import failed, show

_NAME = "pipeline archive table"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("directory", metavar="DIRECTORY", help="The archive.")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--delta", metavar="PATH", help="Make the Delta table in this directory.")
    which.add_argument("--iceberg", metavar="NAMESPACE.TABLE", help="Make the Iceberg table of this name.")
    parser.add_argument("--catalog", metavar="NAME", help="With --iceberg: the catalog (default: default).")
    parser.add_argument(
        "--catalog-option",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="With --iceberg: a property of the catalog, such as uri=sqlite:////lake/catalog.db; may be repeated.",
    )
    add_topics(parser)
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Makes the table, and returns the exit status."""
    # It warns about each column without statistics, and about commits that are planned again.
    logging.getLogger("pyiceberg").setLevel(logging.ERROR)
    # pyarrow takes long to import.
    from tailrace.pipeline.archive.stores.archive_folder import ArchiveFolder
    from tailrace.pipeline.tables.table_updates import CATALOG, delta_table, iceberg_table

    try:
        options = _options(arguments)
        with checking_usage():
            ArchiveFolder(arguments.directory)
        if arguments.delta is not None:
            result = delta_table(arguments.directory, arguments.delta, topics=arguments.topic)
        else:
            catalog = arguments.catalog or CATALOG
            result = iceberg_table(
                arguments.directory, arguments.iceberg, catalog=catalog, options=options, topics=arguments.topic
            )
    except EXPECTED as error:
        return failed(_NAME, error)
    show(result.json() if arguments.output == "json" else result.text())
    return result.status


def _options(arguments: argparse.Namespace) -> Mapping[str, str]:
    """Reads the properties of the catalog. Raises WrongUsageError."""
    given: Sequence[str] = arguments.catalog_option
    if arguments.iceberg is None and (given or arguments.catalog is not None):
        raise WrongUsageError("--catalog and --catalog-option have no effect without --iceberg")
    found = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise WrongUsageError(f"--catalog-option: {each!r} is not NAME=VALUE")
        found[name] = value
    return found
