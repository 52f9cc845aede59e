"""Tests the facts of a result; compat_tests/spark/test_stats.py collects them from logs."""

from stat_examples import result, topic

from tailrace.pipeline.stats.stat_collection import peak_rate, result_of
from tailrace.pipeline.stats.stat_rows import RateSlot


def test_the_facts_are_those_that_one_looks_at_first() -> None:
    found = result()
    assert found.is_ok
    assert found.verdict == "40 records of /data/spu-1 are counted, 2 duplicates among them"
    assert dict(found.facts) == {
        "topics": 1,
        "partitions": 2,
        "records": 40,
        "bytes of keys and values": 2000,
        "stored bytes": 1000,
        "largest partition": "orders/0",
        "most frequent key": "alice in orders/1, 50.0 % of its topic",
        "records that compaction would delete": 36,
        "bytes that compaction would delete": 1500,
        "duplicate records": 2,
    }


def test_an_empty_source_and_an_archive_have_facts_too() -> None:
    assert result_of("nothing", []).verdict == "0 records of nothing are counted, no duplicate among them"
    assert result(topic(stored=None)).facts["stored bytes"] is None


def test_the_peak_is_the_busiest_slot_and_never_less_than_the_mean() -> None:
    slots = [RateSlot(0, 300, 0), RateSlot(10_000, 900, 0)]
    assert peak_rate(slots, 10, 60.0) == 90.0
    assert peak_rate(slots, 10, 120.0) == 120.0
    assert peak_rate(slots, 10, None) == 90.0
    assert peak_rate([], 10, 60.0) is None
