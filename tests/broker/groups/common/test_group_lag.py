"""Tests the computation of group lag."""

from itertools import permutations

from tailrace.broker.groups.common.group_lag import (
    NO_TIMESTAMP,
    NOTHING_THERE,
    Backlog,
    GroupLag,
    GroupPosition,
    LargestLags,
    group_lags,
    unread_offsets,
)
from tailrace.protocol.ids import TopicId

A, B = (TopicId(int=1), 0), (TopicId(int=2), 3)
NOW_MS = 1_700_000_000_000


def committed(offset: int, group: str = "g", partition_key: tuple[TopicId, int] = A) -> GroupPosition:
    return GroupPosition(group, "a" if partition_key is A else "b", partition_key, offset)


def farthest(found: list[GroupPosition], ends: dict[tuple[TopicId, int], int], count_max: int) -> list[Backlog]:
    those = LargestLags(ends, count_max)
    for each in found:
        those.add(each)
    return those.result()


def test_the_lag_is_what_a_group_could_read() -> None:
    behind = farthest([committed(3), committed(10), committed(12)], {A: 10}, 9)
    assert [each.records for each in behind] == [7, 0, 0], "nobody is ahead"


def test_the_largest_lags_are_kept_and_unknown_lags_come_last() -> None:
    found = [committed(10, "done"), committed(1, "late"), committed(5, "unknown", B), committed(0, "latest")]
    behind = farthest(found, {A: 10}, 9)
    assert [(each.committed.group_id, each.records) for each in behind] == [
        ("latest", 10),
        ("late", 9),
        ("done", 0),
        ("unknown", None),
    ]
    for order in permutations(found):
        assert farthest(list(order), {A: 10}, 2) == behind[:2]


def test_ages_are_asked_once_for_each_offset_with_something_to_read() -> None:
    behind = [
        Backlog(committed(3), 7),
        Backlog(committed(3, "other"), 7),
        Backlog(committed(4), 6),
        Backlog(committed(9, partition_key=B), 1),
        Backlog(committed(10), 0),
        Backlog(committed(10, partition_key=B), None),
    ]
    assert unread_offsets(behind) == {A: [3, 4], B: [9]}


def test_seconds_are_the_age_of_what_comes_next() -> None:
    behind = [
        Backlog(committed(offset), records) for offset, records in ((1, 5), (2, 4), (3, 3), (4, 2), (6, 0), (7, None))
    ]
    written_ms = {(A, 1): NOW_MS - 1500, (A, 2): NOW_MS + 7000, (A, 3): NO_TIMESTAMP, (A, 4): NOTHING_THERE}
    assert group_lags(behind, written_ms, NOW_MS) == [
        GroupLag("g", "a", 0, 1, 5, 1.5),
        GroupLag("g", "a", 0, 2, 4, 0.0),  # the clock of the producer is ahead
        GroupLag("g", "a", 0, 3, 3, None),
        GroupLag("g", "a", 0, 4, 2, 0.0),
        GroupLag("g", "a", 0, 6, 0, 0.0),
        GroupLag("g", "a", 0, 7, None, None),
    ]
    assert group_lags([Backlog(committed(5), 1)], written_ms, NOW_MS)[0].seconds is None, "nobody said"
