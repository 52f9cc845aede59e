"""Tests what follows from the counts."""

import json

import msgspec
import pytest
from stat_examples import result, topic

from tailrace.pipeline.stats.stat_rows import Compaction, StatsResult, key_text, mean_rate


def test_a_topic_is_the_sum_of_its_partitions() -> None:
    found = topic()
    assert (found.records, found.content_bytes, found.stored_bytes, found.weight) == (40, 2000, 1000, 1000)
    assert found.compaction == Compaction(4, 40, 2000, 500, 2)
    assert (found.compaction.saved, found.compaction.saved_bytes) == (36, 1500)
    assert (found.skew, found.compression_ratio, found.duplicate_count) == (1.0, 2.0, 2)
    assert found.hottest is not None
    assert found.hottest.key == "alice"
    assert found.partitions[1].per_second == 3.0


def test_a_burst_counts_as_a_second_and_one_moment_has_no_rate() -> None:
    assert mean_rate(1338, 10_000, 10_260) == 1338
    assert mean_rate(100, 0, 4_000) == 25
    assert (mean_rate(5, 7, 7), mean_rate(5, None, None)) == (None, None)


def test_an_archive_is_weighed_by_keys_and_values() -> None:
    found = topic(stored=None)
    assert (found.weight, found.stored_bytes, found.compression_ratio) == (2000, None, None)


@pytest.mark.parametrize(
    ("preview", "size", "text"),
    [
        (None, 0, None),
        (b"", 0, ""),
        (b"alice", 5, "alice"),
        (b"\x00\x01", 2, "0x0001"),
        (b"line\n", 5, "0x6c696e650a"),
        (b"long", 9, "long…"),
        ("aé".encode()[:2], 9, "a…"),
        (b"\xff\xfe", 9, "0xfffe…"),
    ],
)
def test_a_key_is_shown_as_text_if_it_is_one(preview: bytes | None, size: int, text: str | None) -> None:
    assert key_text(preview, size) == text


def test_a_result_survives_json() -> None:
    found = result()
    assert msgspec.json.decode(found.json(), type=StatsResult) == found
    assert json.loads(found.json())["topics"][0]["keys"][0]["key"] == "alice"
