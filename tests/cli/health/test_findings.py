import pytest

from tailrace.cli.health.findings import Finding, Level, finding_document, finding_text, listed, worst_of

FINE = Finding(Level.OK, "clocks", "All clocks agree.")
BAD = Finding(Level.PROBLEM, "SPU 1", "SPU 1 is offline.", "Start it.")


def test_the_worst_level_counts() -> None:
    assert worst_of([]) is Level.OK
    assert worst_of([FINE, Finding(Level.WARNING, "disks", "x")]) is Level.WARNING
    assert worst_of([BAD, FINE]) is Level.PROBLEM


def test_a_finding_has_the_next_step_on_its_own_line_and_no_control_characters() -> None:
    assert finding_text(FINE) == "ok       All clocks agree."
    assert finding_text(BAD) == "problem  SPU 1 is offline.\n         Start it."
    assert finding_text(Finding(Level.OK, "x", "a\x1b[2Jb")) == "ok       a\\x1b[2Jb"
    assert finding_document(BAD) == {
        "level": "problem",
        "subject": "SPU 1",
        "text": "SPU 1 is offline.",
        "nextStep": "Start it.",
    }
    assert "nextStep" not in finding_document(FINE)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["a"], "a"),
        (["a", "b"], "a and b"),
        (["a", "b", "c"], "a, b and c"),
        ([*"abcde"], "a, b, c and 2 more"),
    ],
)
def test_long_lists_are_shortened(names: list[str], text: str) -> None:
    assert listed(names) == text
