import mmap
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.protocol.error_codes import RemoteProtocolError
from tailrace.server.inbox import ROOM_BYTES_MAX, SPARE_BYTES, SPARE_FROM_BYTES, SPARES_MAX, Inbox, ReceiveBuffers

REQUEST_BYTES_MAX = 1000
SHARED_BYTES = 64


def _frame(request: bytes) -> bytes:
    return struct.pack(">i", len(request)) + request


class _Sender:
    """Puts a stream into an inbox as a socket would, in pieces of at most the sizes in `chunks`."""

    def __init__(self, inbox: Inbox, stream: bytes) -> None:
        self._inbox = inbox
        self._rest = stream

    @property
    def done(self) -> bool:
        return not self._rest

    def deliver(self, at_most: int) -> None:
        room = self._inbox.room()
        assert len(room) > 0, "an inbox without a whole request takes more"
        count = min(at_most, len(room), len(self._rest))
        room[:count] = self._rest[:count]
        self._inbox.received(count)
        self._rest = self._rest[count:]


def _take(inbox: Inbox, at_most: int) -> list[bytes]:
    """Returns copies of the requests of one turn, because the buffer is reused after the turn."""
    taken = []
    while len(taken) < at_most and (request := inbox.next_request()) is not None:
        taken.append(bytes(request))
    inbox.end_turn()
    return taken


@given(
    requests=st.lists(st.binary(max_size=200), max_size=30),
    chunks=st.lists(st.integers(1, 300), min_size=1, max_size=20),
    turns=st.lists(st.integers(1, 5), min_size=1, max_size=5),
)
def test_any_split_of_a_stream_gives_the_same_requests(
    requests: list[bytes], chunks: list[int], turns: list[int]
) -> None:
    buffers = ReceiveBuffers(SHARED_BYTES, spare_bytes=150, spare_from_bytes=40)
    inbox = Inbox(buffers, REQUEST_BYTES_MAX)
    sender = _Sender(inbox, b"".join(map(_frame, requests)))
    taken: list[bytes] = []
    step = 0
    while not sender.done or inbox.has_request:
        if not inbox.has_request:
            sender.deliver(chunks[step % len(chunks)])
        taken += _take(inbox, turns[step % len(turns)])
        buffers.shared[:] = b"\xff" * SHARED_BYTES  # the next connection's bytes
        step += 1
    assert taken == requests
    assert inbox.incomplete_bytes == 0


def test_a_request_that_arrives_whole_is_not_copied() -> None:
    buffers = ReceiveBuffers(SHARED_BYTES)
    inbox = Inbox(buffers, REQUEST_BYTES_MAX)
    _Sender(inbox, _frame(b"whole")).deliver(SHARED_BYTES)
    request = inbox.next_request()
    assert request is not None
    buffers.shared[4:9] = b"WHOLE"
    assert bytes(request) == b"WHOLE"


@pytest.mark.parametrize("at_most", [1, 7, SHARED_BYTES])
def test_a_request_that_is_put_back_is_the_next_one(at_most: int) -> None:
    inbox = Inbox(ReceiveBuffers(SHARED_BYTES), REQUEST_BYTES_MAX)
    sender = _Sender(inbox, b"".join(map(_frame, (b"first", b"second", b""))))
    taken: list[bytes] = []
    while not sender.done:
        sender.deliver(at_most)
        while (request := inbox.next_request()) is not None:
            inbox.put_back(request)
            taken += _take(inbox, 1)
        inbox.end_turn()
    assert taken == [b"first", b"second", b""]


def test_two_connections_share_one_buffer() -> None:
    buffers = ReceiveBuffers(SHARED_BYTES)
    first, second = Inbox(buffers, REQUEST_BYTES_MAX), Inbox(buffers, REQUEST_BYTES_MAX)
    sends_first, sends_second = _Sender(first, _frame(b"a" * 100)), _Sender(second, _frame(b"b" * 100))
    while not (sends_first.done and sends_second.done):
        for inbox, sender in ((first, sends_first), (second, sends_second)):
            sender.deliver(30)
            if not sender.done:
                assert _take(inbox, 1) == []
    assert _take(first, 1) == [b"a" * 100]
    assert _take(second, 1) == [b"b" * 100]


