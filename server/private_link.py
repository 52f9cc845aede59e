"""A connection between an SPU and the SC on which both sides send requests at any time.

The SC need not be able to reach an SPU: its requests travel on the connection that the SPU has opened. Both queues are
bounded. A request or response waits while too many bytes are queued for sending, and the link stops reading while too
many requests wait to be handled.
"""

import struct
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from enum import IntEnum
from itertools import islice
from typing import Any

import trio
from msgspec import Struct, field

from tailrace.protocol.apis import Api, ApiKey
from tailrace.protocol.codec.compile import decode
from tailrace.protocol.codec.framing import FrameBuffer
from tailrace.protocol.codec.headers import (
    RequestHeader,
    decode_response,
    encode_request,
    encode_response,
    read_request_header,
)
from tailrace.protocol.codec.primitives import Part
from tailrace.protocol.error_codes import ErrorCode, KafkaError, RemoteProtocolError
from tailrace.protocol.foreign_protocols import ForeignProtocolError
from tailrace.runtime.error_groups import first_error
from tailrace.runtime.files import Buffer
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.network import PARTS_MAX, Connection

from .foreign_clients import ForeignClients

FRAME_BYTES_MAX = 100 * 1024 * 1024
RECEIVE_BYTES = 64 * 1024
QUEUED_BYTES_MAX = 4 * 1024 * 1024
"""The number of queued bytes at which no frame is added to the send queue; one frame may exceed it."""
REQUESTS_HELD_MAX = 256
"""The number of requests in progress or waiting at which the link stops reading."""
REQUEST_BYTES_HELD_MAX = 16 * 1024 * 1024
"""The size of the requests in progress or waiting at which the link stops reading; one frame may exceed it."""
ABANDONED_MAX = 1000
"""The number of unanswered, abandoned requests at which the link is closed."""
DRAIN_SECONDS_MAX = 1.0
"""How long a finished link waits for the peer to read the last response and close."""

REQUEST = 0
RESPONSE = 1

_SIZE_AND_KIND = struct.Struct(">ib")
_SIZE_BYTES = 4
_KIND_BYTES = 1
_CORRELATION_ID = struct.Struct(">i")
_KAFKA_API_AND_VERSION = struct.Struct(">hh")
_KAFKA_VERSION_MAX = 100
_CORRELATION_ID_MAX = 0x7FFF_FFFF

Handle = Callable[[IntEnum, Any], Awaitable[object]]


class LinkClosed(Exception):  # noqa: N818 - the end of a connection is no error
    """The link has closed, so the peer will not respond; the message says why."""


class _Asked(Struct):
    """A request to the peer that waits for its response."""

    api: Api
    version: int
    done: trio.Event = field(default_factory=trio.Event)
    response: Any = None


class _Request(Struct):
    """A request from the peer."""

    api: Api
    version: int
    correlation_id: int
    message: Any
    size_bytes: int


