import json
from uuid import UUID

from msgspec.structs import replace

from tailrace.cli.objects.partition_facts import is_lagging
from tailrace.cli.objects.partition_tables import description, partition_document, partition_table
from tailrace.protocol.internal.describe_partitions import DescribedPartition, DescribedShelf, ReplicaDetail

LEADERLESS = DescribedPartition(
    "orders",
    UUID(int=5),
    3,
    "Offline",
    1,
    4,
    [1, 2],
    [1],
    "SPU 1 is offline",
    [ReplicaDetail(1, error_message="SPU 1 is not online"), ReplicaDetail(2, 0, 5, 3, 12345)],
)


def test_what_nobody_said_is_a_dash() -> None:
    (line,) = partition_table([LEADERLESS]).splitlines()[1:]
    assert line.split("  ")[0] == "orders"
    assert " -   -  2: ?      4  Offline  SPU 1 is offline" in line
    assert description(LEADERLESS).splitlines()[-2:] == [
        "  1  leader    yes           -    -   -    -  -        SPU 1 is not online",
        "  2  follower  no            0    5   3    -  12.3 kB  -",
    ]
    assert is_lagging(LEADERLESS)
    document = partition_document(LEADERLESS)
    assert document["logEnd"] is None
    json.dumps(document)


def test_replicas_that_come_and_go_are_named_while_they_do() -> None:
    partition = DescribedPartition("a", UUID(int=5), 0, "Online", 1, 0, [1, 2, 3], [1, 2], "", [])
    assert "Adding" not in description(partition) and "Removing" not in description(partition)
    partition = replace(partition, adding=[3], removing=[1, 2])
    assert {"Adding:    [3]", "Removing:  [1, 2]"} <= set(description(partition).splitlines())
    document = partition_document(partition)
    assert (document["adding"], document["removing"]) == ([3], [1, 2])


def test_a_description_tells_who_keeps_what_is_old() -> None:
    shelves = [DescribedShelf(0, 10, [2, 3]), DescribedShelf(10, 20, [3], [4])]
    partition = DescribedPartition("orders", UUID(int=1), 0, shelved_from=4, shelves=shelves)
    lines = description(partition).splitlines()
    assert [line.split() for line in lines if line.startswith("On shelves")] == [["On", "shelves:", "4", "to", "20"]]
    assert "\n".join(lines[-4:-1] if lines[-1].startswith("EPOCH") else lines[-3:]) == (
        "SHELF BASE  END  COPIES\n         0   10  2, 3\n        10   20  3, 4 (being filled)"
    )
    assert "helves" not in description(replace(partition, shelves=[]))
