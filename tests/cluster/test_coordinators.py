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


def test_long_keys_follow_the_same_rule_as_short_ones() -> None:
    for length in (99, 100, 101):
        key, value = "k" * length, 0
        for _ in key:
            value = (31 * value + ord("k")) & 0xFFFF_FFFF
        expected = abs(value if value < 2**31 else value - 2**32) % 50
        assert [partition_of(key, 50) for _ in range(2)] == [expected] * 2
