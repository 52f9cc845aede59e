"""`tailrace segment …`: lists the segments of partitions and the SPUs that hold copies, at this moment.

The shelves come first, with the SPUs that store them; only those SPUs know the segments of a shelf. The other segments
are those of the leader, or of the SPU with the largest log if there is no leader. The copies on other SPUs are compared
with them. The checksums are those in the manifests; whether the disks still match them is the job of scrubbing.
"""

import argparse

from tailrace.cli.options.sc_options import Command, offset, show_documents
from tailrace.cli.options.spu_options import named_partition
from tailrace.cli.output.printing import plain, size_text
from tailrace.cli.output.tables import table
from tailrace.client.sc_client import ScClient
from tailrace.controller.inspection.segment_comparison import Comparison
from tailrace.protocol.internal.describe_segments import DescribedSegment, SegmentedPartition

from .partition_facts import UNKNOWN, known, shelf_copies
from .partition_tables import shelf_document

OPEN = "open"
SHELVED = "shelved"


def _list_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", metavar="TOPIC[/PARTITION]", help="Topic, or one of its partitions.")
    parser.add_argument(
        "--before", metavar="OFFSET", type=offset, default=UNKNOWN, help="List only segments that begin before this."
    )


async def _list(client: ScClient, arguments: argparse.Namespace) -> None:
    topic, number = named_partition(arguments.topic)
    partitions = await client.describe_segments(topic, number, arguments.before)
    documents = [segments_document(each) for each in partitions]
    show_documents(arguments, documents, lambda: segment_table(partitions))


def segment_table(partitions: list[SegmentedPartition]) -> str:
    """Formats the segments, with notes below the table about what is missing."""
    rows: list[tuple[object, ...]] = []
    for each in partitions:
        rows += [
            (each.partition, shelf.base, shelf.end, None, None, SHELVED, None, None, shelf_copies(shelf))
            for shelf in each.shelves
        ]
        rows += [
            (
                each.partition,
                segment.base,
                segment.end,
                _epochs(segment),
                size_text(segment.size_bytes),
                segment.state,
                segment.sealed_by,
                _checksum(segment),
                _copies(each, segment),
            )
            for segment in each.segments
        ]
    titles = ("PARTITION", "BASE", "END", "EPOCH", "SIZE", "STATE", "SEALED BY", "CHECKSUM", "COPIES")
    return "\n".join([table(titles, rows), *(plain(note) for each in partitions for note in _notes(each))])


def segments_document(partition: SegmentedPartition) -> dict[str, object]:
    """Makes a document of a partition's segments."""
    ends = {each.spu_id: each.log_end for each in partition.holders}
    return {
        "topic": partition.topic,
        "topicId": str(partition.topic_id),
        "partition": partition.partition,
        "leader": known(partition.leader),
        "toldBy": known(partition.told_by),
        "logStart": known(partition.log_start),
        "logEnd": known(partition.log_end),
        "highWatermark": known(partition.high_watermark),
        "olderSegments": partition.older_count,
        "olderShelves": partition.older_shelves,
        "shelves": [shelf_document(each) for each in partition.shelves],
        "segments": [
            {
                "base": each.base,
                "end": each.end,
                "epochs": [known(each.first_epoch), known(each.last_epoch)],
                "sizeBytes": each.size_bytes,
                "state": each.state,
                "sealedBy": each.sealed_by or None,
                "checksum": _checksum(each),
                "copies": [
                    {"spuId": copy.spu_id, "comparison": copy.comparison, "logEnd": known(ends[copy.spu_id])}
                    for copy in each.copies
                ],
            }
            for each in partition.segments
        ],
        "holders": [
            {"spuId": each.spu_id, "logEnd": known(each.log_end), "error": each.error_message}
            for each in partition.holders
        ],
    }


def _copies(partition: SegmentedPartition, segment: DescribedSegment) -> str:
    """Lists the SPUs with copies, and how each copy differs; an SPU with an identical copy has no remark."""
    ends = {each.spu_id: each.log_end for each in partition.holders}
    texts = []
    for copy in segment.copies:
        if copy.comparison == Comparison.SAME:
            texts.append(f"{copy.spu_id}")
        elif copy.comparison == Comparison.SHORTER:
            texts.append(f"{copy.spu_id} (shorter: up to {ends[copy.spu_id]})")
        else:
            texts.append(f"{copy.spu_id} ({copy.comparison})")
    return ", ".join(texts)


def _notes(partition: SegmentedPartition) -> list[str]:
    name = f"{partition.topic}/{partition.partition}"
    notes = [f"{name}: SPU {each.spu_id}: {each.error_message}" for each in partition.holders if each.error_message]
    if partition.told_by != partition.leader:
        leader = (
            "there is no leader" if partition.leader == UNKNOWN else f"leader SPU {partition.leader} does not answer"
        )
        told = "" if partition.told_by == UNKNOWN else f"; the segments are those of SPU {partition.told_by}"
        notes.append(f"{name}: {leader}{told}")
    if partition.older_count:
        first = partition.segments[0].base if partition.segments else partition.log_start
        notes.append(f"{name}: {partition.older_count} older segments are not shown; use --before {first}")
    if partition.older_shelves:
        shown = partition.shelves[0].base
        notes.append(f"{name}: {partition.older_shelves} older shelves are not shown; use --before {shown}")
    return notes


def _epochs(segment: DescribedSegment) -> str | None:
    """Formats the leader epochs as clients see them; a segment that recovery has ended may have several."""
    if segment.last_epoch == UNKNOWN:
        return None
    if segment.first_epoch in (segment.last_epoch, UNKNOWN):
        return f"{segment.last_epoch}"
    return f"{segment.first_epoch} to {segment.last_epoch}"


def _checksum(segment: DescribedSegment) -> str | None:
    """Formats the checksum; None for the open segment, whose checksum changes with each batch."""
    return None if segment.state == OPEN else f"{segment.checksum:08x}"


COMMANDS = {"list": Command("segment list", _list_options, _list, is_watchable=True)}
