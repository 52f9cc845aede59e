import errno
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from uuid import UUID

import pytest
import structlog
import trio
from batch_samples import make_batch
from peers import KEY, append, append_reply, identity
from simulation.client import WireClient
from simulation.files import SimulatedFiles
from simulation.network import MemoryConnection, connected_pair
from structlog.testing import capture_logs

from tailrace.broker.peers import peer_link
from tailrace.broker.peers.peer_codec import encode
from tailrace.broker.peers.peer_frames import FRAME_BYTES_MAX
from tailrace.broker.peers.peer_gauges import PeerTraffic
from tailrace.broker.peers.peer_link import (
    GATHERED_BYTES_MAX,
    SENT_AT_ONCE_BYTES_MAX,
    SENT_PER_TURN_BYTES_MAX,
    SILENT_TICKS_MAX,
    TICK_SECONDS,
    PeerLink,
)
from tailrace.broker.peers.peer_messages import PeerMessage, ReceivedBatches
from tailrace.broker.replication.entries import Entry
from tailrace.broker.replication.messages import Append, Fenced, Hello
from tailrace.protocol.batches.record_batch import read_header
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import Epoch, SpuId
from tailrace.runtime.file_range import FileRange
from tailrace.server.inbox import ReceiveBuffers
from tailrace.server.outbox import SENDFILE_BYTES_MIN
from tailrace.storage.directory.checkpoints import ReplicaKey

OTHER = (UUID(int=8), 0)
BUFFERS = ReceiveBuffers()


class _End:
    """One end of a link, and what it receives."""

    def __init__(self, connection: MemoryConnection, spu: int, *, to_leader: bool) -> None:
        self.connection = connection
        self.traffic = PeerTraffic()
        self.link = PeerLink(
            connection,
            identity(spu),
            to_leader=to_leader,
            receiver=self,
            buffers=BUFFERS,
            traffic=self.traffic,
            logger=structlog.get_logger(),
        )
        self.heard: list[PeerMessage] = []
        self.bytes_heard = 0
        self.turns = 0
        self.unreadable: list[ReplicaKey] = []
        self.on_turn: Callable[[], None] = lambda: None

    def on_message(
        self,
        spu: SpuId,
        from_leader: bool,
        key: ReplicaKey,
        message: PeerMessage,
        batches: ReceivedBatches | None,
    ) -> None:
        assert (spu, from_leader) == (self.link.peer.spu, self.link.to_leader)
        self.heard.append(message)
        self.bytes_heard += 0 if batches is None else len(batches.data)

    def on_unreadable(self, key: ReplicaKey, reason: str) -> None:
        self.unreadable.append(key)

    def end_turn(self) -> None:
        self.turns += 1
        self.on_turn()

    def tell(self, *messages: PeerMessage, key: ReplicaKey = KEY) -> None:
        for message in messages:
            self.link.enqueue(key, message)
        self.link.flush()


class _Pair:
    def __init__(self, buffer_bytes: int) -> None:
        dialled, accepted = connected_pair(buffer_bytes=buffer_bytes)
        self.follower = _End(dialled, 1, to_leader=True)
        self.leader = _End(accepted, 2, to_leader=False)


@asynccontextmanager
async def _linked(buffer_bytes: int = 64 * 1024) -> AsyncIterator[_Pair]:
    pair = _Pair(buffer_bytes)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pair.follower.link.run)
        nursery.start_soon(pair.leader.link.run)
        yield pair
        nursery.cancel_scope.cancel()


async def _settled() -> None:
    await trio.testing.wait_all_tasks_blocked()


def _append(base: int, *, size: int = 100) -> tuple[Append, bytes]:
    batch = make_batch(base, 1, size=size)
    header = read_header(batch)
    return append(base, (Entry(base, base + 1, Epoch(0), header.crc, size=size),)), bytes(batch)


