"""Keeps connections to the other SPUs, for requests that are frequent. `SpuRequests` connects for each request instead.

A channel is one connection to one SPU. Requests follow each other on it without waiting for responses, which arrive in
the same order. A response that takes long delays those behind it, so that an SPU gets a few channels when all are busy.
A channel speaks Kafka's protocol, and asks each SPU for its API versions first, so that SPUs of different
versions understand each other while a cluster is upgraded.

A channel connects when it has a request. If the connection breaks, the requests in flight fail: only their senders know
whether they may be repeated. The next connection waits for a pause that grows with each failure.
"""

import itertools
import math
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import trio
from msgspec import Struct, field

from tailrace.cluster.cluster import Cluster
from tailrace.protocol.apis import API_TABLE, Api, ApiKey
from tailrace.protocol.codec.framing import FrameBuffer
from tailrace.protocol.codec.headers import RequestHeader, decode_response, encode_request
from tailrace.protocol.error_codes import RemoteProtocolError
from tailrace.protocol.ids import SpuId
from tailrace.protocol.messages.api_versions import ApiVersionsRequest
from tailrace.runtime.backoff import spread_pause_seconds
from tailrace.runtime.chance import Chance
from tailrace.runtime.error_groups import first_error
from tailrace.runtime.network import Connection, receive_some

from .spu_requests import Dial, is_online

CHANNELS_MAX = 8
"""How many connections one purpose has to one SPU."""
REQUESTS_MAX = 1000
"""The number of unanswered requests on each channel to one SPU at which further ones are refused."""
CONNECT_SECONDS_MAX = 5.0
CHECK_SECONDS = 0.5
"""How often a waiting request checks that the other SPU is online."""
IDLE_SECONDS_MAX = 60.0
"""How long a connection without requests stays open."""
RESPONSE_BYTES_MAX = 16 * 1024 * 1024
RECEIVE_BYTES = 64 * 1024
_VERSIONS = API_TABLE[ApiKey.API_VERSIONS]

MakeRequest = Callable[[int], Any]
"""Makes the request in the version that it gets."""


class _Request(Struct, eq=False):
    """A request on its way: it waits to be sent, or for its response."""

    api: Api
    make: MakeRequest
    done: trio.Event = field(default_factory=trio.Event)
    version: int = -1
    correlation_id: int = -1
    response: Any = None
    error: OSError | None = None
    is_abandoned: bool = False
    """Whether the sender has stopped waiting."""

    def fail(self, error: OSError) -> None:
        self.error = error
        self.done.set()


class SpuChannels:
    """The channels of one purpose to all other SPUs.

    Purposes that may wait for each other need channels of their own.
    """

    def __init__(
        self,
        client_id: str,
        cluster: Cluster,
        dial: Dial,
        chance: Chance,
        nursery: trio.Nursery,
        channels_max: int = CHANNELS_MAX,
    ) -> None:
        self._client_id = client_id
        self._cluster = cluster
        self._dial = dial
        self._chance = chance
        self._nursery = nursery
        self._channels_max = channels_max
        self._channels: dict[SpuId, list[_Channel]] = {}
        """The channels that have been used of late."""

    async def send(self, spu: SpuId, api: Api, make: MakeRequest, seconds: float) -> tuple[int, Any]:
        """Sends a request in the newest version that both SPUs serve. Returns this version and the response.

        Raises OSError, with the reason, if no response arrives within `seconds`. The other SPU may have handled the
        request nevertheless.
        """
        if not is_online(self._cluster, spu):
            raise OSError(f"SPU {spu} is offline or not registered")
        channel = self._channel_to(spu)
        request = _Request(api, make)
        channel.add(request)
        try:
            await self._wait_for(request, spu, trio.current_time() + seconds)
        finally:
            if not request.done.is_set():
                channel.abandon(request)
        if request.error is not None:
            raise request.error
        if not request.done.is_set():
            raise TimeoutError(f"SPU {spu} did not respond within {seconds:g} s, or went offline")
        return request.version, request.response

    async def _wait_for(self, request: _Request, spu: SpuId, deadline: float) -> None:
        """Waits for the response until the deadline, and no longer than the SPU is online.

        A frozen SPU closes no connection. The cluster knows soon that it is offline, and another SPU has its duties.
        """
        while not request.done.is_set() and trio.current_time() < deadline:
            if not is_online(self._cluster, spu):
                return
            with trio.move_on_at(min(deadline, trio.current_time() + CHECK_SECONDS)):
                await request.done.wait()

    def _channel_to(self, spu: SpuId) -> "_Channel":
        """Returns an idle channel, a new one, or the one with the fewest requests."""
        channels = self._channels.setdefault(spu, [])
        channel = min(channels, key=lambda each: each.unanswered, default=None)
        if channel is None or (channel.unanswered and len(channels) < self._channels_max):
            channel = _Channel(
                spu, self._client_id, self._cluster, self._dial, self._chance, partial(self._on_idle, spu)
            )
            channels.append(channel)
            self._nursery.start_soon(channel.run)
        return channel

    def _on_idle(self, spu: SpuId, channel: "_Channel") -> None:
        self._channels[spu].remove(channel)
        if not self._channels[spu]:
            del self._channels[spu]


