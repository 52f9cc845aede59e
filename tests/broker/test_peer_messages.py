from tailrace.broker.peer_messages import ReceivedBatches


def test_kept_batches_outlive_the_buffer_they_came_in() -> None:
    buffer = bytearray(b"batch")
    kept = ReceivedBatches(memoryview(buffer), []).kept()
    buffer[:] = b"other"
    assert kept.data == b"batch"
