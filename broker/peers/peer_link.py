"""One connection between the SPUs of a follower and a leader, as either side sees it.

A turn handles all frames that have arrived, and then sends with one call what was queued meanwhile. Every replicated
batch takes this way. A link gives no guarantees; a broken one is closed, and another one is made.
"""

import math
from collections.abc import Sequence
from typing import Protocol

import trio
from msgspec import Struct

from tailrace.broker.replication.messages import RECORDS_BYTES_MAX, Append, AppendReply, Hello
from tailrace.protocol.codec.primitives import Part
from tailrace.protocol.error_codes import ErrorCode, KafkaError, RemoteProtocolError
from tailrace.protocol.ids import SpuId
from tailrace.protocol.internal.ping_message import PingMessage
from tailrace.runtime.descriptors import is_out_of_files
from tailrace.runtime.file_range import FileRange
from tailrace.runtime.files import Buffer, UnreadableError
from tailrace.runtime.logs import FilteringBoundLogger
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
"""A side that has sent nothing for this time sends a Ping."""
SILENT_TICKS_MAX = 4
"""After so many ticks without a byte, the other side counts as dead. They are counted, so that a process that was
stopped itself does not take its own pause for the silence of others."""
GATHERED_BYTES_MAX = 256 * 1024
"""With so many unsent bytes, nothing more is read from logs."""
SENT_AT_ONCE_BYTES_MAX = 16 * 1024
"""Up to this size, the parts of a message are joined into one."""
SENT_PER_TURN_BYTES_MAX = 1024 * 1024
"""After this, other links have their turn, even if this connection could take more."""
HELLOS_KEPT_MAX = 100_000
DAMAGE_LOG_INTERVAL_SECONDS = 10.0
"""A damaged batch is received twice a second until it is repaired."""


class LinkReceiver(Protocol):
    """Receives the messages of a link. `from_leader` is true on a link that this side dialled as a follower."""

    def on_message(
        self,
        spu: SpuId,
        from_leader: bool,
        key: ReplicaKey,
        message: PeerMessage,
        batches: ReceivedBatches | None,
    ) -> None: ...

    def on_unreadable(self, key: ReplicaKey, reason: str) -> None:
        """Handles that a replica's records cannot be read. It must not disturb the sending of other messages."""

    def end_turn(self) -> None:
        """Ends the turn: nothing more has arrived for now, so queued messages are sent."""


class _Frame(Struct):
    """An outgoing frame. Unlike a client's response it is complete from the start."""

    parts: Sequence[Part]
    request_count: int = 1


class FramedRecords(Struct, frozen=True):
    """An encoded message with records."""

    message: PeerMessage
    parts: Sequence[Part]
    records_bytes: int


Framed = dict[int, FramedRecords]
"""Encoded messages by identity. Followers that keep up are sent the same message, which is read and encoded once."""


