from collections.abc import Sequence

import pytest
from msgspec import Struct, field

from tailrace.client.log_client import ProducerName
from tailrace.client.log_facts import Partition
from tailrace.client.outgoing_line import BATCH_BYTES_MAX, OutgoingLine, Waiting, record_bytes
from tailrace.client.server_connection import RefusedError, UnreachableError
from tailrace.protocol.batches.record_batch import read_header
from tailrace.protocol.batches.records import Record, read_records
from tailrace.protocol.error_codes import ErrorCode

TOO_LARGE = RefusedError("too large", ErrorCode.MESSAGE_TOO_LARGE)
FULL = RefusedError("the disk is full", ErrorCode.KAFKA_STORAGE_ERROR)


class _Receipt(Struct, eq=False):
    appended: int = 0
    refused: dict[int, Exception] = field(default_factory=dict)

    def on_appended(self) -> None:
        self.appended += 1

    def on_refused(self, number: int, error: RefusedError | UnreachableError) -> None:
        self.refused[number] = error


def _line(receipt: _Receipt, values: Sequence[bytes], size: int = 10) -> OutgoingLine:
    line = OutgoingLine(Partition("orders", 0))
    line.name = ProducerName(7, 0)
    _add(line, receipt, values, size)
    return line


def _add(line: OutgoingLine, receipt: _Receipt, values: Sequence[bytes], size: int = 10) -> None:
    for number, value in enumerate(values):
        line.add(Waiting(Record(0, 5, None, value), size, receipt, number))


def _sent(line: OutgoingLine) -> tuple[int, list[bytes | None]]:
    """Returns the first sequence number and the values of the batch to send."""
    batch = line.batch()
    return read_header(batch).base_sequence, [each.value for each in read_records(batch)]


def test_a_batch_stays_as_it_is_until_it_is_appended() -> None:
    receipt = _Receipt()
    line = _line(receipt, [b"a", b"b"])
    batch = line.batch()
    _add(line, receipt, [b"c"])
    line.on_failed(3.0)
    line.on_failed(4.0)
    assert line.batch() == batch
    assert line.failing_since == 3.0
    assert line.on_appended() == 20
    assert line.failing_since is None
    assert _sent(line) == (2, [b"c"])
    assert line.on_appended() == 10
    assert (receipt.appended, line.has_records) == (3, False)


def test_a_batch_has_a_size_but_at_least_one_record() -> None:
    line = _line(_Receipt(), [b"a", b"b", b"c"], BATCH_BYTES_MAX // 2)
    _add(line, _Receipt(), [b"d"], 2 * BATCH_BYTES_MAX)
    assert _sent(line) == (0, [b"a", b"b"])
    line.on_appended()
    assert _sent(line) == (2, [b"c"])
    line.on_appended()
    assert _sent(line) == (3, [b"d"])


def test_a_refused_record_is_found_by_halves_and_takes_no_sequence_number() -> None:
    receipt = _Receipt()
    line = _line(receipt, [b"%d" % number for number in range(5)])
    appended, freed = [], 0
    while line.has_records:
        sequence, values = _sent(line)
        if b"3" in values:
            freed += line.on_refused(TOO_LARGE)
        else:
            appended.append((sequence, values))
            freed += line.on_appended()
    assert appended == [(0, [b"0", b"1"]), (2, [b"2"]), (3, [b"4"])]
    assert (receipt.appended, receipt.refused, freed) == (4, {3: TOO_LARGE}, 50)


def test_other_refusals_are_those_of_all_records_of_the_batch() -> None:
    receipt = _Receipt()
    line = _line(receipt, [b"a", b"b"])
    line.batch()
    _add(line, receipt, [b"c"])
    assert line.on_refused(FULL) == 20
    assert receipt.refused == {0: FULL, 1: FULL}
    assert _sent(line) == (0, [b"c"])


@pytest.mark.parametrize("code", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID])
def test_a_leader_that_has_lost_batches_gets_a_new_producer(code: ErrorCode) -> None:
    line = _line(_Receipt(), [b"a"])
    line.batch()
    line.on_appended()
    _add(line, _Receipt(), [b"b"])
    assert _sent(line) == (1, [b"b"])
    assert line.on_refused(RefusedError("lost", code)) == 0
    assert line.name is None
    line.name = ProducerName(8, 0)
    assert read_header(line.batch()).producer_id == 8
    assert _sent(line) == (0, [b"b"])


def test_giving_up_refuses_everything_and_the_next_record_has_a_new_producer() -> None:
    receipt, error = _Receipt(), UnreachableError("silent")
    line = _line(receipt, [b"a"])
    line.batch()
    _add(line, receipt, [b"b", b"c"])
    line.on_failed(1.0)
    assert line.give_up(error) == 30
    assert receipt.refused == {0: error, 1: error}
    assert (line.name, line.failing_since, line.has_records) == (None, None, False)


def test_what_is_under_way_cannot_be_withdrawn() -> None:
    mine, other = _Receipt(), _Receipt()
    line = _line(mine, [b"a"])
    line.batch()
    _add(line, mine, [b"b"])
    _add(line, other, [b"c"])
    assert line.withdraw(mine) == 10
    assert line.withdraw(mine) == 0
    line.on_appended()
    assert _sent(line) == (1, [b"c"])


def test_the_size_of_a_record() -> None:
    assert record_bytes(None, None, ()) == 0
    assert record_bytes(b"ab", b"c", [("d", b"ef"), ("g", None)]) == 7