def test_a_false_size_allocates_nothing() -> None:
    """Memory grows with received bytes: a client cannot make us allocate with an announced size."""
    limit = 100 * 1024 * 1024
    inbox = Inbox(ReceiveBuffers(SHARED_BYTES), limit)
    sender = _Sender(inbox, struct.pack(">i", limit) + b"x" * 1000)
    while not sender.done:
        sender.deliver(10)
        assert _take(inbox, 1) == []
    assert inbox.incomplete_bytes == limit + 4
    assert len(inbox.room()) <= 128 * 1024


def test_room_never_reaches_past_the_request_that_has_begun() -> None:
    """Later bytes stay in the socket, so that a request in its own buffer is alone there."""
    inbox = Inbox(ReceiveBuffers(SHARED_BYTES), REQUEST_BYTES_MAX)
    stream = _frame(b"a" * 500) + _frame(b"b")
    sender = _Sender(inbox, stream)
    sender.deliver(SHARED_BYTES)
    assert _take(inbox, 1) == []
    while not inbox.has_request:
        assert len(inbox.room()) <= 504 - SHARED_BYTES
        sender.deliver(SHARED_BYTES)
    assert _take(inbox, 9) == [b"a" * 500]
    sender.deliver(SHARED_BYTES)
    assert _take(inbox, 9) == [b"b"]


@pytest.mark.parametrize("size", [-1, -(2**31), REQUEST_BYTES_MAX + 1, 2**31 - 1])
def test_an_absurd_size_breaks_the_protocol(size: int) -> None:
    inbox = Inbox(ReceiveBuffers(SHARED_BYTES), REQUEST_BYTES_MAX)
    _Sender(inbox, struct.pack(">i", size)).deliver(4)
    with pytest.raises(RemoteProtocolError, match=f"a request has {size} bytes; at most {REQUEST_BYTES_MAX}"):
        inbox.next_request()


def test_the_largest_request_allowed_is_taken() -> None:
    inbox = Inbox(ReceiveBuffers(SHARED_BYTES), REQUEST_BYTES_MAX)
    sender = _Sender(inbox, _frame(b"x" * REQUEST_BYTES_MAX))
    taken: list[bytes] = []
    while not sender.done:
        sender.deliver(SHARED_BYTES)
        taken += _take(inbox, 1)
    assert taken == [b"x" * REQUEST_BYTES_MAX]


def test_incomplete_bytes_are_the_size_of_the_request_that_has_begun() -> None:
    inbox = Inbox(ReceiveBuffers(SHARED_BYTES), REQUEST_BYTES_MAX)
    assert inbox.incomplete_bytes == 0
    sender = _Sender(inbox, _frame(b"x" * 50))
    sender.deliver(2)
    inbox.end_turn()
    assert inbox.incomplete_bytes == 4, "the size itself has not arrived"
    sender.deliver(2)
    inbox.end_turn()
    assert inbox.incomplete_bytes == 54


def _large_request(buffers: ReceiveBuffers, size: int) -> int:
    """Returns the buffer in which a request has arrived."""
    inbox = Inbox(buffers, 100 * 1024 * 1024)
    sender = _Sender(inbox, _frame(b"x" * size))
    while not inbox.has_request:
        assert _take(inbox, 1) == []
        sender.deliver(SPARE_FROM_BYTES)
    request = inbox.next_request()
    assert request is not None
    where = id(request.obj)
    assert bytes(request) == b"x" * size
    inbox.end_turn()
    return where


def test_large_requests_arrive_one_after_the_other_in_the_same_memory() -> None:
    buffers = ReceiveBuffers()
    assert len({_large_request(buffers, size) for size in (SPARE_BYTES - 4, 1_000_000, 300_000)}) == 1


