"""The checks of the fault run notice each kind of wrong result."""

from chaos.transaction_outcomes import Outcome, Outcomes, contradictions, copying_contradictions

PLACES = [("work", 0), ("work", 1)]


def _producer(*outcomes: Outcome) -> Outcomes:
    producer = Outcomes("p", PLACES, 2)
    for outcome in outcomes:
        producer.by_number[producer.begin()] = outcome
    return producer


def _found(producer: Outcomes, *values: str, last: tuple[str, ...] | None = None) -> list[str]:
    """Returns what is wrong if both partitions have these values, or the second one has others."""
    logs = [list(enumerate(value.encode() for value in each)) for each in (values, values if last is None else last)]
    return contradictions(dict(zip(PLACES, logs, strict=True)), [producer])


def test_committed_transactions_are_there_and_unknown_ones_may_be():
    producer = _producer(Outcome.COMMITTED, Outcome.ABORTED, Outcome.UNKNOWN)
    assert _found(producer, "p:1:0", "p:1:1") == []
    assert _found(producer, "p:1:0", "p:1:1", "p:3:0", "p:3:1") == []


def test_a_lost_transaction_is_found():
    assert _found(_producer(Outcome.COMMITTED)) == ["p: transaction 1 was committed, and is lost"]


def test_an_aborted_transaction_that_is_visible_is_found():
    assert _found(_producer(Outcome.ABORTED), "p:1:0", "p:1:1") == ["p: transaction 1 was aborted, and is visible"]


def test_a_torn_transaction_is_found():
    found = _found(_producer(Outcome.UNKNOWN), "p:1:0", "p:1:1", last=())
    assert found == ["p: transaction 1 is torn: [2, 0] of [2, 2] records"]


def test_repeated_and_reordered_records_are_found():
    (repeated, torn) = _found(_producer(Outcome.COMMITTED), "p:1:0", "p:1:1", last=("p:1:0", "p:1:1", "p:1:1"))
    assert ("repeated or out of order" in repeated, "torn" in torn) == (True, True)
    (reordered,) = _found(_producer(Outcome.COMMITTED), "p:1:0", "p:1:1", last=("p:1:1", "p:1:0"))
    assert "repeated or out of order" in reordered


def test_records_of_nobody_are_found():
    assert _found(_producer(), "q:1:0", last=()) == ["q has written, and is no producer"]
    (unknown,) = _found(_producer(), "p:1:0", "p:1:1")
    assert unknown == "p: transaction 1 was never begun"


def test_copies_that_are_missing_doubled_or_reordered_are_found():
    source = {0: [(0, b"a"), (1, b"b")]}
    assert copying_contradictions(source, {0: [(0, b"a"), (3, b"b")]}) == []
    for copies, said in (("a", "not processed"), ("abb", "twice"), ("ba", "out of order")):
        (found,) = copying_contradictions(source, {0: list(enumerate(each.encode() for each in copies))})
        assert said in found