async def test_both_sides_tell(autojump_clock: object) -> None:
    async with _linked() as pair:
        hello = Hello(Epoch(1), SpuId(2), "store-2")
        pair.follower.tell(hello)
        pair.leader.tell(append(0), Fenced(Epoch(3)))
        await _settled()
        assert pair.leader.heard == [hello]
        assert pair.follower.heard == [append(0), Fenced(Epoch(3))]


async def test_many_messages_take_one_send_and_one_turn(autojump_clock: object) -> None:
    async with _linked() as pair:
        calls = pair.leader.connection.send_calls
        for base in range(50):
            pair.leader.link.enqueue(KEY, *_append(base))
        pair.leader.link.flush()
        await _settled()
        assert [message.base for message in pair.follower.heard if isinstance(message, Append)] == list(range(50))
        assert (pair.leader.connection.send_calls - calls, pair.follower.turns) == (1, 1)


async def test_sides_that_tell_each_other_little_expect_more(autojump_clock: object) -> None:
    async with _linked() as pair:
        sides = (pair.leader.connection, pair.follower.connection)

        async def times_expected(size: int) -> list[int]:
            """How often data was expected after the leader has sent that much and the follower has replied."""
            before = [side.times_expected for side in sides]
            pair.leader.link.enqueue(KEY, *_append(0, size=size))
            pair.leader.link.flush()
            await _settled()
            pair.follower.tell(append_reply(2, 1))
            await _settled()
            return [side.times_expected - count for side, count in zip(sides, before, strict=True)]

        await times_expected(100)
        assert min(await times_expected(100)) > 0
        await times_expected(SENT_AT_ONCE_BYTES_MAX + 1)
        assert await times_expected(SENT_AT_ONCE_BYTES_MAX + 1) == [0, 0]
        await times_expected(100)
        assert min(await times_expected(100)) > 0


async def test_a_link_keeps_up_while_the_connection_takes_everything(autojump_clock: object) -> None:
    async with _linked(buffer_bytes=100) as pair:
        leader = pair.leader
        assert leader.link.keeps_up
        message, records = _append(0, size=1000)
        leader.link.enqueue(KEY, message, records)
        leader.link.flush()
        assert not leader.link.keeps_up
        await _settled()
        assert leader.link.keeps_up
        assert pair.follower.heard == [message]


@pytest.mark.parametrize("buffer_bytes", [1, 32, 100])
async def test_a_message_that_is_taken_in_parts_arrives_whole(autojump_clock: object, buffer_bytes: int) -> None:
    async with _linked(buffer_bytes) as pair:
        message, batch = _append(0)
        pair.leader.link.enqueue(KEY, message, batch)
        pair.leader.link.flush()
        pair.leader.tell(append(1))
        await _settled()
        pair.leader.tell(append(2))
        await _settled()
        assert pair.follower.heard == [message, append(1), append(2)]
        assert pair.follower.bytes_heard == len(batch)


async def test_messages_queued_in_a_turn_leave_at_its_end(autojump_clock: object) -> None:
    async with _linked() as pair:

        def answer() -> None:
            pair.follower.tell(append_reply(1, 7))

        pair.follower.on_turn = answer
        pair.leader.tell(append(0))
        await _settled()
        assert len(pair.leader.heard) == 1


@pytest.mark.parametrize("size", [100, SENDFILE_BYTES_MIN - 1, SENDFILE_BYTES_MIN, 700_000])
async def test_records_are_sent_from_a_file(autojump_clock: object, size: int) -> None:
    message, batch = _append(0, size=size)
    file = SimulatedFiles().open("/log", create=True)
    file.append(b"before" + batch[:80])
    file.append(batch[80:] + b"behind")
    async with _linked() as pair:
        ranges = [FileRange(file, 6, 80), FileRange(file, 86, len(batch) - 80)]
        pair.leader.link.enqueue(KEY, message, lambda: ranges)
        pair.leader.link.flush()
        await _settled()
        assert pair.follower.heard == [message]
        assert pair.follower.bytes_heard == len(batch)
        assert (pair.leader.traffic.sent_messages, pair.leader.traffic.sent_bytes) == (1, len(batch))
        assert (pair.follower.traffic.received_messages, pair.follower.traffic.received_bytes) == (1, len(batch))


