"""Tests that the partition of a group is the one that Kafka computes."""

import pytest

from tailrace.cluster.coordinators import partition_of


@pytest.mark.parametrize(
    ("group_id", "partition"),
    [("", 0), ("g", 3), ("my-group", 12), ("polygenelubricants", 0), ("Ünïcode", 14), ("a😀b", 44)],
)
def test_groups_lie_where_kafka_puts_them(group_id: str, partition: int) -> None:
    assert partition_of(group_id, 50) == partition


def test_a_group_belongs_to_one_of_the_partitions() -> None:
    assert {partition_of(f"group-{number}", 7) for number in range(100)} == set(range(7))
