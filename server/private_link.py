"""One connection between two of our own programs on which both sides ask, each at any time.

An SPU is behind whatever lets it reach the SC and need not be reachable itself, so what the SC wants of it travels on
the connection that the SPU made. Everything that may pile up is bounded: who asks or answers waits while too much waits
to be sent, and nothing more is read while too many requests wait to be handled.
"""

import struct
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from enum import IntEnum
from itertools import islice
from typing import Any

import trio
from msgspec import Struct, field
from structlog.typing import FilteringBoundLogger

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
from tailrace.runtime.error_groups import first_error
from tailrace.runtime.files import Buffer
from tailrace.runtime.network import PARTS_MAX, Connection

FRAME_BYTES_MAX = 100 * 1024 * 1024
RECEIVE_BYTES = 64 * 1024
QUEUED_BYTES_MAX = 4 * 1024 * 1024
"""With this much waiting to be sent, nothing is added; one frame may go beyond it."""
REQUESTS_HELD_MAX = 256
REQUEST_BYTES_HELD_MAX = 16 * 1024 * 1024
"""With these being handled or waiting for it, nothing is read; one frame may go beyond it."""
ABANDONED_MAX = 1000
"""A peer that owes more answers than this to requests that were given up is not one worth asking."""
SEE_OFF_SECONDS_MAX = 1.0

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


class LinkClosed(Exception):  # noqa: N818 - it is the end of a connection rather than a mistake
    """The peer will not answer any more; the message says why."""


class _Asked(Struct):
    api: Api
    version: int
    done: trio.Event = field(default_factory=trio.Event)
    response: Any = None


class _Request(Struct):
    api: Api
    version: int
    correlation_id: int
    message: Any
    size_bytes: int