async def test_logs_are_read_no_sooner_than_the_connection_takes_it(autojump_clock: object) -> None:
    message, batch = _append(0, size=50_000)
    read = 0
    file = SimulatedFiles().open("/log", create=True)
    file.append(batch)

    def ranges() -> list[FileRange]:
        nonlocal read
        read += len(batch)
        return [FileRange(file, 0, len(batch))]

    pair = _Pair(64 * 1024)
    async with trio.open_nursery() as nursery:
        for _ in range(100):
            pair.leader.link.enqueue(KEY, message, ranges)
        pair.leader.link.flush()
        pair.leader.link.flush()
        assert read <= GATHERED_BYTES_MAX + len(batch), "the other side reads nothing yet"
        nursery.start_soon(pair.leader.link.run)
        nursery.start_soon(pair.follower.link.run)
        await _settled()
        assert pair.follower.bytes_heard == read == 100 * len(batch)
        nursery.cancel_scope.cancel()


async def test_a_slow_reader_does_not_make_us_read_ahead(autojump_clock: object) -> None:
    message, batch = _append(0, size=50_000)
    read = 0

    def ranges() -> list[FileRange]:
        nonlocal read
        read += len(batch)
        return [FileRange(file, 0, len(batch))]

    file = SimulatedFiles().open("/log", create=True)
    file.append(batch)
    pair = _Pair(64 * 1024)
    buffer, received = memoryview(bytearray(1000)), 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pair.leader.link.run)
        for _ in range(100):
            pair.leader.link.enqueue(KEY, message, ranges)
        pair.leader.link.flush()
        for _ in range(200):
            received += pair.follower.connection.receive_into(buffer) or 0
            await _settled()
            assert read - received <= GATHERED_BYTES_MAX + len(batch) + 64 * 1024
        nursery.cancel_scope.cancel()


async def test_a_link_with_much_to_send_lets_others_have_their_turn(autojump_clock: object) -> None:
    message, batch = _append(0, size=100_000)
    async with _linked(buffer_bytes=100 * len(batch)) as pair:
        for _ in range(50):
            pair.leader.link.enqueue(KEY, message, batch)
        pair.leader.link.flush()
        first = len(pair.follower.connection._incoming.held)
        assert SENT_PER_TURN_BYTES_MAX <= first < SENT_PER_TURN_BYTES_MAX + 2 * GATHERED_BYTES_MAX
        await _settled()
        assert pair.follower.bytes_heard == 50 * len(batch)


async def test_a_replica_that_catches_up_does_not_hold_up_others(autojump_clock: object) -> None:
    message, batch = _append(0, size=50_000)
    async with _linked() as pair:
        for _ in range(100):
            pair.leader.link.enqueue(KEY, message, batch)
        pair.leader.link.flush()
        pair.leader.tell(append(77), key=OTHER)
        while not any(isinstance(heard, Append) and heard.base == 77 for heard in pair.follower.heard):
            await trio.lowlevel.checkpoint()
        assert len(pair.follower.heard) < 20


async def test_replies_that_wait_are_one_and_the_last(autojump_clock: object) -> None:
    pair = _Pair(10)
    pair.follower.tell(append_reply(2, 0))
    for end in range(1, 1000):
        pair.follower.tell(append_reply(2, end))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pair.leader.link.run)
        nursery.start_soon(pair.follower.link.run)
        await _settled()
        assert pair.leader.heard == [append_reply(2, 0), append_reply(2, 999)]
        nursery.cancel_scope.cancel()


async def test_forgotten_messages_are_not_sent(autojump_clock: object) -> None:
    async with _linked() as pair:
        pair.leader.link.enqueue(KEY, append(0))
        pair.leader.link.enqueue(OTHER, append(1))
        pair.leader.link.forget(KEY)
        pair.leader.link.flush()
        await _settled()
        assert pair.follower.heard == [append(1)]


