import pytest

from tailrace.broker.peers.peer_messages import ReceivedBatches
from tailrace.protocol.batches.record_batch import iterate, stamp
from tailrace.protocol.batches.records import Record, build_batch


def test_kept_batches_outlive_the_buffer_they_came_in() -> None:
    buffer = bytearray(b"batch")
    kept = ReceivedBatches(memoryview(buffer), []).kept()
    buffer[:] = b"other"
    assert kept.data == b"batch"


@pytest.mark.parametrize(("first", "last"), [(0, 2), (1, 2), (0, 1), (1, 1)])
def test_batches_between_two_bases_are_their_bytes_and_headers(first: int, last: int) -> None:
    batches = []
    for base in range(3):
        batch = bytearray(build_batch([Record(0, 0, None, b"x" * base)]))
        stamp(batch, 0, base, 1)
        batches.append(bytes(batch))
    data = b"".join(batches)
    headers = [header for _, header in iterate(data)]
    found = ReceivedBatches(memoryview(data), headers).between(first, last)
    assert bytes(found.data) == b"".join(batches[first : last + 1])
    assert found.headers == headers[first : last + 1]
