"""One connection between the SPUs of a follower and of a leader, seen from either side.

A turn takes all frames that have arrived, one after the other, and then sends what was queued meanwhile with one call:
this is the way of every replicated batch. Nothing is promised; a link that is in doubt ends, and another one is made.
"""

import math
from collections.abc import Sequence
from typing import Protocol

import trio
from msgspec import Struct
from structlog.typing import FilteringBoundLogger

from tailrace.broker.replication.messages import RECORDS_BYTES_MAX, Append, AppendReply, Hello
from tailrace.protocol.codec.primitives import Part
from tailrace.protocol.error_codes import ErrorCode, KafkaError, RemoteProtocolError
from tailrace.protocol.ids import SpuId
from tailrace.protocol.internal.ping_message import PingMessage
from tailrace.runtime.descriptors import are_used_up
from tailrace.runtime.file_range import FileRange
from tailrace.runtime.files import Buffer, UnreadableError
from tailrace.runtime.network import Connection
from tailrace.server.inbox import Inbox, ReceiveBuffers
from tailrace.server.outbox import SENDFILE_BYTES_MIN, Outbox
from tailrace.storage.directory.checkpoints import ReplicaKey
from tailrace.storage.directory.layout import replica_of_file

from .peer_codec import DamagedBatchError, encode
from .peer_frames import FRAME_BYTES_MAX, frame
from .peer_gauges import PeerTraffic
from .peer_messages import PeerIdentity, PeerMessage, ReceivedBatches, RecordsToSend
from .peer_queue import PeerQueue, QueuedMessage
from .peer_shortcut import PeerShortcut

TICK_SECONDS = 0.5
"""A side that had nothing to say for so long says that it is there."""
SILENT_TICKS_MAX = 4
"""After so many without a byte the other side is taken for dead. Counted, so that a process which stood still itself
does not take its own silence for that of all others."""
GATHERED_BYTES_MAX = 256 * 1024
"""With so much unsent, nothing more is read from logs."""
SENT_AT_ONCE_BYTES_MAX = 16 * 1024
"""Up to here the parts of a message are copied into one."""
SENT_PER_TURN_BYTES_MAX = 1024 * 1024
"""The others' turn comes after this, also when the connection would take more."""
HELLOS_KEPT_MAX = 100_000
DAMAGE_LOG_INTERVAL_SECONDS = 10.0
"""It is received twice a second until it is mended."""


class LinkReceiver(Protocol):
    """Whoever takes what the other side tells. `from_leader`: on a link that this side dialled, as a follower."""

    def on_message(
        self,
        spu: SpuId,
        from_leader: bool,
        key: ReplicaKey,
        message: PeerMessage,
        batches: ReceivedBatches | None,
    ) -> None: ...

    def on_unreadable(self, key: ReplicaKey, reason: str) -> None:
        """What was to be sent of this replica cannot be read. Others are just being sent what they wait for."""

    def end_turn(self) -> None:
        """Nothing more has arrived for now: what was queued meanwhile is to be sent."""


class _Frame(Struct):
    """Complete from the start, unlike a client's response."""

    parts: Sequence[Part]
    request_count: int = 1


class FramedRecords(Struct, frozen=True):
    """A message with records, as it travels."""

    message: PeerMessage
    parts: Sequence[Part]
    records_bytes: int


Framed = dict[int, FramedRecords]
"""By the identity of the message. Followers that keep up are queued the same message: it is read and encoded once."""


