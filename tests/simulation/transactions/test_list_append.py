"""A history is exported as what an external checker of list-append histories reads."""

from simulation.transactions.list_append import Append, Kind, ListRead, Operation, edn, operations
from simulation.transactions.small_histories import ONE, Small
from simulation.transactions.transaction_history import Poll, Position, Reader, Record


def test_transactions_append_and_responses_read() -> None:
    small = Small()
    a, b, x, c, y, p = range(1, 7)
    assert operations(small.history) == [
        Operation(1, Kind.OK, 1.0, (Append(0, a), Append(0, b), Append(1, x))),
        Operation(2, Kind.FAIL, 1.0, (Append(0, c), Append(1, y))),
        Operation(4, Kind.OK, 6.0, (ListRead(0, (a, b)),)),
        Operation(3, Kind.OK, 8.0, (Append(0, p),)),
        Operation(4, Kind.OK, 9.0, (ListRead(0, (a, b, p)),)),
    ]


def test_a_reader_that_starts_later_has_read_what_came_before() -> None:
    small = Small()
    small.history.readers = [Reader("late", True, [Position(ONE, 1), Poll(ONE, [Record(1, b"b")], 6.0, 6.1)])]
    assert operations(small.history)[2].steps == (ListRead(0, (1, 2)),)


def test_reads_end_where_transactions_are_whole() -> None:
    small = Small()
    small.history.readers = [Reader("reader", True, [Poll(ONE, [Record(0, b"a")], 6.0, 6.1)])]
    assert operations(small.history)[2].steps == (ListRead(0, ()),)
    assert operations(small.history, whole=False)[2].steps == (ListRead(0, (1,)),)


def test_operations_are_written_in_edn() -> None:
    lines = edn(Small().history).splitlines()
    assert (
        lines[0] == "{:index 0, :type :invoke, :process 1, :f :txn, :value [[:append 0 1] [:append 0 2] [:append 1 3]]}"
    )
    assert lines[3] == "{:index 3, :type :fail, :process 2, :f :txn, :value [[:append 0 4] [:append 1 5]]}"
    assert lines[4] == "{:index 4, :type :invoke, :process 4, :f :txn, :value [[:r 0 nil]]}"
    assert lines[5] == "{:index 5, :type :ok, :process 4, :f :txn, :value [[:r 0 [1 2]]]}"
    assert len(lines) == 10