class _Channel:
    """The connection to one SPU, and the requests to it."""

    def __init__(
        self,
        spu: SpuId,
        client_id: str,
        cluster: Cluster,
        dial: Dial,
        chance: Chance,
        on_idle: Callable[["_Channel"], None],
    ) -> None:
        self._spu = spu
        self._client_id = client_id
        self._cluster = cluster
        self._dial = dial
        self._chance = chance
        self._on_idle = on_idle
        self._unsent: deque[_Request] = deque()
        """The requests that wait for a connection."""
        self._sent: deque[_Request] = deque()
        """The requests in flight, in the order of their responses."""
        self._correlation_ids = itertools.count(1)
        self._serving: _Serving | None = None
        """The open connection that knows the API versions of the other SPU."""
        self._added = trio.Event()

    @property
    def unanswered(self) -> int:
        """The number of requests without a response."""
        return len(self._unsent) + len(self._sent)

    def add(self, request: _Request) -> None:
        if self.unanswered >= REQUESTS_MAX:
            raise OSError(f"{REQUESTS_MAX} requests wait for SPU {self._spu} on each connection")
        if self._serving is not None:
            self._send(self._serving, request)
        else:
            self._unsent.append(request)
            self._added.set()

    def abandon(self, request: _Request) -> None:
        """Discards the response of a request whose sender has stopped waiting.

        The connection is closed if nothing at all has arrived on it since the request was sent. The other SPU may be
        gone without a trace.
        """
        request.is_abandoned = True
        if request in self._unsent:
            self._unsent.remove(request)
        elif self._serving is not None and self._sent and self._sent[0] is request:
            self._serving.scope.cancel()

    async def run(self) -> None:
        """Connects whenever there are requests, until there are none for a while."""
        failures = 0
        try:
            while await self._has_requests():
                try:
                    failures = 0 if await self._connect_and_serve() else failures + 1
                except* (OSError, RemoteProtocolError) as errors:
                    self._fail_all(str(first_error(errors)))
                    failures += 1
                await trio.sleep(spread_pause_seconds(failures, self._chance))
        finally:
            self._on_idle(self)
            self._fail_all("this SPU does not wait any longer")

    async def _has_requests(self) -> bool:
        with trio.move_on_after(IDLE_SECONDS_MAX):
            while not self._unsent:
                self._added = trio.Event()
                await self._added.wait()
        return bool(self._unsent)

    async def _connect_and_serve(self) -> bool:
        """Returns whether the connection was of use, and ended because nothing needed it or nothing arrived."""
        if not is_online(self._cluster, self._spu):
            raise OSError("it is offline or not registered")
        was_used = False
        with trio.move_on_after(CONNECT_SECONDS_MAX) as connecting:
            connection = await self._dial(self._spu)
            try:
                serving = _Serving(connection)
                await self._ask_versions(serving)
                connecting.deadline = math.inf
                self._serving = serving
                with serving.scope:
                    await self._serve(serving)
                was_used = True
            finally:
                self._serving = None
                connection.close()
        if connecting.cancelled_caught:
            raise TimeoutError(f"no connection within {CONNECT_SECONDS_MAX:g} s")
        self._fail_sent("it sent nothing")
        return was_used

    async def _ask_versions(self, serving: "_Serving") -> None:
        """Asks for the first and the last version of each API that the other SPU serves."""
        header = RequestHeader(_VERSIONS.key, 0, 0, self._client_id)
        parts: list[Any] = encode_request(header, ApiVersionsRequest())
        serving.send(b"".join(parts))
        _, response = decode_response(_VERSIONS.key, 0, await serving.next_frame())
        serving.versions = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}

    async def _serve(self, serving: "_Serving") -> None:
        """Sends requests and receives responses until the connection breaks, or is idle for a while."""
        while self._unsent:
            self._send(serving, self._unsent.popleft())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serving.drain)
            while True:
                with trio.move_on_after(IDLE_SECONDS_MAX):
                    self._on_response(await serving.next_frame())
                    continue
                if not self._sent:
                    break
            self._serving = None
            nursery.cancel_scope.cancel()

    def _send(self, serving: "_Serving", request: _Request) -> None:
        lowest, highest = serving.versions.get(request.api.key, (0, -1))
        version = min(request.api.max_version, highest)
        if version < max(request.api.min_version, lowest):
            request.fail(OSError(f"SPU {self._spu} does not serve {request.api.name} in a version of this SPU"))
            return
        request.version = version
        request.correlation_id = next(self._correlation_ids)
        header = RequestHeader(request.api.key, version, request.correlation_id, self._client_id)
        parts: list[Any] = encode_request(header, request.make(version))
        self._sent.append(request)
        serving.send(b"".join(parts))

    def _on_response(self, frame: bytes) -> None:
        if not self._sent:
            raise RemoteProtocolError("it responded to no request")
        request = self._sent[0]
        correlation_id, request.response = decode_response(request.api.key, request.version, frame)
        if correlation_id != request.correlation_id:
            raise RemoteProtocolError("it responded to another request")
        self._sent.popleft()
        request.done.set()

    def _fail_sent(self, reason: str) -> None:
        error = OSError(f"SPU {self._spu} did not respond: {reason}")
        while self._sent:
            self._sent.popleft().fail(error)

    def _fail_all(self, reason: str) -> None:
        self._sent.extend(self._unsent)
        self._unsent.clear()
        self._fail_sent(reason)


