from collections import Counter

import pytest

from tailrace.cli.administration.factor_plan import PlacedTopic, plan_factor
from tailrace.client.log_facts import Partition
from tailrace.client.server_connection import RefusedError
from tailrace.protocol.error_codes import ErrorCode

RACKS: dict[int, str | None] = {1: "a", 2: "a", 3: "b"}


def topic(name: str, partitions: int = 1) -> PlacedTopic:
    return PlacedTopic(name, dict.fromkeys(range(partitions), (1,)))


def test_only_the_named_topics_get_replicas_on_another_rack() -> None:
    planned = plan_factor([topic("a"), topic("b")], {"a"}, 2, RACKS)
    assert {each: set(row) for each, row in planned.items()} == {Partition("a", 0): {1, 3}}


def test_a_topic_may_ignore_racks() -> None:
    planned = plan_factor([topic("a", 2)], {"a"}, 2, RACKS, {"a"})
    assert {spu for row in planned.values() for spu in row} == {1, 2, 3}


def test_leaders_of_many_small_topics_are_spread() -> None:
    names = [f"t{number}" for number in range(9)]
    planned = plan_factor([topic(name) for name in names], set(names), 3, RACKS)
    assert Counter(row[0] for row in planned.values()) == {1: 3, 2: 3, 3: 3}


def test_what_other_topics_hold_counts() -> None:
    busy = PlacedTopic("busy", {0: [2], 1: [2]})
    planned = plan_factor([topic("a"), busy], {"a"}, 2, dict.fromkeys((1, 2, 3)))
    assert set(planned[Partition("a", 0)]) == {1, 3}


def test_partitions_that_have_the_factor_stay() -> None:
    assert plan_factor([topic("a")], {"a"}, 1, RACKS) == {}


def test_too_few_spus_are_reported_with_the_topic() -> None:
    with pytest.raises(RefusedError) as refused:
        plan_factor([topic("a")], {"a"}, 4, RACKS)
    assert str(refused.value) == "a: a replication factor of 4 needs 4 SPUs, and 3 are available"
    assert refused.value.code == ErrorCode.INVALID_REPLICATION_FACTOR