class PrivateLink:
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
    ) -> None:
        """`concurrent`: the APIs whose requests do not wait for those before them, nor others for them."""
        self._connection = connection
        self._serves = serves
        self._asks = asks
        self._handle = handle
        self._concurrent = concurrent
        self._logger = logger.bind(peer=str(connection.remote))
        self._frames = FrameBuffer(frame_bytes_max)
        self._running = trio.CancelScope()
        self._closed_because: str | None = None
        self._finishing: str | None = None

        self._last_id = 0
        self._asked: dict[int, _Asked] = {}
        self._abandoned: set[int] = set()
        """Asked, and given up before the answer came; it still will."""

        self._queue: deque[Buffer] = deque()
        self._queued_bytes = 0
        self._queue_changed = trio.Event()

        self._in_order: deque[_Request] = deque()
        self._held_requests = 0
        self._held_bytes = 0
        self._held_changed = trio.Event()

    @property
    def closed_because(self) -> str | None:
        """None while the link is open, or has not run yet."""
        return self._closed_because

    def accept_frames_up_to(self, frame_bytes_max: int) -> None:
        """A stranger is best kept short until it has said who it is."""
        self._frames.frame_bytes_max = frame_bytes_max

    async def run(self) -> None:
        """Until the peer goes, breaks the protocol, or the link is closed."""
        try:
            with self._running:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._send)
                    nursery.start_soon(self._handle_in_order)
                    await self._receive(nursery)
                    self.close("the peer closed the connection")
        except* RemoteProtocolError as errors:
            self._logger.warning("private_request_refused", reason=str(first_error(errors)))
            self._end(str(first_error(errors)))
        except* OSError as errors:
            self._logger.debug("private_link_broke", reason=str(first_error(errors)))
            self._end(str(first_error(errors)))
        finally:
            self._end("the link was given up")
            self._connection.close()

    async def ask(self, message: Any, *, version: int = 0) -> Any:
        """The response. Raises LinkClosed; how long to wait is the caller's to bound.

        A message that no peer would take raises KafkaError, and the link stays as it was.
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
        """Handles no more requests; what was answered still reaches the peer before `run` ends.

        Called by a handler, that includes the answer which it returns.
        """
        self._finishing = self._finishing or reason
        self._wake_held()

    def _end(self, reason: str) -> None:
        """Nothing is asked or answered any more. The first reason is the one that counts."""
        self._closed_because = self._closed_because or self._finishing or reason
        for asked in self._asked.values():
            asked.done.set()
        self._queue.clear()
        self._queued_bytes = 0
        self._wake_queue()

    def _abandon(self, correlation_id: int) -> None:
        self._abandoned.add(correlation_id)
        if len(self._abandoned) > ABANDONED_MAX:
            self._logger.warning("private_link_mute", unanswered=len(self._abandoned))
            self.close("the peer does not answer")

    # What arrives

    async def _receive(self, nursery: trio.Nursery) -> None:
        """Returns at the end of the stream."""
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
        while self._held_requests >= REQUESTS_HELD_MAX or self._held_bytes >= REQUEST_BYTES_HELD_MAX:
            await self._held_changed.wait()

    def _take(self, frame: bytes, nursery: trio.Nursery) -> None:
        if not frame:
            raise RemoteProtocolError("an empty frame")
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
            raise RemoteProtocolError(_kafka_request(frame) or f"a frame of kind {kind}, which there is not")

    def _read_request(self, frame: bytes) -> _Request:
        view = memoryview(frame)
        try:
            key, version, correlation_id, _, position = read_request_header(view, _KIND_BYTES, self._serves)
            api = self._serves[key]
            if not api.serves(version):
                raise RemoteProtocolError(f"{api.name} version {version} is not answered here")
        except RemoteProtocolError as reason:
            raise RemoteProtocolError(_kafka_request(frame) or str(reason)) from None
        # Programs of ours may say more in one request than a stranger may.
        message = decode(api.request, version, view, position, len(view))
        return _Request(api, version, correlation_id, message, len(frame))

    def _take_response(self, frame: bytes) -> None:
        try:
            (correlation_id,) = _CORRELATION_ID.unpack_from(frame, _KIND_BYTES)
        except struct.error:
            raise RemoteProtocolError("a response that ends in its header") from None
        asked = self._asked.get(correlation_id)
        if asked is not None and not asked.done.is_set():
            view = memoryview(frame)[_KIND_BYTES:]
            _, asked.response = decode_response(asked.api.key, asked.version, view, self._asks)
            asked.done.set()
        elif correlation_id in self._abandoned:
            self._abandoned.remove(correlation_id)
        else:
            raise RemoteProtocolError(f"a response to request {correlation_id}, which was not asked")

    # What is answered

    async def _handle_in_order(self) -> None:
        while self._finishing is None:
            if self._in_order:
                await self._answer(self._in_order.popleft())
            else:
                await self._held_changed.wait()
        await self._see_off()

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
            raise  # what must not be is: nothing here can be trusted any more
        except OSError as error:  # a disk that fails is nobody's mistake
            self._logger.error("private_request_failed", api=request.api.name, reason=str(error))
            self.close(f"{request.api.name} failed: {error}")
        except Exception as mistake:
            self._logger.error("private_request_failed", api=request.api.name, exc_info=mistake)
            self.close(f"{request.api.name} failed: {mistake}")
        finally:
            self._held_requests -= 1
            self._held_bytes -= request.size_bytes
            self._wake_held()

    async def _see_off(self) -> None:
        """A close with bytes unread would take our last answer back, so the peer is the one that closes, or soon."""
        with trio.move_on_after(SEE_OFF_SECONDS_MAX):
            while self._queue:
                await self._queue_changed.wait()
            self._connection.end_sending()
            await trio.sleep_forever()
        self.close()

    # What is sent

    async def _enqueue(self, frame: list[Buffer]) -> None:
        while self._closed_because is None and self._queued_bytes >= QUEUED_BYTES_MAX:
            await self._queue_changed.wait()
        if self._closed_because is not None:
            raise LinkClosed(self._closed_because)
        self._queue += frame
        self._queued_bytes += sum(map(len, frame))
        self._wake_queue()

    async def _send(self) -> None:
        """The only one that sends, so that frames stay whole."""
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
    """Parts that begin with the size of the rest, as a frame that says what it is."""
    buffers: list[Buffer] = []
    for part in parts:
        assert isinstance(part, Buffer), "no private message carries a range of a file"
        buffers.append(part)
    size = sum(map(len, buffers)) - _SIZE_BYTES + _KIND_BYTES
    if size > FRAME_BYTES_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"a message of {size} bytes, and at most {FRAME_BYTES_MAX} travel")
    buffers[0] = _SIZE_AND_KIND.pack(size, kind) + bytes(buffers[0][_SIZE_BYTES:])
    return buffers


def _kafka_request(frame: bytes) -> str | None:
    """What to say about a frame that is what one of Kafka's clients would send."""
    try:
        key, version = _KAFKA_API_AND_VERSION.unpack_from(frame)
        name = ApiKey(key).name
    except (struct.error, ValueError):
        return None
    if not 0 <= version <= _KAFKA_VERSION_MAX:
        return None
    return f"this port is for our own programs; {name} version {version} belongs on a public one"