class PeerLink:
    """One link: receives and sends the messages of all replicas on it."""

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
        """`to_leader` is true if this side dialled, as the follower. All links share the receive buffers."""
        self.peer = peer
        self.to_leader = to_leader
        self.since = trio.current_time()
        self.hellos: dict[ReplicaKey, Hello] = {}
        """The newest Hello of each replica, for a leader that is not ready yet."""
        self.ended = trio.Event()
        self.closed_because: str | None = None
        self.has_unflushed = False
        """Whether anything waits for the next `flush`."""
        self.keeps_up = True
        """Whether queued messages leave at once: the connection takes more, and has not used up its share of this
        turn."""
        self._connection = connection
        self._receiver = receiver
        self._inbox = Inbox(buffers, FRAME_BYTES_MAX)
        self._outbox = Outbox()
        self._framed_bytes = 0
        """How many bytes were ever put into the outbox."""
        self._queue = PeerQueue()
        self._shortcut = PeerShortcut(peer, from_leader=to_leader)
        self._traffic = traffic
        self._logger = logger.bind(spu=peer.spu, peer=str(connection.remote))
        self._running = trio.CancelScope()
        self._unsent = trio.Event()
        """Set when the connection does not keep up, to wake the task that sends the rest."""
        self._has_received = True
        self._has_sent = True
        self._damage_logged = ("", -math.inf)
        """The damage that was logged last, and when."""
        self._received_little = False
        """Whether the last received bytes were few."""
        self._sent_little = False
        """Whether the last sent message was small."""

    async def run(self) -> None:
        """Runs until the peer closes, falls silent or breaks the protocol, or the link is closed."""
        try:
            with self._running:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._send_rest)
                    nursery.start_soon(self._watch)
                    await self._receive()
        finally:
            self.close("the link was closed")
            self._connection.close()
            self.ended.set()

    def close(self, reason: str) -> None:
        """Ends `run` at once. It can be called from anywhere; the first reason counts."""
        if self.closed_because is None:
            self.closed_because = reason
        self._running.cancel()

    def enqueue(self, key: ReplicaKey, message: PeerMessage, records: RecordsToSend | None = None) -> None:
        """Queues a message, which leaves with the next `flush`."""
        self._queue.add(key, message, records)

    def forget(self, key: ReplicaKey) -> None:
        """Drops what waits to be sent for this replica."""
        self._queue.forget(key)

    # receiving

    async def _receive(self) -> None:
        """Sleeps while `_on_readable` does the work, so that no task is woken for a message."""
        try:
            while self.closed_because is None:
                await self._connection.call_when_readable(self._on_readable)
        except OSError as error:
            self.close(str(error))

    def _on_readable(self) -> bool:
        """Handles what has arrived, but not so much that others wait too long; returns whether to continue."""
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
                    # Treat the message as lost: one flipped bit must not stop all other replicas.
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
            del self.hellos[next(iter(self.hellos))]  # the oldest; its follower repeats it

    # sending

    def flush(self, framed: Framed | None = None) -> None:
        """Sends what is queued, as far as the connection takes it. The rest follows without another call.

        `framed` has the messages that other links have just sent. It is valid while no log can have changed.
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
        except UnreadableError as error:  # half a frame may have been sent
            key = replica_of_file(error.filename)
            if key is not None:
                self._receiver.on_unreadable(key, str(error))
            self.close(str(error))
        except OSError as error:
            self.close(str(error))

    def _send_one(self, framed: Framed | None) -> bool:
        """Sends the only queued message if it is small; returns whether nothing is left.

        This is nearly always the case, and costs half as much as the way through the outbox.
        """
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
        """Encodes queued messages until enough bytes are unsent; returns whether there is anything to send."""
        while self._queue and self._framed_bytes - self._outbox.sent_bytes < GATHERED_BYTES_MAX:
            parts = self._frame(self._queue.take(), framed)
            if parts is not None:
                self._put(parts)
        return self._outbox.collect()

    def _frame(self, queued: QueuedMessage, framed: Framed | None) -> Sequence[Part] | None:
        """Encodes a message; returns None if there is nothing to send."""
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
        """Encodes a message with records.

        Returns None if the log does not have the records any more, because then no follower waits for them. It also
        returns None if no more files can be opened now; the leader sends the message again.
        """
        found = None if framed is None else framed.get(id(message))
        if found is None:
            try:
                if type(records) is bytes and len(records) <= SENT_AT_ONCE_BYTES_MAX and type(message) is Append:
                    found = FramedRecords(message, (self._shortcut.append(key, message, records),), len(records))
                else:
                    found = _framed(key, message, _RecordParts.of(records))
            except (OSError, KafkaError) as error:
                self._logger.warning("records_not_sent", topic_id=str(key[0]), partition=key[1], reason=str(error))
                if isinstance(error, OSError) and not is_out_of_files(error):
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
        """Sends what the connection could not take at once."""
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

    # life cycle

    async def _watch(self) -> None:
        """Closes a silent link, and sends a Ping when this side has been silent."""
        silent_ticks = 0
        while True:
            await trio.sleep(TICK_SECONDS)
            silent_ticks = 0 if self._has_received else silent_ticks + 1
            if silent_ticks >= SILENT_TICKS_MAX:
                self.close(f"nothing was received for {silent_ticks * TICK_SECONDS:g} s")
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
    """The records of one message: in memory if they are small, otherwise ranges of files."""

    __slots__ = ("parts", "size")

    def __init__(self, parts: Sequence[Part], size: int) -> None:
        self.parts = parts
        self.size = size

    @classmethod
    def of(cls, records: RecordsToSend) -> "_RecordParts":
        parts: Sequence[Buffer | FileRange] = (records,) if isinstance(records, Buffer) else records()
        size = sum(map(len, parts))
        if size > RECORDS_BYTES_MAX:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE, f"{size} bytes of records; a message takes at most {RECORDS_BYTES_MAX}"
            )
        if size < SENDFILE_BYTES_MIN:
            parts = [part.read() if isinstance(part, FileRange) else part for part in parts]
        return cls(parts, size)

    def __len__(self) -> int:
        return self.size
