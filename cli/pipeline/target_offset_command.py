"""`tailrace pipeline target-offset`: says which offsets records got in a replay, from its map. It needs no Spark.

Exit status: 0 done, 1 a record was not sent, 2 wrong usage or a directory that is no map.
"""

import argparse
import json
import re

from tailrace.cli.options.sc_options import DONE, REFUSED, WRONG_USAGE, say
from tailrace.cli.output.tables import table
from tailrace.pipeline.jobs.job_arguments import add_output

_NAME = "pipeline target-offset"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument(
        "places", metavar="PARTITION/OFFSET", nargs="+", type=_place, help="Records of the source, such as 0/1234."
    )
    parser.add_argument(
        "--map", metavar="DIRECTORY", required=True, help="The directory of the map that the replay wrote."
    )
    parser.add_argument(
        "--or-next",
        action="store_true",
        help="For a record that was not sent, show the offset of the next one, where a consumer goes on.",
    )
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command and returns its exit status."""
    from tailrace.pipeline.replay.map_parts import partition_ranges, read_document
    from tailrace.pipeline.replay.offset_map import OffsetTable

    if read_document(arguments.map) is None:
        say(_NAME, f"{arguments.map} is no map of a replay: name the directory that was given to the replay as --map")
        return WRONG_USAGE
    tables = {each: OffsetTable(partition_ranges(arguments.map, each)) for each in {one for one, _ in arguments.places}}
    found = [
        (partition, offset, (look.next_target_of if arguments.or_next else look.target_of)(offset))
        for partition, offset in arguments.places
        for look in (tables[partition],)
    ]
    if arguments.output == "json":
        names = ("partition", "offset", "to_offset")
        print(json.dumps([dict(zip(names, each, strict=True)) for each in found], indent=2))
    else:
        print(table(("PARTITION", "OFFSET", "NEW OFFSET"), found))
    return DONE if all(new is not None for _, _, new in found) else REFUSED


def _place(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,18})", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text} is no PARTITION/OFFSET such as 0/1234")
    return int(found[1]), int(found[2])
