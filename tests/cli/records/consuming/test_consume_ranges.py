import argparse

import pytest

from tailrace.cli.output.times import Since
from tailrace.cli.records.consuming.consume_ranges import place


def test_a_place_is_an_offset_or_a_time() -> None:
    assert [place(text) for text in ("end", "17", "90m", "1970-01-01T00:00:01Z")] == [
        "end",
        17,
        Since(5_400_000, True),
        Since(1_000, False),
    ]
    with pytest.raises(argparse.ArgumentTypeError, match=r"^soon is not beginning, end, an offset, "):
        place("soon")