@pytest.mark.parametrize(
    ("error", "unreadable"),
    [
        (OSError("the disk is gone"), [KEY]),
        (OSError(errno.ENFILE, "too many open files in system"), []),
        (KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, "it was deleted"), []),
    ],
)
async def test_records_that_the_log_no_longer_has_are_left_out(
    autojump_clock: object, error: Exception, unreadable: list[ReplicaKey]
) -> None:
    def ranges() -> list[FileRange]:
        raise error

    message, _ = _append(0)
    async with _linked() as pair:
        with capture_logs() as logged:
            pair.leader.link.enqueue(KEY, message, ranges)
            pair.leader.link.enqueue(OTHER, message, list)
            pair.leader.tell(append(1), key=OTHER)
            await _settled()
        assert [event["event"] for event in logged] == ["records_not_sent"]
        assert pair.follower.heard == [append(1)]
        assert pair.leader.unreadable == unreadable


@pytest.mark.parametrize("path", [f"/data/topics/t/{KEY[0]}/{KEY[1]}/0.log", "/elsewhere"])
async def test_a_file_that_cannot_be_sent_ends_the_link_and_is_reported(autojump_clock: object, path: str) -> None:
    message, batch = _append(0, size=SENDFILE_BYTES_MIN)
    files = SimulatedFiles()
    files.make_directories("/data/topics/t")
    files.make_directories(path.rpartition("/")[0])
    file = files.open(path, create=True)
    file.append(batch)
    async with _linked() as pair:
        files.reads_fail = True
        pair.leader.link.enqueue(KEY, message, lambda: [FileRange(file, 0, len(batch))])
        pair.leader.link.flush()
        await pair.leader.link.ended.wait()
        assert pair.leader.unreadable == ([] if path == "/elsewhere" else [KEY])
        assert pair.leader.link.closed_because is not None
        assert path in pair.leader.link.closed_because


async def test_the_newest_hellos_are_kept(autojump_clock: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_link, "HELLOS_KEPT_MAX", 2)
    third = (UUID(int=9), 0)
    async with _linked() as pair:
        for key in (KEY, OTHER, KEY, third):
            pair.follower.tell(Hello(Epoch(1), SpuId(2), "store-2"), key=key)
            await _settled()
        assert pair.leader.link.hellos.keys() == {KEY, third}


async def test_only_the_newest_hello_of_a_replica_is_kept(autojump_clock: object) -> None:
    async with _linked() as pair:
        pair.follower.tell(Hello(Epoch(1), SpuId(2), "store-2"))
        await _settled()
        pair.follower.tell(Hello(Epoch(2), SpuId(2), "store-2"))
        pair.follower.tell(Hello(Epoch(1), SpuId(2), "store-2"), key=OTHER)
        await _settled()
        assert {key: hello.epoch for key, hello in pair.leader.link.hellos.items()} == {KEY: 2, OTHER: 1}
        pair.leader.link.forget(KEY)
        assert KEY in pair.leader.link.hellos, "the leader for which it waits is yet to begin"


async def test_more_than_a_frame_takes_is_not_begun(autojump_clock: object) -> None:
    message, batch = _append(0)
    file = SimulatedFiles().open("/log", create=True)
    async with _linked() as pair:
        with capture_logs() as logged:
            pair.leader.link.enqueue(KEY, message, lambda: [FileRange(file, 0, FRAME_BYTES_MAX)])
            pair.leader.link.enqueue(OTHER, message, batch)
            pair.leader.link.flush()
            await _settled()
        assert [event["event"] for event in logged] == ["records_not_sent"]
        assert pair.follower.heard == [message]


# ends of links


async def test_idle_links_stay(autojump_clock: object) -> None:
    async with _linked() as pair:
        await trio.sleep(100)
        assert not pair.leader.link.ended.is_set()
        assert not pair.follower.link.ended.is_set()
        assert (pair.leader.heard, pair.follower.heard) == ([], [])


