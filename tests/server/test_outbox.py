import errno
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct, field
from simulation.network import connected_pair

from tailrace.protocol.codec.primitives import Part
from tailrace.runtime.file_range import FileRange
from tailrace.runtime.files import Buffer, File, RealFiles
from tailrace.runtime.network import Address
from tailrace.server.outbox import SENDFILE_BYTES_MIN, Outbox, SentRecords

CONTENT = bytes(range(256)) * 2048  # 512 KiB


class _Pending(Struct):
    parts: Sequence[Part] | None = None
    request_count: int = 1


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> File:
    path: Path = tmp_path_factory.mktemp("log") / "00.log"
    path.write_bytes(CONTENT)
    return RealFiles().open(str(path))


class _Grudging(Struct):
    """A connection that takes a given number of bytes in each call, and everything after the last number."""

    takes: list[int]
    received: bytearray = field(default_factory=bytearray)
    files_sent: int = 0
    calls: int = 0

    local = remote = Address("192.0.2.1", 1)

    def _take(self, count: int) -> int:
        self.calls += 1
        return min(count, self.takes.pop(0)) if self.takes else count

    def send(self, parts: Sequence[Buffer], *, more: bool = False) -> int:
        data = b"".join(parts)
        assert data, "an empty send would look like a full connection"
        taken = self._take(len(data))
        self.received += data[:taken]
        return taken

    def send_file(self, file: File, position: int, count: int) -> int:
        self.files_sent += 1
        taken = self._take(count)
        self.received += file.read_at(position, taken)
        return taken

    def receive_into(self, buffer: memoryview) -> int | None:
        raise NotImplementedError

    async def wait_readable(self) -> None:
        raise NotImplementedError

    async def call_when_readable(
        self, on_readable: Callable[[], bool], turn_ended: Callable[[], None] | None = None
    ) -> None:
        raise NotImplementedError

    def expect_soon(self) -> None:
        raise NotImplementedError

    async def wait_writable(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


_buffers = st.binary(max_size=40).flatmap(lambda data: st.sampled_from([data, bytearray(data), memoryview(data)]))
_stretches = st.tuples(
    st.integers(0, 1000), st.sampled_from([0, 1, 50, SENDFILE_BYTES_MIN - 1, SENDFILE_BYTES_MIN, 300_000])
)
_responses = st.lists(st.lists(_buffers | _stretches, max_size=4), max_size=8)


@given(
    responses=_responses,
    takes=st.lists(st.sampled_from([0, 0, 1, 3, 17, 1000, SENDFILE_BYTES_MIN - 1, 200_000]), max_size=40),
    order=st.randoms(use_true_random=False),
)
def test_any_pattern_of_partial_sends_gives_the_same_bytes_in_request_order(
    log: File, responses: list[list[bytes | tuple[int, int]]], takes: list[int], order: object
) -> None:
    connection = _Grudging(takes)
    outbox = Outbox()
    answers = [_Pending() for _ in responses]
    for answer in answers:
        outbox.expect(answer)
    becoming_known = list(range(len(responses)))
    order.shuffle(becoming_known)  # type: ignore[attr-defined]
    expected = [
        b"".join(CONTENT[part[0] : part[0] + part[1]] if isinstance(part, tuple) else bytes(part) for part in response)
        for response in responses
    ]
    for index in becoming_known:
        parts = [FileRange(log, *part) if isinstance(part, tuple) else part for part in responses[index]]
        answers[index].parts = parts
        outbox.on_response_ready(parts)
        outbox.collect()
        outbox.send(connection)
        assert b"".join(expected).startswith(bytes(connection.received))
    while not outbox.send(connection):
        pass
    assert bytes(connection.received) == b"".join(expected)
    assert outbox.sent_bytes == len(connection.received)
    assert outbox.held_bytes == 0
    assert not outbox.unanswered


def test_a_response_waits_for_those_before_it() -> None:
    outbox = Outbox()
    first, second = _Pending(), _Pending([b"second"])
    outbox.expect(first)
    outbox.expect(second)
    assert not outbox.collect()
    assert list(outbox.unanswered) == [first, second]
    assert outbox.blocking_response is None, "it can wait"
    first.parts = [b"first,"]
    assert outbox.collect()
    assert outbox.blocking_response is None
    connection = _Grudging([])
    assert outbox.send(connection)
    assert connection.received == b"first,second"


def test_the_outbox_counts_the_requests_without_responses() -> None:
    outbox = Outbox()
    several = _Pending(request_count=3)
    outbox.expect(several)
    outbox.put(b"fourth")
    assert outbox.requests == 4
    several.parts = [b"first to third,"]
    assert outbox.collect()
    assert outbox.requests == 0
    outbox.expect(_Pending())
    outbox.clear()
    assert outbox.requests == 0


def test_an_urgent_response_is_held_up_by_the_first_response() -> None:
    outbox = Outbox()
    first, second, urgent = _Pending(), _Pending(), _Pending()
    outbox.expect(first)
    outbox.expect(second)
    outbox.expect(urgent, is_urgent=True)
    outbox.expect(
        _Pending(
            [b"4"],
        )
    )
    assert outbox.blocking_response is None, "it is not known yet"
    urgent.parts = [b"3"]
    assert outbox.blocking_response is first
    first.parts = [b"1"]
    assert outbox.collect()
    assert outbox.blocking_response is second
    second.parts = [b"2"]
    assert outbox.collect()
    assert outbox.blocking_response is None
    assert not outbox.unanswered


def test_an_urgent_response_that_is_first_is_not_held_up_but_may_hold_up_the_next() -> None:
    outbox = Outbox()
    first = _Pending()
    outbox.expect(first, is_urgent=True)
    assert outbox.blocking_response is None
    outbox.expect(_Pending([b"2"]), is_urgent=True)
    assert outbox.blocking_response is first
    first.parts = [b"1"]
    assert outbox.blocking_response is first
    assert outbox.collect()
    assert outbox.blocking_response is None


def test_a_request_without_a_response_holds_nothing_up() -> None:
    outbox = Outbox()
    outbox.expect(_Pending(()))
    outbox.expect(_Pending([b"", b"next"]))
    assert outbox.collect()
    connection = _Grudging([])
    assert outbox.send(connection)
    assert connection.received == b"next"


def test_many_small_responses_leave_with_one_call(log: File) -> None:
    records = SentRecords()
    outbox = Outbox(records)
    for number in range(100):
        outbox.expect(_Pending([bytes([number]), FileRange(log, number, 10)]))
    outbox.collect()
    connection = _Grudging([])
    assert outbox.send(connection)
    assert (connection.calls, connection.files_sent) == (1, 0)
    assert records == SentRecords(copied_record_bytes=1000)


def test_large_records_are_sent_from_the_file_without_memory(log: File) -> None:
    records = SentRecords()
    outbox = Outbox(records)
    outbox.expect(_Pending([b"header", FileRange(log, 0, SENDFILE_BYTES_MIN)]))
    outbox.collect()
    assert outbox.held_bytes == len(b"header")
    connection = _Grudging([])
    assert outbox.send(connection)
    assert connection.files_sent == 1
    assert records == SentRecords(uncopied_record_bytes=SENDFILE_BYTES_MIN)
    assert connection.received == b"header" + CONTENT[:SENDFILE_BYTES_MIN]


def test_held_bytes_are_counted_until_they_are_sent(log: File) -> None:
    outbox = Outbox()
    outbox.expect(_Pending([b"x" * 100, FileRange(log, 0, 50)]))
    outbox.collect()
    assert outbox.held_bytes == 100, "a file range is not in memory yet"
    connection = _Grudging([30, 0])
    assert not outbox.send(connection)
    assert outbox.held_bytes == 120, "small ranges are read to share a packet with their neighbours"
    assert outbox.send(connection)
    assert outbox.held_bytes == 0


def test_responses_that_wait_for_earlier_ones_count_as_held(log: File) -> None:
    outbox = Outbox()
    first = _Pending()
    outbox.expect(first)
    outbox.expect(_Pending([b"x" * 5000, FileRange(log, 0, 50)]))
    outbox.put(b"y" * 10)
    assert not outbox.collect()
    assert outbox.held_bytes == 5010
    first.parts = [b"z"]
    outbox.on_response_ready(first.parts)
    assert outbox.held_bytes == 5011
    assert outbox.collect()
    assert outbox.send(_Grudging([]))
    assert outbox.held_bytes == 0


def test_nothing_is_sent_while_the_connection_is_full() -> None:
    outbox = Outbox()
    outbox.expect(_Pending([b"x" * 100]))
    outbox.collect()
    client, server = connected_pair(buffer_bytes=64)
    assert not outbox.send(server)
    assert not outbox.send(server)
    assert client.receive_into(memoryview(bytearray(64))) == 64
    assert outbox.send(server)


def test_a_log_file_that_ended_early_breaks_the_connection(log: File) -> None:
    outbox = Outbox()
    outbox.expect(_Pending([FileRange(log, len(CONTENT) - 5, 10)]))
    outbox.collect()
    with pytest.raises(OSError, match="ended before position"):
        outbox.send(_Grudging([]))


def test_a_broken_connection_is_the_callers_to_handle() -> None:
    outbox = Outbox()
    outbox.expect(_Pending([b"x"]))
    outbox.collect()
    client, server = connected_pair()
    client.reset()
    with pytest.raises(OSError) as broken:
        outbox.send(server)
    assert broken.value.errno == errno.ECONNRESET


def test_a_put_response_is_sent_after_those_expected_before_it() -> None:
    outbox, connection = Outbox(), _Grudging([])
    outbox.put(b"1")
    outbox.put(b"2")
    first, second = _Pending(), _Pending()
    outbox.expect(first)
    outbox.put(b"4")
    outbox.expect(second)
    outbox.put(b"6")
    for answer, parts, left in ((None, (), b"12"), (first, (b"3",), b"1234"), (second, (b"5",), b"123456")):
        if answer is not None:
            answer.parts = parts
            outbox.on_response_ready(parts)
        assert outbox.collect()
        assert outbox.send(connection)
        assert connection.received == left
    assert outbox.held_bytes == 0
    assert not outbox.unanswered
    assert connection.calls == 3, "neighbours are one part"


def test_a_joint_response_counts_for_each_request_while_it_is_in_line() -> None:
    outbox, first = Outbox(), _Pending()
    outbox.put(b"12", 2)
    assert outbox.requests == 0, "nothing is in front of them"
    outbox.expect(first)
    outbox.put(b"45", 2)
    assert outbox.requests == 3
    first.parts = (b"3",)
    outbox.on_response_ready(first.parts)
    assert outbox.collect()
    assert outbox.requests == 0


def test_has_ready_tells_of_a_response_that_can_be_collected() -> None:
    outbox = Outbox()
    first, second = _Pending(), _Pending((b"second",))
    assert not outbox.has_ready
    outbox.put(b"known")
    assert outbox.has_ready
    outbox.expect(first)
    outbox.expect(second)
    assert outbox.has_ready, "what was known before still waits to be collected"
    outbox.collect()
    assert not outbox.has_ready, "the second waits for the first"
    first.parts = (b"first",)
    assert outbox.has_ready
    outbox.collect()
    assert not outbox.has_ready
