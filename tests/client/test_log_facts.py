import pytest

from tailrace.client.log_facts import Partition, by_topic, fetched_batches, first_timestamp
from tailrace.protocol.batches.compression import Compression
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.protocol.error_codes import KafkaError


def _batch(first: int, *timestamps: int, **attributes: object) -> bytes:
    records = [Record(first + number, each, None, b"v") for number, each in enumerate(timestamps)]
    return bytes(build_batch(records, base_offset=first, **attributes))  # type: ignore[arg-type]


def test_the_first_unread_record_may_lie_within_a_batch() -> None:
    data = _batch(10, 100, 200, 300, compression=Compression.GZIP)
    assert first_timestamp(data, 12) == 300
    assert first_timestamp(data, 5) == 100
    assert first_timestamp(data, 13) is None


def test_what_is_no_record_of_a_producer_is_passed() -> None:
    control = bytes(
        build_batch([Record(10, 50, b"\0\0\0\1", b"\0\0\0\0\0\0")], base_offset=10, producer_id=1, is_control=True)
    )
    assert first_timestamp(control + _batch(11, 400), 10) == 400
    assert first_timestamp(control, 10) is None


def test_a_batch_that_nobody_can_read_has_no_time() -> None:
    data = bytearray(_batch(10, 100))
    data[16] = 1  # its magic
    assert first_timestamp(bytes(data), 10) is None


@pytest.mark.parametrize("compression", Compression)
def test_batches_of_every_compression_are_opened(compression: Compression) -> None:
    data = _batch(10, 100, 200, compression=compression) + _batch(12, 300)
    found = [(end, [(each.offset, each.timestamp) for each in records]) for end, records in fetched_batches(data)]
    assert found == [(12, [(10, 100), (11, 200)]), (13, [(12, 300)])]


def test_a_batch_that_was_cut_off_is_left_for_the_next_fetch() -> None:
    assert [end for end, _ in fetched_batches(_batch(10, 100) + _batch(11, 200)[:-1])] == [11]


def test_a_batch_whose_bits_have_flipped_is_named() -> None:
    data = bytearray(_batch(10, 100))
    data[-1] ^= 1
    with pytest.raises(KafkaError, match="the batch at offset 10 is corrupt"):
        list(fetched_batches(bytes(data)))


def test_requests_name_each_topic_once() -> None:
    partitions = [Partition("b", 1), Partition("a", 3), Partition("b", 0)]
    assert by_topic(partitions) == [("a", [3]), ("b", [0, 1])]
    assert by_topic([]) == []
    assert str(partitions[0]) == "b/1"