class PrivateLink:
    """One end of the connection: sends requests with `ask`, and answers the peer's requests with `handle`."""

    def __init__(
        self,
        connection: Connection,
        *,
        serves: Mapping[int, Api],
        asks: Mapping[int, Api],
        handle: Handle,
        concurrent: frozenset[int],
        logger: FilteringBoundLogger,
        frame_bytes_max: int = FRAME_BYTES_MAX,
        foreign_clients: ForeignClients | None = None,
    ) -> None:
        """Prepares the link; `run` runs it.

        `serves` are the APIs that the peer may call, and `asks` those that this side calls. Requests are handled in the
        order of their arrival, except those of `concurrent` APIs: each of them has a task of its own.
        `foreign_clients` limits the log lines about peers that speak TLS or HTTP.
        """
        self._connection = connection
        self._serves = serves
        self._asks = asks
        self._handle = handle
        self._concurrent = concurrent
        self._logger = logger.bind(peer=str(connection.remote))
        self._frames = FrameBuffer(frame_bytes_max)
        self._foreign_clients = foreign_clients or ForeignClients()
        self._running = trio.CancelScope()
        self._closed_because: str | None = None
        self._finishing: str | None = None

        self._last_id = 0
        self._asked: dict[int, _Asked] = {}
        self._abandoned: set[int] = set()
        """The correlation ids of requests that were cancelled; their responses will be ignored."""

        self._queue: deque[Buffer] = deque()
        self._queued_bytes = 0
        self._queue_changed = trio.Event()

        self._in_order: deque[_Request] = deque()
        self._held_requests = 0
        self._held_bytes = 0
        self._held_changed = trio.Event()

    @property
    def closed_because(self) -> str | None:
        """Why the link was closed; None while it is open or has not started."""
        return self._closed_because

    def accept_frames_up_to(self, frame_bytes_max: int) -> None:
        """Sets the largest frame to accept; before a peer has identified itself the limit should be small."""
        self._frames.frame_bytes_max = frame_bytes_max

    async def run(self) -> None:
        """Runs the link until the peer leaves or breaks the protocol, or until the link is closed."""
        try:
            with self._running:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._send)
                    nursery.start_soon(self._handle_in_order)
                    await self._receive(nursery)
                    self.close("the peer closed the connection")
        except* RemoteProtocolError as errors:
            self._log_refused(first_error(errors))
            self._end(str(first_error(errors)))
        except* OSError as errors:
            self._logger.debug("private_link_broke", reason=str(first_error(errors)))
            self._end(str(first_error(errors)))
        finally:
            self._end("the link was cancelled")
            self._connection.close()

    async def ask(self, message: Any, *, version: int = 0) -> Any:
        """Sends a request and returns the response. The caller bounds the wait.

        Raises LinkClosed if the link closes first. Raises KafkaError if the message is too large to send; the link is
        not affected.
        """
        api = self._asks[message.API_KEY]
        self._last_id = correlation_id = self._last_id % _CORRELATION_ID_MAX + 1
        parts = encode_request(RequestHeader(api.key, version, correlation_id), message, self._asks)
        if self._finishing is not None:
            raise LinkClosed(self._finishing)
        await self._enqueue(_frame(REQUEST, parts))
        asked = self._asked[correlation_id] = _Asked(api, version)
        try:
            await asked.done.wait()
        finally:
            del self._asked[correlation_id]
            if not asked.done.is_set():
                self._abandon(correlation_id)
        if asked.response is None:
            raise LinkClosed(self._closed_because)
        return asked.response

    def close(self, reason: str = "this side closed the link") -> None:
        """Ends `run` at once. Safe to call from anywhere."""
        self._end(reason)
        self._running.cancel()

    def finish(self, reason: str) -> None:
        """Stops handling requests; `run` ends when the peer has received the responses that exist.

        If a handler calls this, its own response is still sent.
        """
        self._finishing = self._finishing or reason
        self._wake_held()

    def _log_refused(self, error: BaseException) -> None:
        connections: int | None = 1
        if isinstance(error, ForeignProtocolError):
            connections = self._foreign_clients.count_to_log(self._connection.remote.host, trio.current_time())
        if connections is not None:
            self._logger.warning("private_request_refused", reason=str(error), connections=connections)

    def _end(self, reason: str) -> None:
        """Marks the link as closed and wakes everyone who waits for it. Only the first reason is kept."""
        self._closed_because = self._closed_because or self._finishing or reason
        for asked in self._asked.values():
            asked.done.set()
        self._queue.clear()
        self._queued_bytes = 0
        self._wake_queue()

    def _abandon(self, correlation_id: int) -> None:
        self._abandoned.add(correlation_id)
        if len(self._abandoned) > ABANDONED_MAX:
            self._logger.warning("private_link_unresponsive", unanswered=len(self._abandoned))
            self.close("the peer does not answer")

    # receiving

    async def _receive(self, nursery: trio.Nursery) -> None:
        """Takes frames from the connection until its end."""
        buffer = memoryview(bytearray(RECEIVE_BYTES))
        while True:
            while (count := self._connection.receive_into(buffer)) is None:
                await self._connection.wait_readable()
            if count == 0:
                return
            self._frames.feed(buffer[:count])
            while (frame := self._frames.next_frame()) is not None:
                self._take(frame, nursery)
                await self._room_for_requests()
            await trio.lowlevel.checkpoint()

    async def _room_for_requests(self) -> None:
        """Waits until the requests that are held are within their bounds."""
        while self._held_requests >= REQUESTS_HELD_MAX or self._held_bytes >= REQUEST_BYTES_HELD_MAX:
            await self._held_changed.wait()

    def _take(self, frame: bytes, nursery: trio.Nursery) -> None:
        if not frame:
            raise RemoteProtocolError("the peer sent an empty frame")
        if self._finishing is not None or self._closed_because is not None:
            return
        kind = frame[0]
        if kind == REQUEST:
            request = self._read_request(frame)
            self._held_requests += 1
            self._held_bytes += request.size_bytes
            if request.api.key in self._concurrent:
                nursery.start_soon(self._answer, request)
            else:
                self._in_order.append(request)
                self._wake_held()
        elif kind == RESPONSE:
            self._take_response(frame)
        else:
            raise RemoteProtocolError(_kafka_request(frame) or f"the peer sent a frame of unknown kind {kind}")

    def _read_request(self, frame: bytes) -> _Request:
        view = memoryview(frame)
        try:
            key, version, correlation_id, _, position = read_request_header(view, _KIND_BYTES, self._serves)
            api = self._serves[key]
            if not api.serves(version):
                raise RemoteProtocolError(f"this server does not support {api.name} version {version}")
        except RemoteProtocolError as reason:
            raise RemoteProtocolError(_kafka_request(frame) or str(reason)) from None
        # Our own programs may send more elements in one request than an unknown client may.
        message = decode(api.request, version, view, position, len(view))
        return _Request(api, version, correlation_id, message, len(frame))

    def _take_response(self, frame: bytes) -> None:
        try:
            (correlation_id,) = _CORRELATION_ID.unpack_from(frame, _KIND_BYTES)
        except struct.error:
            raise RemoteProtocolError("the peer sent a response that ends in its header") from None
        asked = self._asked.get(correlation_id)
        if asked is not None and not asked.done.is_set():
            view = memoryview(frame)[_KIND_BYTES:]
            _, asked.response = decode_response(asked.api.key, asked.version, view, self._asks)
            asked.done.set()
        elif correlation_id in self._abandoned:
            self._abandoned.remove(correlation_id)
        else:
            raise RemoteProtocolError(f"the peer responded to request {correlation_id}, which was not sent")

    # responding

    async def _handle_in_order(self) -> None:
        """Handles the requests that must stay in order, one at a time, until the link finishes."""
        while self._finishing is None:
            if self._in_order:
                await self._answer(self._in_order.popleft())
            else:
                await self._held_changed.wait()
        await self._wait_for_close()

    async def _answer(self, request: _Request) -> None:
        try:
            response = await self._handle(request.api.key, request.message)
            parts = encode_response(request.api.key, request.version, request.correlation_id, response, self._serves)
            await self._enqueue(_frame(RESPONSE, parts))
        except LinkClosed:
            return
        except RemoteProtocolError:
            raise
        except AssertionError:
            raise  # a broken invariant ends the process
        except OSError as error:  # a disk may fail: the reason is enough, without a traceback
            self._logger.error("private_request_failed", api=request.api.name, reason=str(error))
            self.close(f"{request.api.name} failed: {error}")
        except Exception as error:
            self._logger.error("private_request_failed", api=request.api.name, exc_info=error)
            self.close(f"{request.api.name} failed: {error}")
        finally:
            self._held_requests -= 1
            self._held_bytes -= request.size_bytes
            self._wake_held()

    async def _wait_for_close(self) -> None:
        """Sends what is queued, waits a moment for the peer to close, and closes the link.

        If we closed a socket with unread bytes in it, the kernel would reset the connection and the peer could lose our
        last response.
        """
        with trio.move_on_after(DRAIN_SECONDS_MAX):
            while self._queue:
                await self._queue_changed.wait()
            self._connection.end_sending()
            await trio.sleep_forever()
        self.close()

    # sending

    async def _enqueue(self, frame: list[Buffer]) -> None:
        """Queues a frame, as soon as the send queue has room."""
        while self._closed_because is None and self._queued_bytes >= QUEUED_BYTES_MAX:
            await self._queue_changed.wait()
        if self._closed_because is not None:
            raise LinkClosed(self._closed_because)
        self._queue += frame
        self._queued_bytes += sum(map(len, frame))
        self._wake_queue()

    async def _send(self) -> None:
        """Sends the queue. A single task does this, so that frames never mix."""
        while True:
            while not self._queue:
                await self._queue_changed.wait()
            sent = self._connection.send(list(islice(self._queue, PARTS_MAX)))
            if sent == 0:
                await self._connection.wait_writable()
                continue
            self._queued_bytes -= sent
            while sent:
                first = self._queue.popleft()
                if len(first) > sent:
                    self._queue.appendleft(memoryview(first)[sent:])
                    break
                sent -= len(first)
            self._wake_queue()

    def _wake_queue(self) -> None:
        self._queue_changed.set()
        self._queue_changed = trio.Event()

    def _wake_held(self) -> None:
        self._held_changed.set()
        self._held_changed = trio.Event()


def _frame(kind: int, parts: list[Part]) -> list[Buffer]:
    """Turns an encoded message, which begins with its size, into a frame that also states its kind."""
    buffers: list[Buffer] = []
    for part in parts:
        assert isinstance(part, Buffer), "private messages contain no file ranges"
        buffers.append(part)
    size = sum(map(len, buffers)) - _SIZE_BYTES + _KIND_BYTES
    if size > FRAME_BYTES_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"the message has {size} bytes; at most {FRAME_BYTES_MAX} can be sent"
        )
    buffers[0] = _SIZE_AND_KIND.pack(size, kind) + bytes(buffers[0][_SIZE_BYTES:])
    return buffers


def _kafka_request(frame: bytes) -> str | None:
    """Returns an explanation if the frame looks like the request of a Kafka client, and None otherwise."""
    try:
        key, version = _KAFKA_API_AND_VERSION.unpack_from(frame)
        name = ApiKey(key).name
    except (struct.error, ValueError):
        return None
    if not 0 <= version <= _KAFKA_VERSION_MAX:
        return None
    return f"this port is for SPUs only; send {name} version {version} to a public port"