async def test_a_silent_side_is_given_up(autojump_clock: object) -> None:
    dialled, accepted = connected_pair()
    leader = _End(accepted, 2, to_leader=False)
    with trio.fail_after(TICK_SECONDS * (SILENT_TICKS_MAX + 2)):
        await leader.link.run()
    assert leader.link.closed_because == "nothing was received for 2 s"
    assert accepted.closed
    assert dialled.receive_into(memoryview(bytearray(1000))), "it spoke itself"


async def test_a_side_that_reads_nothing_is_given_up(autojump_clock: object) -> None:
    _, accepted = connected_pair(buffer_bytes=10)
    leader = _End(accepted, 2, to_leader=False)
    leader.tell(append(0))
    with trio.fail_after(TICK_SECONDS * (SILENT_TICKS_MAX + 2)):
        await leader.link.run()


@pytest.mark.parametrize("end", [MemoryConnection.close, MemoryConnection.reset])
async def test_the_loss_of_a_link_is_noticed_at_once(
    autojump_clock: object, end: Callable[[MemoryConnection], None]
) -> None:
    async with _linked() as pair:
        started = trio.current_time()
        end(pair.follower.connection)
        pair.follower.link.close("killed")
        await pair.leader.link.ended.wait()
        await pair.follower.link.ended.wait()
        assert trio.current_time() == started
        assert pair.follower.link.closed_because == "killed"
        pair.leader.tell(append(0))  # no test reads it


async def test_a_failed_send_ends_the_link_and_nothing_else(autojump_clock: object) -> None:
    pair = _Pair(64 * 1024)
    pair.follower.connection.reset()
    pair.leader.tell(append(0))
    await pair.leader.link.run()
    assert "the peer reset the connection" in str(pair.leader.link.closed_because)


async def _refused(sent: bytes, *, to_leader: bool = True) -> tuple[str, _End]:
    dialled, accepted = connected_pair()
    end = _End(accepted, 2, to_leader=to_leader)
    await WireClient(dialled).send(sent)
    with capture_logs() as logged:
        await end.link.run()
    (event,) = logged
    assert event["event"] == "private_request_refused"
    assert event["spu"] == 2
    assert end.link.closed_because == event["reason"]
    return event["reason"], end


def _frame(message: PeerMessage, records: bytes | None = None) -> bytes:
    parts: list[bytes] = encode(KEY, message, records)  # type: ignore[assignment]
    return b"".join(parts)


async def test_random_bytes_end_the_link(autojump_clock: object) -> None:
    reason, _ = await _refused(b"GET / HTTP/1.1\r\n\r\n" * 1000)
    assert "looks like HTTP" in reason


async def test_a_frame_that_is_too_large_ends_the_link_before_anything_is_set_aside(autojump_clock: object) -> None:
    reason, _ = await _refused((FRAME_BYTES_MAX + 1).to_bytes(4, "big"))
    assert f"at most {FRAME_BYTES_MAX}" in reason


async def test_a_damaged_batch_counts_as_lost_and_does_not_stop_other_replicas(
    autojump_clock: object,
) -> None:
    good, batch = _append(0)
    bad = bytearray(batch)
    bad[70] ^= 1
    async with _linked() as pair:
        with capture_logs() as logs:
            for _ in range(3):
                pair.leader.link.enqueue(KEY, good, bytes(bad))
                pair.leader.link.flush()
            pair.leader.link.enqueue(OTHER, good, batch)
            pair.leader.link.flush()
            await _settled()
        assert pair.follower.heard == [good]
        assert pair.follower.link.closed_because is None
        (event,) = (each for each in logs if each["event"] == "damaged_batch_received")
        assert "partition 0" in event["reason"]
        assert "checksum" in event["reason"]


async def test_a_message_of_the_wrong_role_ends_the_link(autojump_clock: object) -> None:
    reason, _ = await _refused(_frame(append(0)), to_leader=False)
    assert reason == "Append is not expected on this side of a link"