def test_two_large_requests_at_once_do_not_share_it() -> None:
    buffers = ReceiveBuffers()
    first, second = Inbox(buffers, SPARE_BYTES), Inbox(buffers, SPARE_BYTES)
    streams = [_Sender(first, _frame(b"a" * 1_000_000)), _Sender(second, _frame(b"b" * 1_000_000))]
    while not streams[0].done:
        for inbox, sender in zip((first, second), streams, strict=True):
            sender.deliver(SPARE_FROM_BYTES)
            if not sender.done:
                assert _take(inbox, 1) == []
    assert _take(first, 1) == [b"a" * 1_000_000]
    assert _take(second, 1) == [b"b" * 1_000_000]


def test_a_request_larger_than_a_spare_buffer_gets_its_own_memory() -> None:
    buffers = ReceiveBuffers()
    spare = _large_request(buffers, 1_000_000)
    assert _large_request(buffers, SPARE_BYTES + 1) != spare
    assert _large_request(buffers, 1_000_000) == spare, "it was given back on the way"


def _arriving(inbox: Inbox, request: bytes, *, until: int) -> _Sender:
    """Delivers the beginning of a request, each piece in a turn of its own."""
    sender = _Sender(inbox, _frame(request))
    while inbox.held_bytes < until:
        sender.deliver(ROOM_BYTES_MAX)
        if not inbox.has_request:
            assert _take(inbox, 1) == []
    return sender


