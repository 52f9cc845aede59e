import argparse

import pytest

from tailrace.cli.output.times import duration, duration_ms, moment, since
from tailrace.runtime.wall_clock import moment_ms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-31T12:00:00Z", 1_769_860_800_000),
        ("2026-01-31T12:00:00", 1_769_860_800_000),
        ("2026-01-31T13:00:00.250+01:00", 1_769_860_800_250),
        ("2026-01-31", 1_769_817_600_000),
        ("yesterday", None),
        ("", None),
    ],
)
def test_times(text: str, expected: int | None) -> None:
    assert moment_ms(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", 90_000),
        ("250ms", 250),
        ("1h30m", 5_400_000),
        ("1.5h", 5_400_000),
        ("2d", 172_800_000),
        ("PT1H30M", 5_400_000),
        ("P2DT0.5S", 172_800_500),
        ("P1D", 86_400_000),
        ("P", None),
        ("PT", None),
        ("90", None),
        ("-5m", None),
        ("5 m", None),
        ("", None),
    ],
)
def test_durations(text: str, expected: int | None) -> None:
    assert duration_ms(text) == expected


def test_a_flag_that_is_none_is_refused_in_a_sentence() -> None:
    assert (moment("1970-01-01T00:00:01Z"), duration("2s")) == (1000, 2000)
    with pytest.raises(argparse.ArgumentTypeError, match=r"^soon is not a time such as 2026"):
        moment("soon")
    with pytest.raises(argparse.ArgumentTypeError, match=r"^soon is not a duration such as 90m"):
        duration("soon")
    with pytest.raises(argparse.ArgumentTypeError, match=r"^soon is not a time such as 2026.* or a duration"):
        since("soon")


def test_a_duration_goes_back_from_now_but_not_before_1970() -> None:
    assert since("1s").timestamp_ms(5000) == 4000
    assert since("9s").timestamp_ms(5000) == 0
    assert since("1970-01-01T00:00:01Z").timestamp_ms(5000) == 1000