class _Serving:
    """An open connection, and what it has not taken yet."""

    def __init__(self, connection: Connection) -> None:
        self.versions: Mapping[int, tuple[int, int]] = {}
        """The first and the last version of each API that the other SPU serves."""
        self._connection = connection
        self._frames = FrameBuffer(RESPONSE_BYTES_MAX)
        self._buffer = memoryview(bytearray(RECEIVE_BYTES))
        self.scope = trio.CancelScope()
        self._rest = bytearray()
        """The bytes that the connection has not taken yet. The bound of requests bounds them as well."""
        self._added = trio.Event()

    def send(self, data: bytes) -> None:
        taken = 0
        if not self._rest:
            try:
                taken = self._connection.send([data])
            except OSError:
                return  # the receiving side reports it
        if taken < len(data):
            self._rest += memoryview(data)[taken:]
            self._added.set()

    async def drain(self) -> None:
        """Sends what the connection does not take at once."""
        while True:
            if not self._rest:
                self._added = trio.Event()
                await self._added.wait()
            await self._connection.wait_writable()
            taken = self._connection.send([bytes(self._rest)])
            del self._rest[:taken]

    async def next_frame(self) -> bytes:
        while (frame := self._frames.next_frame()) is None:
            count = await receive_some(self._connection, self._buffer)
            if count == 0:
                raise ConnectionResetError("it closed the connection")
            self._frames.feed(self._buffer[:count])
        return frame
