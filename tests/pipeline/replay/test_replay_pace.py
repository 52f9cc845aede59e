import pytest

from tailrace.pipeline.replay.replay_pace import ReplayPace, parse_speed


def test_time_goes_faster_by_the_speed() -> None:
    pace = ReplayPace(10.0, 1_000_000, 5_000_000)
    assert [pace.due_ms(each) for each in (1_000_000, 1_010_000, 999_000)] == [5_000_000, 5_001_000, 4_999_900]
    assert pace.window_ms == 1000


def test_speeds_are_read() -> None:
    assert [parse_speed(each) for each in ("10x", "1", "0.5x")] == [10.0, 1.0, 0.5]
    for each in ("0", "x", "-1", "fast", "1e3"):
        with pytest.raises(ValueError, match="is not a speed such as 1x"):
            parse_speed(each)