class PeerLink:
    def __init__(
        self,
        connection: Connection,
        peer: PeerIdentity,
        *,
        to_leader: bool,
        receiver: LinkReceiver,
        buffers: ReceiveBuffers,
        traffic: PeerTraffic,
        logger: FilteringBoundLogger,
    ) -> None:
        """`to_leader`: this side dialled, as the follower. All links receive into the same buffers."""
        self.peer = peer
        self.to_leader = to_leader
        self.since = trio.current_time()
        self.hellos: dict[ReplicaKey, Hello] = {}
        """The newest of each replica, for a leader that is not ready yet."""
        self.ended = trio.Event()
        self.closed_because: str | None = None
        self.has_unflushed = False
        """Something waits for the next `flush`."""
        self.keeps_up = True
        """What is queued leaves at once: the connection takes more, and has not had its share of this turn."""
        self._connection = connection
        self._receiver = receiver
        self._inbox = Inbox(buffers, FRAME_BYTES_MAX)
        self._outbox = Outbox()
        self._framed_bytes = 0
        """All that was ever put into the outbox."""
        self._queue = PeerQueue()
        self._shortcut = PeerShortcut(peer, from_leader=to_leader)
        self._traffic = traffic
        self._logger = logger.bind(spu=peer.spu, peer=str(connection.remote))
        self._running = trio.CancelScope()
        self._unsent = trio.Event()
        """It does not keep up, for whoever sends the rest."""
        self._has_received = True
        self._has_sent = True
        self._damage_logged = ("", -math.inf)
        """Which, and when."""
        self._received_little = False
        """What came last was small."""
        self._sent_little = False
        """And so was what was said last."""

    async def run(self) -> None:
        """Until the peer goes, falls silent or breaks the protocol, or the link is closed."""
        try:
            with self._running:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._send_rest)
                    nursery.start_soon(self._watch)
                    await self._receive()
        finally:
            self.close("the link was given up")
            self._connection.close()
            self.ended.set()

    def close(self, reason: str) -> None:
        """Ends `run` at once. Safe to call from anywhere; the first reason is the one that counts."""
        if self.closed_because is None:
            self.closed_because = reason
        self._running.cancel()

    def enqueue(self, key: ReplicaKey, message: PeerMessage, records: RecordsToSend | None = None) -> None:
        self._queue.add(key, message, records)

    def forget(self, key: ReplicaKey) -> None:
        """Drops what waits to be sent for that replica."""
        self._queue.forget(key)

    # what arrives

    async def _receive(self) -> None:
        """Sleeps while `_on_readable` does the work: no task is woken for a message."""
        try:
            while self.closed_because is None:
                await self._connection.call_when_readable(self._on_readable)
        except OSError as error:
            self.close(str(error))

    def _on_readable(self) -> bool:
        """Takes what has arrived, so much that others get their turn; whether more is to come."""
        try:
            count = self._connection.receive_into(self._inbox.room())
        except OSError as error:
            self.close(str(error))
            return False
        if count is None:
            return True
        if count == 0:
            self.close("the other side closed the connection")
            return False
        self._has_received = True
        self._received_little = count <= SENT_AT_ONCE_BYTES_MAX
        self._inbox.received(count)
        self._take_turn()
        if self._received_little and self._sent_little:
            self._connection.expect_soon()
        return self.closed_because is None

    def _take_turn(self) -> None:
        inbox = self._inbox
        try:
            while (received := inbox.next_request()) is not None:
                try:
                    decoded = self._shortcut.decode_message(received)
                except DamagedBatchError as reason:
                    # As if it had been lost: one flipped bit must not keep all other replicas from each other.
                    self._log_damage(str(reason))
                    continue
                if decoded is None:
                    continue
                key, message, batches = decoded
                if batches is not None:
                    self._traffic.received_messages += 1
                    self._traffic.received_bytes += len(batches.data)
                elif type(message) is Hello:
                    self._keep_hello(key, message)
                self._receiver.on_message(self.peer.spu, self.to_leader, key, message, batches)
        except RemoteProtocolError as reason:
            self._logger.warning("private_request_refused", reason=str(reason))
            self.close(str(reason))
        self._receiver.end_turn()
        inbox.end_turn()

    def _log_damage(self, reason: str) -> None:
        logged, logged_at = self._damage_logged
        now = trio.current_time()
        if reason != logged or now >= logged_at + DAMAGE_LOG_INTERVAL_SECONDS:
            self._damage_logged = reason, now
            self._logger.error("damaged_batch_received", reason=reason)

    def _keep_hello(self, key: ReplicaKey, hello: Hello) -> None:
        self.hellos.pop(key, None)
        self.hellos[key] = hello
        if len(self.hellos) > HELLOS_KEPT_MAX:
            del self.hellos[next(iter(self.hellos))]  # the oldest; its follower will say it again

    # what is sent

    def flush(self, framed: Framed | None = None) -> None:
        """Sends what was queued, as far as the connection takes it; the rest follows by itself.

        `framed` is what other links were sent just now: for as long as no log can have changed.
        """
        self.has_unflushed = False
        if not self.keeps_up or self.closed_because is not None:
            return
        try:
            if self._framed_bytes == self._outbox.sent_bytes and self._send_one(framed):
                return
            self._sent_little = False
            sent_before = self._outbox.sent_bytes
            while self._gather(framed):
                if (
                    not self._outbox.send(self._connection)
                    or self._outbox.sent_bytes - sent_before >= SENT_PER_TURN_BYTES_MAX
                ):
                    self.keeps_up = False
                    self._unsent.set()
                    break
                if not self._queue:
                    break
            if self._outbox.sent_bytes > sent_before:
                self._has_sent = True
        except UnreadableError as error:  # half a frame is out by now
            key = replica_of_file(error.filename)
            if key is not None:
                self._receiver.on_unreadable(key, str(error))
            self.close(str(error))
        except OSError as error:
            self.close(str(error))

    def _send_one(self, framed: Framed | None) -> bool:
        """Whether all that waits was one small message, and is on its way: nearly always, and without standing in line
        it costs half."""
        queued = self._queue.take_only()
        if queued is None:
            return False
        parts = self._frame(queued, framed)
        if parts is None:
            return True
        if len(parts) > 1 or type(parts[0]) is not bytes:
            if not all(type(part) is bytes for part in parts) or sum(map(len, parts)) > SENT_AT_ONCE_BYTES_MAX:
                self._put(parts)
                return False
            parts = (b"".join(parts),)  # type: ignore[arg-type]
        (data,) = parts
        assert isinstance(data, bytes)
        sent = self._connection.send((data,))
        if sent < len(data):
            self._put((data[sent:],))
            return False
        self._has_sent = self._sent_little = True
        if self._received_little:
            self._connection.expect_soon()
        return True

    def _gather(self, framed: Framed | None) -> bool:
        """Makes frames of what waits, until a certain amount is unsent; says whether there is anything to send."""
        while self._queue and self._framed_bytes - self._outbox.sent_bytes < GATHERED_BYTES_MAX:
            parts = self._frame(self._queue.take(), framed)
            if parts is not None:
                self._put(parts)
        return self._outbox.collect()

    def _frame(self, queued: QueuedMessage, framed: Framed | None) -> Sequence[Part] | None:
        """None if it would say nothing."""
        key, message, records = queued
        if records is not None:
            return self._frame_with(key, message, records, framed)
        return (self._shortcut.reply(key, message),) if type(message) is AppendReply else encode(key, message)

    def _put(self, parts: Sequence[Part]) -> None:
        self._framed_bytes += sum(map(len, parts))
        self._outbox.expect(_Frame(parts))

    def _frame_with(
        self, key: ReplicaKey, message: PeerMessage, records: RecordsToSend, framed: Framed | None
    ) -> Sequence[Part] | None:
        """None if the log does not have any more what was to be sent: then nobody waits for it either. Nor if no more
        files can be opened now: then it is said again."""
        found = None if framed is None else framed.get(id(message))
        if found is None:
            try:
                if type(records) is bytes and len(records) <= SENT_AT_ONCE_BYTES_MAX and type(message) is Append:
                    found = FramedRecords(message, (self._shortcut.append(key, message, records),), len(records))
                else:
                    found = _framed(key, message, _RecordParts.of(records))
            except (OSError, KafkaError) as error:
                self._logger.warning("records_not_sent", topic_id=str(key[0]), partition=key[1], reason=str(error))
                if isinstance(error, OSError) and not are_used_up(error):
                    self._receiver.on_unreadable(key, str(error))
                return None
            if framed is not None:
                framed[id(message)] = found
        if found.records_bytes == 0:
            return None
        self._traffic.sent_messages += 1
        self._traffic.sent_bytes += found.records_bytes
        return found.parts

    async def _send_rest(self) -> None:
        while True:
            await self._unsent.wait()
            try:
                await self._connection.wait_writable()
            except OSError as error:
                self.close(str(error))
                return
            self._unsent = trio.Event()
            self.keeps_up = True
            self.flush()

    # life

    async def _watch(self) -> None:
        silent_ticks = 0
        while True:
            await trio.sleep(TICK_SECONDS)
            silent_ticks = 0 if self._has_received else silent_ticks + 1
            if silent_ticks >= SILENT_TICKS_MAX:
                self.close(f"nothing was heard for {silent_ticks * TICK_SECONDS:g} s")
                return
            self._has_received = False
            if not self._has_sent and self.keeps_up:
                self._put(frame(PingMessage()))
            self._has_sent = False
            self.flush()


def _framed(key: ReplicaKey, message: PeerMessage, record_parts: "_RecordParts") -> FramedRecords:
    parts: list[Part] = []
    for part in encode(key, message, record_parts):
        if part is record_parts:
            parts += record_parts.parts
        else:
            parts.append(part)
    return FramedRecords(message, parts, record_parts.size)


class _RecordParts:
    """Batches of one message; the parts are in memory where they are small, else stretches of files."""

    __slots__ = ("parts", "size")

    def __init__(self, parts: Sequence[Part], size: int) -> None:
        self.parts = parts
        self.size = size

    @classmethod
    def of(cls, records: RecordsToSend) -> "_RecordParts":
        parts: Sequence[Buffer | FileRange] = (records,) if isinstance(records, Buffer) else records()
        size = sum(map(len, parts))
        if size > RECORDS_BYTES_MAX:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"{size} bytes, and at most {RECORDS_BYTES_MAX} travel")
        if size < SENDFILE_BYTES_MIN:
            parts = [part.read() if isinstance(part, FileRange) else part for part in parts]
        return cls(parts, size)

    def __len__(self) -> int:
        return self.size
