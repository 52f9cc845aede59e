"""Tests that addresses take turns in a line."""

from tailrace.server.fairness.waiting_line import WaitingLine


def _taken(line: WaitingLine[str]) -> list[str]:
    taken = []
    while line:
        taken.append(line.take())
    return taken


def test_addresses_take_turns() -> None:
    line = WaitingLine[str]()
    for name in ("a1", "a2", "a3", "b1", "c1", "c2"):
        line.join(name[0], name)
    assert _taken(line) == ["a1", "b1", "c1", "a2", "c2", "a3"]


def test_an_address_that_comes_back_waits_for_the_others() -> None:
    line = WaitingLine[str]()
    line.join("a", "a1")
    line.join("b", "b1")
    assert line.take() == "a1"
    line.join("a", "a2")
    assert _taken(line) == ["b1", "a2"]


def test_what_leaves_is_not_taken() -> None:
    line = WaitingLine[str]()
    for name in ("a1", "b1", "b2"):
        line.join(name[0], name)
    line.leave("a", "a1")
    line.leave("b", "b1")
    assert _taken(line) == ["b2"]


def test_a_line_that_all_have_left_is_empty() -> None:
    line = WaitingLine[str]()
    line.join("a", "a1")
    assert line
    line.leave("a", "a1")
    assert not line
