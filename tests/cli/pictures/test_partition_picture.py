from msgspec.structs import replace

from tailrace.cli.pictures.partition_picture import GROUPS_MAX, partition_picture
from tailrace.protocol.internal.describe_partitions import DescribedPartition, ReplicaDetail
from tailrace.protocol.internal.describe_segments import (
    DescribedSegment,
    DescribedShelf,
    SegmentCopy,
    SegmentedPartition,
    SegmentHolder,
)

LEADER = ReplicaDetail(1, log_start=0, log_end=140, high_watermark=138, is_leader=True)
BEHIND = ReplicaDetail(2, log_start=0, log_end=120, high_watermark=100)
SILENT = ReplicaDetail(3, error_message="SPU 3 is not online")
PARTITION = DescribedPartition(
    "orders",
    partition=0,
    resolution="Online",
    leader=1,
    epoch=4,
    replicas=[1, 2, 3],
    live_replicas=[1, 2],
    details=[LEADER, BEHIND, SILENT],
)


def _copies(*comparisons: str) -> list[SegmentCopy]:
    return [SegmentCopy(spu_id, comparison) for spu_id, comparison in enumerate(comparisons, 1)]


SEALED = DescribedSegment(0, 100, state="sealed", copies=_copies("same", "same records", "missing"))
OPEN = DescribedSegment(100, 140, state="open", copies=_copies("same", "shorter", "missing"))
SEGMENTS = SegmentedPartition(
    "orders",
    partition=0,
    leader=1,
    told_by=1,
    log_start=0,
    log_end=140,
    high_watermark=138,
    segments=[SEALED, OPEN],
    holders=[SegmentHolder(1, 140), SegmentHolder(2, 120), SegmentHolder(3)],
)


def test_who_writes_leads_follows_and_reads_and_what_lies_where() -> None:
    picture = partition_picture(
        PARTITION, SEGMENTS, {"billing": 38, "shipping": 138, "a\x1b": 0}, ["nobody knows more"]
    )
    assert picture.splitlines() == [
        "orders/0: Online, epoch 4",
        "",
        "producers",
        "    |",
        "    v",
        "  SPU 1 leads: its log ends at 140, high watermark 138",
        "    |",
        "    +---> SPU 2 follows: live, its log ends at 120, high watermark 100, lag 20",
        "    |",
        "    +---> SPU 3 follows: not live, SPU 3 is not online",
        "    |",
        "    v",
        "consumers",
        "  group a\\x1b is at 0, 138 behind",
        "  group billing is at 38, 100 behind",
        "  group shipping is at 138, 0 behind",
        "",
        "segments: = sealed  - open  ~ to be sealed  : compacted  ! other records  ? not compared",
        "",
        "           sealed         open",
        "       0             100           140",
        "SPU 1  [============][------------>",
        "SPU 2  [============][------",
        "SPU 3",
        "                                 ^ committed up to 138",
        "",
        "nobody knows more",
    ]


def test_nobody_leads() -> None:
    partition = replace(PARTITION, leader=-1, resolution="Offline", reason="no live replica", details=[SILENT])
    picture = partition_picture(partition, SegmentedPartition("orders"), {"billing": 5}, [])
    assert picture.splitlines()[:7] == [
        "orders/0: Offline, epoch 4: no live replica",
        "",
        "producers",
        "    |",
        "    v",
        "  no leader",
        "    |",
    ]
    assert "  group billing is at 5" in picture.splitlines()
    assert "segments" not in picture


def test_a_leader_that_says_nothing() -> None:
    picture = partition_picture(replace(PARTITION, details=[BEHIND]), SEGMENTS, {}, [])
    assert "  SPU 1 leads: its log end is unknown" in picture
    assert "SPU 2 follows: live, its log ends at 120, high watermark 100\n" in picture


def test_the_last_segments_alone_where_there_are_many() -> None:
    many = [
        DescribedSegment(base, base + 10, state="sealed", copies=_copies("same", "compacted", "different"))
        for base in range(0, 100, 10)
    ]
    rows = partition_picture(PARTITION, replace(SEGMENTS, segments=many, older_count=7), {}, []).splitlines()
    title = next(number for number, row in enumerate(rows) if row.startswith("segments"))
    assert rows[title].startswith("segments, without 13 older ones: ")
    assert rows[title + 3 : title + 8] == [
        "       60            70            80            90            100",
        "SPU 1  [============][============][============][============]",
        "SPU 2  [::::::::::::][::::::::::::][::::::::::::][::::::::::::]",
        "SPU 3  [!!!!!!!!!!!!][!!!!!!!!!!!!][!!!!!!!!!!!!][!!!!!!!!!!!!]",
        "                                                               ^ committed up to 138",
    ]


def test_what_others_keep_than_the_replicas_stands_before_the_segments() -> None:
    shelves = [DescribedShelf(base, base + 10, [7, 8]) for base in range(0, 80, 10)]
    shelves.append(DescribedShelf(80, 90, [7], [9]))
    rows = partition_picture(PARTITION, replace(SEGMENTS, shelves=shelves, older_shelves=2), {}, []).splitlines()
    title = rows.index("on shelves, without 3 older ones:")
    assert rows[title + 1] == "  10 to 20  SPUs 7, 8"
    assert rows[title + 8] == "  80 to 90  SPUs 7, 9 (being filled)"
    assert rows[title + 10].startswith("segments")
    few = partition_picture(PARTITION, replace(SEGMENTS, shelves=shelves[:1]), {}, [])
    assert "on shelves:\n   0 to 10  SPUs 7, 8\n" in few
    assert "shelves" not in partition_picture(PARTITION, SEGMENTS, {}, [])


def test_what_is_committed_may_end_before_all_that_is_drawn() -> None:
    picture = partition_picture(PARTITION, replace(SEGMENTS, segments=[OPEN], high_watermark=90), {}, [])
    assert "^" not in picture


def test_a_segment_without_records() -> None:
    empty = DescribedSegment(140, 140, state="open", copies=_copies("same", "missing", "not compared"))
    rows = partition_picture(PARTITION, replace(SEGMENTS, segments=[empty], high_watermark=140), {}, []).splitlines()
    assert rows[-4:] == [
        "SPU 1  [------------>",
        "SPU 2",
        "SPU 3  [????????????>",
        "                     ^ committed up to 140",
    ]


def test_the_groups_that_are_furthest_behind_where_there_are_many() -> None:
    marks = {f"group-{number}": number for number in range(GROUPS_MAX + 3)}
    rows = partition_picture(PARTITION, SEGMENTS, marks, []).splitlines()
    assert sum(row.startswith("  group ") for row in rows) == GROUPS_MAX
    assert "  group group-0 is at 0, 138 behind" in rows
    assert "  and 3 groups that are less far behind" in rows
