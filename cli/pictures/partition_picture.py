"""Draws a partition: its leader, followers and readers, and its segments on the SPUs that hold copies."""

from collections.abc import Mapping, Sequence

from tailrace.cli.objects.partition_facts import UNKNOWN, details_of, lag_of, leader_of, liveness, shelf_copies
from tailrace.cli.objects.segment_commands import OPEN
from tailrace.cli.output.printing import plain
from tailrace.controller.inspection.segment_comparison import Comparison
from tailrace.protocol.internal.describe_partitions import DescribedPartition, ReplicaDetail
from tailrace.protocol.internal.describe_segments import DescribedSegment, SegmentedPartition

SEGMENTS_WIDTH = 68
SEGMENT_WIDTH_MIN = 14
GROUPS_MAX = 10
SHELVES_MAX = 8

_LIVENESS = {"yes": "live", "electable": "electable", "no": "not live"}
_LEGEND = "= sealed  - open  ~ to be sealed  : compacted  ! other records  ? not compared"
_FILLS = {"sealed": "=", "sealing": "~", "recovering": "~", OPEN: "-"}
_WHOLE = (Comparison.SAME, Comparison.SAME_RECORDS)
_OTHER_FILLS = {Comparison.COMPACTED: ":", Comparison.DIFFERENT: "!", Comparison.UNKNOWN: "?"}


def partition_picture(
    partition: DescribedPartition, segments: SegmentedPartition, marks: Mapping[str, int], notes: Sequence[str]
) -> str:
    """Draws a partition. `marks` are the committed offsets of groups; `notes` say what could not be found out."""
    parts = [
        f"{partition.topic}/{partition.partition}: {_status(partition)}",
        "\n".join([*_roles(partition), *_readers(partition, marks)]),
        "\n".join(_shelves(segments)),
        "\n".join(_stores(segments)),
        "\n".join(notes),
    ]
    return "\n\n".join(filter(None, parts))


def _status(partition: DescribedPartition) -> str:
    epoch = "" if partition.epoch == UNKNOWN else f", epoch {partition.epoch}"
    reason = f": {plain(partition.reason)}" if partition.reason else ""
    return f"{partition.resolution}{epoch}{reason}"


# roles


def _roles(partition: DescribedPartition) -> list[str]:
    leader = leader_of(partition)
    lines = ["producers", "    |", "    v"]
    if partition.leader == UNKNOWN:
        lines.append("  no leader")
    else:
        lines.append(f"  SPU {partition.leader} leads: {_leader_text(leader)}")
    followers = [each for each in details_of(partition) if each.spu_id != partition.leader]
    for each in followers:
        lines += ["    |", f"    +---> SPU {each.spu_id} follows: {_follower_text(partition, each, leader)}"]
    return lines


def _leader_text(leader: ReplicaDetail) -> str:
    if leader.log_end == UNKNOWN:
        return _silence(leader)
    return f"its log ends at {leader.log_end}, high watermark {leader.high_watermark}"


def _follower_text(partition: DescribedPartition, replica: ReplicaDetail, leader: ReplicaDetail) -> str:
    live = _LIVENESS[liveness(partition, replica.spu_id)]
    if replica.log_end == UNKNOWN:
        return f"{live}, {_silence(replica)}"
    lag = lag_of(replica, leader)
    lag_text = "" if lag is None else f", lag {lag}"
    return f"{live}, its log ends at {replica.log_end}, high watermark {replica.high_watermark}{lag_text}"


def _silence(replica: ReplicaDetail) -> str:
    return plain(replica.error_message) if replica.error_message else "its log end is unknown"


def _readers(partition: DescribedPartition, marks: Mapping[str, int]) -> list[str]:
    committed = leader_of(partition).high_watermark
    lines = ["    |", "    v", "consumers"]
    furthest_behind_first = sorted(marks.items(), key=lambda each: (each[1], each[0]))
    for group, offset in furthest_behind_first[:GROUPS_MAX]:
        behind = "" if committed == UNKNOWN else f", {max(committed - offset, 0)} behind"
        lines.append(f"  group {plain(group)} is at {offset}{behind}")
    more = len(marks) - GROUPS_MAX
    return [*lines, f"  and {more} groups that are less far behind"] if more > 0 else lines


# storage


def _shelves(partition: SegmentedPartition) -> list[str]:
    """Lists the last shelves; there may be many older ones."""
    shelves = partition.shelves[-SHELVES_MAX:]
    older = partition.older_shelves + len(partition.shelves) - len(shelves)
    title = f"on shelves, without {older} older ones:" if older else "on shelves:"
    width = len(str(shelves[-1].end)) if shelves else 0
    rows = [f"  {each.base:{width}} to {each.end:{width}}  SPUs {shelf_copies(each)}" for each in shelves]
    return [title, *rows] if rows else []


def _stores(partition: SegmentedPartition) -> list[str]:
    """Draws the last segments, all with the same width, in a row for each SPU."""
    if not partition.segments:
        return []
    ends = {each.spu_id: each.log_end for each in partition.holders}
    longest = max(len(str(each)) for segment in partition.segments for each in (segment.base, segment.end))
    width = max(SEGMENT_WIDTH_MIN, longest + 2)
    drawn = partition.segments[-max(SEGMENTS_WIDTH // width, 1) :]
    margin = max(len(f"SPU {spu_id}") for spu_id in ends) + 2
    older = partition.older_count + len(partition.segments) - len(drawn)
    title = f"segments, without {older} older ones" if older else "segments"
    scale = "".join(str(each.base).ljust(width) for each in drawn) + str(drawn[-1].end)
    states = "".join(each.state.center(width) for each in drawn)
    rows = [
        f"{f'SPU {spu_id}':{margin}}" + "".join(_copy(each, spu_id, ends[spu_id], width) for each in drawn)
        for spu_id in sorted(ends)
    ]
    mark = _place(drawn, partition.high_watermark, width)
    committed = [] if mark is None else [" " * (margin + mark) + f"^ committed up to {partition.high_watermark}"]
    return [
        f"{title}: {_LEGEND}",
        "",
        " " * margin + states.rstrip(),
        " " * margin + scale,
        *map(str.rstrip, rows),
        *committed,
    ]


def _copy(segment: DescribedSegment, spu_id: int, log_end: int, width: int) -> str:
    """Draws the copy of a segment on an SPU; its width is the share of the segment's offsets that the SPU has."""
    found = next((each.comparison for each in segment.copies if each.spu_id == spu_id), Comparison.MISSING)
    inside = width - 2
    right = ">" if segment.state == OPEN else "]"
    if found in _WHOLE:
        return f"[{_FILLS[segment.state] * inside}{right}"
    if found == Comparison.SHORTER:
        part = _share(segment, log_end, inside)
        return f"[{_FILLS[segment.state] * part}{' ' * (inside - part)} "
    if found in _OTHER_FILLS:
        return f"[{_OTHER_FILLS[Comparison(found)] * inside}{right}"
    return " " * width


def _place(drawn: Sequence[DescribedSegment], offset: int, width: int) -> int | None:
    """Returns the column of an offset; None if it is before all drawn segments."""
    for number, segment in enumerate(drawn):
        if segment.base <= offset < segment.end:
            return number * width + 1 + _share(segment, offset, width - 2)
    return len(drawn) * width if offset >= drawn[-1].end else None


def _share(segment: DescribedSegment, offset: int, width: int) -> int:
    return (offset - segment.base) * width // (segment.end - segment.base)
