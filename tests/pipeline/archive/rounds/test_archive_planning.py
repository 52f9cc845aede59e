from collections.abc import Iterator
from uuid import UUID

import pytest

from tailrace.pipeline.archive.manifest.archive_manifest import ArchivedPartition
from tailrace.pipeline.archive.rounds.archive_planning import (
    LogExtent,
    PlanError,
    check_positions,
    lags,
    new_partitions,
    next_wave,
    parse_every,
    parse_when,
    ranges_between,
    tasks_total,
)

LOG_ID = UUID("7b4bd4a2-45c9-4a05-9f84-6a26aa4a4d6b")
TOPIC_ID = str(LOG_ID)


def extent(partition: int = 0, start: int = 0, end: int = 100, first: int = 0, **more: int) -> LogExtent:
    return LogExtent("orders", LOG_ID, partition, start, end, first, **more)


def test_a_partition_joins_the_archive_once() -> None:
    found = new_partitions([extent(0, first=3), extent(1)], {TOPIC_ID: {1: 50}})
    assert found == [ArchivedPartition("orders", TOPIC_ID, 0, 3)]


def test_an_archive_goes_on_from_its_positions() -> None:
    extents = [extent(0), extent(1, first=7), extent(2), extent(3, end=20)]
    positions = {TOPIC_ID: {0: 40, 2: 100, 3: 50}}
    assert lags(extents, positions) == {(TOPIC_ID, 0): (40, 100), (TOPIC_ID, 1): (7, 100)}


def test_an_archive_is_never_ahead_of_its_log() -> None:
    positions = {TOPIC_ID: {0: 101}}
    check_positions([extent(0), extent(0, log_end=101)], positions)
    with pytest.raises(PlanError, match="up to offset 100, and the log has nothing from offset 90 on"):
        check_positions([extent(0, log_end=90)], positions)


def test_ranges_follow_one_another() -> None:
    assert list(ranges_between(5, 12, 3)) == [(5, 8), (8, 11), (11, 12)]
    assert list(ranges_between(5, 5, 3)) == []


def test_ranges_have_about_the_same_size() -> None:
    assert extent(start=100, end=1100, size=1_000_000).task_offsets(64_000) == 64
    assert extent(end=10, size=10**9).task_offsets(1000) == 1
    assert extent(end=1000).task_offsets(2560) == 10
    assert extent(end=10**9, size=10).task_offsets(10**9) == 4_000_000
    assert tasks_total([extent(0, size=1000), extent(1, size=1000)], {TOPIC_ID: {0: 95}}, 100) == 1 + 10


def test_a_wave_takes_from_all_partitions_in_turn_and_leaves_nothing_out() -> None:
    waiting: list[Iterator[str]] = [iter(["a1", "a2", "a3"]), iter(["b1"]), iter(["c1", "c2"])]
    assert next_wave(waiting, 4) == ["a1", "b1", "c1", "a2"]
    assert next_wave(waiting, 4) == ["a3", "c2"]
    assert next_wave(waiting, 4) == []


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("earliest", "earliest"),
        ("1700000000000", 1_700_000_000_000),
        ("2026-11-28", 1_795_824_000_000),
        ("2026-11-28T12:00:00Z", 1_795_867_200_000),
        ("2026-11-28T14:00:00.5+02:00", 1_795_867_200_500),
    ],
)
def test_times_are_words_or_times(text: str, when: object) -> None:
    assert parse_when(text, "--from", "earliest", "latest") == when


@pytest.mark.parametrize("text", ["yesterday", "", "2026-13-01", "-5", "latest"])
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(PlanError, match="--until cannot be"):
        parse_when(text, "--until")


def test_the_time_between_rounds_has_a_unit() -> None:
    assert [parse_every(each) for each in ("30s", "5m", "1h")] == [30.0, 300.0, 3600.0]
    for text in ("5", "0s", "m", "1d", "-5m"):
        with pytest.raises(PlanError, match="--every cannot be"):
            parse_every(text)