def test_a_request_larger_than_a_spare_buffer_is_moved_once_while_it_arrives() -> None:
    request = bytes(range(256)) * (3 * SPARE_BYTES // 256)
    inbox = Inbox(ReceiveBuffers(), len(request))
    sender = _arriving(inbox, request, until=SPARE_FROM_BYTES)
    buffer = inbox.room().obj
    while not sender.done:
        assert inbox.room().obj is buffer
        sender.deliver(ROOM_BYTES_MAX)
    taken = inbox.next_request()
    assert taken == request
    assert taken.obj is buffer


def test_addresses_for_a_request_take_no_memory_before_it_arrives() -> None:
    size = 2**30
    inbox = Inbox(ReceiveBuffers(), size)
    _Sender(inbox, struct.pack(">i", size) + bytes(SPARE_FROM_BYTES)).deliver(SPARE_FROM_BYTES + 4)
    assert _take(inbox, 1) == []
    room = inbox.room()
    assert len(room) == ROOM_BYTES_MAX
    assert isinstance(room.obj, mmap.mmap)
    assert len(room.obj) == size + 4


def test_a_large_request_that_is_kept_takes_its_buffer_with_it() -> None:
    request = bytes(range(256)) * (2 * SPARE_BYTES // 256)
    inbox = Inbox(ReceiveBuffers(), len(request))
    _arriving(inbox, request, until=len(request) + 4)
    taken = inbox.next_request()
    assert taken is not None
    assert inbox.keep(taken) is taken, "it was not copied"
    inbox.end_turn()
    assert _take(inbox, 1) == []
    _Sender(inbox, _frame(b"next")).deliver(8)
    assert _take(inbox, 1) == [b"next"]
    assert taken == request


def test_a_request_in_the_shared_buffer_is_copied_when_it_is_kept() -> None:
    buffers = ReceiveBuffers(SHARED_BYTES)
    inbox = Inbox(buffers, REQUEST_BYTES_MAX)
    _Sender(inbox, _frame(b"alone")).deliver(SHARED_BYTES)
    request = inbox.next_request()
    assert request is not None
    kept = inbox.keep(request)
    inbox.end_turn()
    buffers.shared[:] = b"\xff" * SHARED_BYTES  # the next connection's bytes
    assert kept == b"alone"


def test_requests_behind_one_that_is_kept_stay() -> None:
    inbox = Inbox(ReceiveBuffers(SHARED_BYTES), REQUEST_BYTES_MAX)
    _Sender(inbox, _frame(b"kept") + _frame(b"behind")).deliver(SHARED_BYTES)
    inbox.end_turn()
    request = inbox.next_request()
    assert request is not None
    assert inbox.keep(request) == b"kept"
    assert _take(inbox, 1) == [b"behind"]


def test_a_request_in_a_spare_buffer_leaves_it_to_others_when_it_is_kept() -> None:
    buffers = ReceiveBuffers()
    request = b"x" * 1_000_000
    inbox = Inbox(buffers, len(request))
    _arriving(inbox, request, until=len(request) + 4)
    taken = inbox.next_request()
    assert taken is not None
    kept = inbox.keep(taken)
    inbox.end_turn()
    spare = buffers.take_spare(SPARE_FROM_BYTES, SPARE_FROM_BYTES)
    assert spare is not None
    assert spare.obj is taken.obj
    spare[:] = bytes(len(spare))
    assert kept == request


def test_few_spare_buffers_are_lent() -> None:
    """Each is much larger than what thousands of clients have to send for it."""
    buffers = ReceiveBuffers()
    lent = [buffers.take_spare(SPARE_FROM_BYTES, SPARE_FROM_BYTES) for _ in range(SPARES_MAX)]
    assert buffers.take_spare(SPARE_FROM_BYTES, SPARE_FROM_BYTES) is None
    buffers.give_back(memoryview(bytearray(SPARE_BYTES)))
    assert buffers.take_spare(SPARE_FROM_BYTES, SPARE_FROM_BYTES) is None, "that one was not lent"
    assert lent[0] is not None
    buffers.give_back(lent[0])
    assert buffers.take_spare(SPARE_FROM_BYTES, SPARE_FROM_BYTES) is lent[0]


def test_requests_that_wait_for_the_next_turn_take_no_spare_buffer_and_are_moved_once() -> None:
    buffers = ReceiveBuffers(SHARED_BYTES, spare_bytes=150, spare_from_bytes=10)
    inbox = Inbox(buffers, REQUEST_BYTES_MAX)
    _Sender(inbox, b"".join(map(_frame, (b"first", b"second", b"third", b"fourth")))).deliver(SHARED_BYTES)
    assert inbox.backlog_bytes == 0
    assert _take(inbox, 1) == [b"first"]
    assert inbox.backlog_bytes == 10 + 9 + 10
    second = inbox.next_request()
    inbox.end_turn()
    third = inbox.next_request()
    assert second is not None
    assert third is not None
    assert second.obj is third.obj
    assert len(second.obj) == 10 + 9 + 10
    inbox.end_turn()
    assert inbox.backlog_bytes == 10
    assert _take(inbox, 1) == [b"fourth"]
    assert inbox.backlog_bytes == 0


def test_closing_returns_a_lent_buffer() -> None:
    buffers = ReceiveBuffers(SHARED_BYTES, spare_bytes=150, spare_from_bytes=40)
    spare = buffers.take_spare(40, 100)
    assert spare is not None
    buffers.give_back(spare)
    inbox = Inbox(buffers, REQUEST_BYTES_MAX)
    _Sender(inbox, _frame(b"x" * 100)).deliver(SHARED_BYTES)
    assert _take(inbox, 1) == []
    assert inbox.incomplete_bytes > 0
    inbox.close()
    assert inbox.incomplete_bytes == 0
    assert buffers.take_spare(40, 100) is spare


def test_a_large_request_is_received_in_bounded_pieces() -> None:
    request = bytes(8 * ROOM_BYTES_MAX)
    inbox = Inbox(ReceiveBuffers(), len(request))
    sender = _Sender(inbox, _frame(request))
    rooms = []
    while not sender.done:
        rooms.append(len(inbox.room()))
        sender.deliver(ROOM_BYTES_MAX)
        taken = _take(inbox, 1)
    assert max(rooms) == ROOM_BYTES_MAX
    assert taken == [request]
