import pytest

from tailrace.cli.records.formats.produced_lines import Entry
from tailrace.cli.records.producing.produced_batches import ProducedBatches, Written
from tailrace.client.log_client import ProducerName
from tailrace.client.log_facts import Partition
from tailrace.client.outgoing_line import BATCH_BYTES_MAX
from tailrace.client.server_connection import RefusedError
from tailrace.protocol.batches.record_batch import read_header
from tailrace.protocol.batches.records import read_records
from tailrace.protocol.error_codes import ErrorCode

HERE, THERE = Partition("orders", 0), Partition("orders", 1)
TOO_LARGE = RefusedError("too large", ErrorCode.MESSAGE_TOO_LARGE)


def _entries(*values: bytes) -> list[Entry]:
    return [Entry(None, value) for value in values]


def _values(batches: ProducedBatches) -> dict[Partition, list[bytes | None]]:
    return {each: [record.value for record in read_records(batch)] for each, batch in batches.next().items()}


def _sequence(batches: ProducedBatches) -> int:
    return read_header(batches.next()[HERE]).base_sequence


def test_each_partition_has_its_batch_until_that_is_acknowledged() -> None:
    batches = ProducedBatches(None, headers=[("h", b"1")])
    batches.add(HERE, _entries(b"a", b"b"), 5)
    batches.add(THERE, _entries(b"c"), 5)
    batches.add(HERE, _entries(b"d"), 6)
    assert _values(batches) == {HERE: [b"a", b"b"], THERE: [b"c"]}
    batches.on_answer(HERE, 10)
    assert _values(batches) == {HERE: [b"d"], THERE: [b"c"]}
    batch = batches.next()[HERE]
    (record,) = read_records(batch)
    assert (record.timestamp, record.headers, read_header(batch).has_producer) == (6, [("h", b"1")], False)
    batches.on_answer(THERE, 0)
    batches.on_answer(HERE, 15)
    assert _values(batches) == {}
    assert batches.written == {HERE: Written(3, 10, 15), THERE: Written(1, 0, 0)}
    assert batches.count == 4


def test_a_batch_has_so_many_bytes_and_a_larger_record_its_own() -> None:
    batches = ProducedBatches(None)
    half, whole = b"x" * (BATCH_BYTES_MAX // 2), b"y" * (BATCH_BYTES_MAX + 1)
    batches.add(HERE, _entries(half, half, b"z", whole, b"z"), 0)
    sizes = []
    while found := _values(batches):
        sizes.append([len(value or b"") for value in found[HERE]])
        batches.on_answer(HERE, 0)
    assert sizes == [[len(half)] * 2, [1], [len(whole)], [1]]


@pytest.mark.parametrize("entry", [Entry(None, b""), Entry(b"", b""), Entry(b"", None)])
def test_an_empty_line_may_be_the_first(entry: Entry) -> None:
    batches = ProducedBatches(None)
    batches.add(HERE, [entry, Entry(None, b"a")], 0)
    assert _values(batches) == {HERE: [entry.value, b"a"]}


def test_sequences_go_on_where_the_last_acknowledged_batch_ended() -> None:
    batches = ProducedBatches(ProducerName(7, 3))
    batches.add(HERE, _entries(b"a", b"b"), 0)
    batches.add(HERE, _entries(b"c"), 0)
    header = read_header(batches.next()[HERE])
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 0)
    batches.on_answer(HERE, None)
    assert _sequence(batches) == 2
    assert batches.written[HERE] == Written(2, None, None)
    batches.on_answer(HERE, 9)
    assert batches.written[HERE] == Written(3, None, 9)


def test_what_is_too_large_is_halved_in_order() -> None:
    batches = ProducedBatches(ProducerName(7, 3))
    batches.add(HERE, _entries(b"a", b"b", b"c"), 0)
    batches.on_answer(HERE, TOO_LARGE)
    assert (_values(batches)[HERE], _sequence(batches)) == ([b"a"], 0)
    batches.on_answer(HERE, 0)
    assert (_values(batches)[HERE], _sequence(batches)) == ([b"b", b"c"], 1)
    batches.on_answer(HERE, TOO_LARGE)
    with pytest.raises(RefusedError, match="too large"):
        batches.on_answer(HERE, TOO_LARGE)


def test_any_other_refusal_is_the_end() -> None:
    batches = ProducedBatches(None)
    batches.add(HERE, _entries(b"a", b"b"), 0)
    with pytest.raises(RefusedError, match="no"):
        batches.on_answer(HERE, RefusedError("no", ErrorCode.INVALID_RECORD))
