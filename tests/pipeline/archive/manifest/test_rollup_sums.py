from tailrace.pipeline.archive.manifest.rollup_sums import ROLLUP_END, add, rollup_text


def test_sums_stay_below_the_end() -> None:
    assert add() == 0
    assert add(ROLLUP_END - 1, 1) == 0
    assert add(1, 2, 3) == 6


def test_a_roll_up_has_16_digits() -> None:
    assert rollup_text(0x2A) == "000000000000002a"
    assert rollup_text(ROLLUP_END - 1) == "f" * 16
