"""Tests how numbers are put into words."""

from tailrace.pipeline.stats.stat_words import (
    bytes_text,
    count_text,
    power_range_text,
    power_text,
    rate_text,
    share_text,
    span_text,
    time_text,
)


def test_numbers_are_short() -> None:
    assert [count_text(each) for each in (None, 7, 12_345)] == ["–", "7", "12\u202f345"]
    assert [bytes_text(each) for each in (None, 999, 1500, 123_456_789)] == ["–", "999 B", "1.5 kB", "123 MB"]
    assert [rate_text(each) for each in (None, 0.1234, 12.34, 4321.0)] == ["–", "0.123", "12.3", "4\u202f321"]
    assert [share_text(*each) for each in ((1, 3), (0, 0))] == ["33.3 %", "–"]


def test_times_and_spans_are_round() -> None:
    assert time_text(1_700_000_000_000) == "2023-11-14 22:13:20"
    assert time_text(2**62) == str(2**62), "no calendar has this time"
    assert [span_text(each) for each in (30, 90, 120, 7200, 172_800)] == ["30 s", "90 s", "2 min", "2 h", "2 d"]


def test_powers_of_two_are_short() -> None:
    assert [power_text(each) for each in (512, 1024, 2**22, 2**31)] == ["512", "1k", "4M", "2G"]
    assert [power_range_text(*each) for each in ((0, 1), (8, 16), (1024, 2048))] == ["0", "8–15", "1k–2k"]
