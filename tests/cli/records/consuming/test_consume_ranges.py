import argparse

import pytest

from tailrace.cli.records.consuming.consume_ranges import Since, place


def test_a_place_is_an_offset_or_a_time() -> None:
    assert [place(text) for text in ("end", "17", "90m", "1970-01-01T00:00:01Z")] == [
        "end",
        17,
        Since(5_400_000, True),
        Since(1_000, False),
    ]
    with pytest.raises(argparse.ArgumentTypeError, match=r"^soon is not beginning, end, an offset, "):
        place("soon")


def test_a_duration_goes_back_from_now_but_not_before_1970() -> None:
    assert Since(1000, True).timestamp_ms(5000) == 4000
    assert Since(9000, True).timestamp_ms(5000) == 0
    assert Since(1000, False).timestamp_ms(5000) == 1000
