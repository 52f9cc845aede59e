"""Serves one client: receives requests, handles them in turns, and sends the responses in order.

A turn handles every complete request that has arrived, then sends all responses with one call. It never waits: a
handler returns the response, or keeps the request's context and responds later (an acknowledgement, a long poll) while
the connection goes on with the next requests. Only handlers of rare work are coroutines. The connection waits for each
of those before it reads on, as Apache Kafka does for every request.
"""

import math
from collections.abc import Awaitable, Mapping
from enum import IntEnum
from functools import partial
from types import CoroutineType
from typing import Any

import trio

from tailrace.cluster.advertised_addresses import ConnectedListener
from tailrace.protocol.apis import Api, ApiKey
from tailrace.protocol.codec.compile import Decoder, step_decoder
from tailrace.protocol.codec.headers import (
    ResponseEncoder,
    read_request_header,
    read_request_kind,
    response_encoder,
)
from tailrace.protocol.error_codes import RemoteProtocolError, TooManyElementsError
from tailrace.protocol.foreign_protocols import HTTP, TLS, ForeignProtocolError
from tailrace.runtime.error_groups import first_error
from tailrace.runtime.files import UnreadableError
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.network import Connection, send_all
from tailrace.server.handlers import api_versions

from .authentication.login_gate import LOGIN_SECONDS_MAX, LoginGate, encode_raw_token
from .fairness.crowd import Crowd
from .fairness.large_requests import ELEMENTS_AT_ONCE, LargeRequests, elements_max
from .fairness.place_in_line import PlaceInLine
from .fairness.request_memory import RequestMemory
from .fairness.response_memory import HELD_BYTES_MAX, SCARCE_BYTES_MAX, ResponseMemory
from .foreign_clients import ForeignClients
from .http_responses import http_response
from .inbox import ROOM_BYTES_MAX, ArrivedRequests, Inbox
from .outbox import Outbox
from .rare_responses import respond_with
from .request_context import ClientIdentity, Reply, RequestContext
from .request_routes import Dispatcher, Guarding, MayProduce, ResolvedRoute, Shortcut
from .server_metrics import ServerMetrics
from .throttling.connection_throttle import ConnectionThrottle
from .throttling.server_quotas import ServerQuotas

REQUESTS_PER_TURN = 200
"""The number of requests after which a turn ends, so that other clients get theirs."""
TURNS_IN_A_ROW_MAX = 16
"""The number of turns after which the connection lets other tasks run."""
EMPTY_RECEIVES_MAX = 4
"""How many extra receives may find nothing before a client that sends one request at a time gets no more of them."""
GATHERED_BYTES_MAX = 8 * 1024
"""A turn that has received at most this much goes on with requests that arrive while it runs.

Followers are sent what a turn appended at its end, and they too handle many small batches in nearly the time of one.
"""
EARLY_RESPONSES = 3
"""How many responses of a turn are sent at once instead of at its end.

A client with a few requests in flight then works while the server handles the rest. If all responses left at the end of
the turn, client and server would take turns waiting for each other.
"""
FOREIGN_SECONDS_MAX = 1.0
"""How long a client that speaks HTTP may take to read why it was refused."""
_HTTP_REFUSAL = b"This port speaks Kafka's protocol, not HTTP. Metrics and health are on the metrics port.\n"
_ADVICE = {
    TLS: "this port serves clients without TLS: set security.protocol=PLAINTEXT in the client",
    HTTP: "metrics and health are on the metrics port",
}
"""What helps a client that speaks another protocol."""
_URGENT = ApiKey.FIND_COORDINATOR
"""The API whose responses do not wait behind a long poll; all other responses wait in line, as with Apache Kafka.

A client that looks for a coordinator does nothing else. While coordinators move it asks again and again, and each time
it would wait for the long poll that it sent before.
"""
MUTED_BYTES_MAX = 16 * 1024
"""How much is received from a throttled client that does not wait."""
NO_VERSION = -1
UNANSWERED_MAX = 1000
"""The number of unanswered requests at which the connection stops reading."""


class ClientConnection:
    """One client: its received bytes, its requests in flight, and its pending responses."""

    def __init__(
        self,
        connection: Connection,
        listener: ConnectedListener,
        dispatcher: Dispatcher,
        apis: Mapping[int, Api],
        routes: dict[tuple[int, int], ResolvedRoute],
        inbox: Inbox,
        memory: RequestMemory,
        metrics: ServerMetrics,
        foreign_clients: ForeignClients,
        logger: FilteringBoundLogger,
        client: ClientIdentity | None = None,
        *,
        quotas: ServerQuotas,
        guarding: Guarding | None = None,
        large_requests: LargeRequests | None = None,
        responses: ResponseMemory | None = None,
    ) -> None:
        """Prepares to serve `connection`; `run` serves it.

        `apis` are the APIs that this server knows. A request of any other API breaks the protocol.
        `routes` caches the routes of the dispatcher. All connections of a server share the cache.
        `client` is what the listener knows of the client. `guarding` is None if every client may do everything.
        `large_requests` and `responses` are those of all connections of a server.
        """
        self._connection = connection
        self._listener = listener
        self._dispatcher = dispatcher
        self._apis = apis
        self._routes = routes
        self._inbox = inbox
        self._memory = memory
        self._large_requests = large_requests or LargeRequests(Crowd())
        self._responses = responses or ResponseMemory(64 * HELD_BYTES_MAX)
        self._counted_bytes = 0
        """The size of unread responses, and of requests behind them, that `_responses` has been told."""
        self._metrics = metrics
        self._foreign_clients = foreign_clients
        self._outbox = Outbox(metrics.sent_records)
        self._client = client or ClientIdentity(address=str(connection.remote), host=connection.remote.host)
        self._line = PlaceInLine(self._large_requests.crowd, self._client.host)
        self._throttle = ConnectionThrottle(quotas, self._client)
        self._logger = logger.bind(client=self._client.address)
        self._nursery: trio.Nursery | None = None
        self._room_made: trio.Event | None = None
        """Set when the outbox may have room again; None unless `_serve` waits for that."""
        self._in_turn = False
        """Whether a turn is running."""
        self._shortcuts: dict[tuple[int, int], Shortcut] = {}
        """The shortcuts that this client has used, by API and version."""
        self._guarding = guarding
        self._may_produce: MayProduce | None = None if guarding is None else partial(guarding.may_produce, self._client)
        self._permissions = NO_VERSION if guarding is None else guarding.version
        """The version of the permissions with which the shortcuts have learned."""
        self._uncounted: dict[tuple[int, int, float], int] = {}
        """How many responses the metrics do not count yet, by API, version and arrival of their requests."""
        self._awaited: tuple[RequestContext, Awaitable[object]] | None = None
        """The rare work to wait for before the next request, and its request."""
        self._reads_large = False
        """Whether the rare work begins with reading a large request. Until that is done, it can be cancelled."""
        self._received = 0
        """The number of bytes received in this turn."""
        self._handled = 0
        """The number of requests handled in the current or last turn."""
        self._nothing_more = False
        """Whether an extra receive in this turn has found nothing."""
        self._empty_receives = 0
        """The number of extra receives in a row that found nothing while the client sent one request at a time."""
        self._unanswered_max = 0
        """The largest number of requests in flight that has been seen before an extra receive."""
        self._only_reads = False
        """Whether there is nothing to do but to wait for the client to send something."""
        self._at_end = False
        """Whether the client has closed its side."""
        self._draining = False
        """Whether a task is sending responses that the client did not take at once."""
        self._closing: str | None = None
        """Why the connection is closed; None while it is open."""
        self._finishing = False
        """Whether no further request is handled."""
        self._serving = trio.CancelScope()
        login = self._client.login
        self._gate = None if login is None else LoginGate(login, inbox, self._serving)
        """What keeps the client from other requests before its login; None if it may send any from the beginning."""
        self._now = trio.lowlevel.current_clock().current_time
        """Returns Trio's time; calling the clock itself is cheaper, and each turn asks for the time."""
        self.last_active = self._now()
        """When the last turn began, or the client last had room for responses."""

    async def run(self) -> None:
        """Serves until the client leaves, breaks the protocol, or is closed."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                try:
                    with self._serving:
                        try:
                            await self._serve()
                        except ForeignProtocolError as error:
                            await self._refuse_foreign(error)
                        finally:
                            await self._complete_rare_work()
                    if self._finishing:
                        await self._wait_for_close()
                    elif self._serving.cancelled_caught:
                        self.close(f"it has not logged in within {LOGIN_SECONDS_MAX:g} s")
                finally:
                    self._nursery = None  # a late response must not start a task in a closed nursery
                nursery.cancel_scope.cancel()
        except* RemoteProtocolError as errors:
            self._log_refused(str(first_error(errors)))
            self._metrics.refused_requests += 1
        except* OSError as errors:
            self._logger.debug("connection_broke", reason=str(first_error(errors)))
        except* AssertionError:
            raise  # a broken invariant ends the process
        except* Exception as errors:
            # Our error, but this client's request: the others are served on.
            self._logger.error("request_failed", software=self._client.software_name, exc_info=first_error(errors))
            self._metrics.failed_requests += 1
        finally:
            self._memory.release(self)
            self._responses.release(self)
            self._connection.close()
            for pending in self._outbox.unanswered:
                if isinstance(pending, RequestContext) and pending.abandon is not None:
                    pending.abandon()
            # Waiting requests refer to this connection, so it must not keep anything large.
            self._outbox.clear()
            self._inbox.close()

    @property
    def is_closing(self) -> bool:
        """Whether `close` has been called."""
        return self._closing is not None

    @property
    def is_newcomer(self) -> bool:
        """Whether the client has not logged in yet, or has not sent a request on a listener without logins."""
        return self._line.is_new if self._gate is None else not self._gate.login.has_logged_in

    @property
    def stalled_since(self) -> float:
        """When the client last sent or read something; infinity unless the client has to go on first.

        It has to if the connection waits for more bytes, or if there is no room for the responses to more requests.
        """
        return self.last_active if self._only_reads or self._room_made is not None else math.inf

    @property
    def arrived_bytes(self) -> int:
        """How much of the request has arrived that is incomplete."""
        return self._inbox.held_bytes

    def close(self, reason: str) -> None:
        """Ends `run` at once, or as soon as rare work that has begun is complete. Safe to call from anywhere."""
        if self._closing is None:
            self._closing = reason
            self._logger.info("connection_closed", reason=reason, software=self._client.software_name)
            if self._nursery is not None:
                self._nursery.cancel_scope.cancel()

    def begin_in_line(self) -> None:
        """Lets the connection stand in line with busy ones for its first turn, because nothing is known of it yet."""
        self._line.begin()

    def finish(self) -> None:
        """Stops handling requests; `run` ends when the client has received the responses that exist."""
        self._finishing = True
        self._serving.cancel()

    def _log_refused(self, reason: str) -> None:
        """Logs why a request was refused. Strangers could fill the log, so they get one line a minute and address."""
        connections: int | None = 1
        if self.is_newcomer:
            connections = self._foreign_clients.count_to_log(self._connection.remote.host, trio.current_time())
        if connections is not None:
            self._logger.warning(
                "request_refused", reason=reason, software=self._client.software_name, connections=connections
            )

    async def _refuse_foreign(self, error: ForeignProtocolError) -> None:
        """Refuses a client that speaks another protocol; tells it why if the protocol is HTTP."""
        self._metrics.refused_requests += 1
        remote = self._connection.remote.host
        connections = self._foreign_clients.count_to_log(remote, trio.current_time())
        if connections is not None:
            reason = f"{error}; {_ADVICE[error.protocol]}"
            self._logger.warning("request_refused", reason=reason, protocol=error.protocol, connections=connections)
        if error.protocol == HTTP and not self._outbox.sent_bytes:
            with trio.move_on_after(FOREIGN_SECONDS_MAX):
                await send_all(self._connection, http_response(b"400 Bad Request", _HTTP_REFUSAL))
                await self._wait_for_close()

    async def _wait_for_close(self) -> None:
        """Waits until the client closes the connection.

        If we closed a socket with unread bytes in it, the kernel would reset the connection and the client could lose
        our last responses.
        """
        if not self._draining:
            self._connection.end_sending()
        while self._connection.receive_into(self._inbox.scratch) != 0:
            await self._connection.wait_readable()

    async def _serve(self) -> None:
        """Sleeps while `_on_readable` does the work, and does everything that has to wait."""
        while self._closing is None and not self._at_end:
            while not self._has_room():
                self._memory.keep_arrived(self)
                self._room_made = trio.Event()
                await self._room_made.wait()
                self._room_made = None
            if self._throttle.is_muted:
                await self._stay_muted()
            elif self._inbox.has_request or self._line.is_busy(self._now()):
                await self._take_turn_in_crowd()
            else:
                await self._memory.reserve(self, self._inbox.incomplete_bytes)
                self._only_reads = True
                await self._connection.call_when_readable(self._on_readable, self._dispatcher.end_turn)
                self._only_reads = False
            await self._complete_rare_work()

    async def _complete_rare_work(self) -> None:
        """Waits for the rare work of the last turn, if there is any. It completes even if the client leaves."""
        if self._awaited is None:
            return
        (context, reply), self._awaited = self._awaited, None
        is_shielded, self._reads_large = not self._reads_large, False
        with trio.CancelScope(shield=is_shielded):
            message = await reply
        if message is not None:
            respond_with(context, message, self._apis[context.api_key])
        if self._gate is not None:
            self._gate.lift_if_logged_in()

    async def _stay_muted(self) -> None:
        """Handles nothing until the client need not wait any more, or has left.

        Little of what the client sends meanwhile is received: enough to notice that it leaves.
        """
        self._memory.keep_arrived(self)
        with self._throttle.waiting() as is_over:
            while not (self._at_end or is_over()):
                with trio.move_on_at(self._throttle.muted_until):
                    if not self._inbox.is_empty:
                        await trio.sleep_forever()
                    await self._connection.wait_readable()
                    self._receive(MUTED_BYTES_MAX)
                    self._inbox.end_turn()

    async def _take_turn_in_crowd(self) -> None:
        """Stands in line with busy connections, and takes one turn. The last one was long or has left requests."""
        if not self._inbox.has_request:
            await self._memory.reserve(self, self._inbox.incomplete_bytes)
            self._only_reads = True
            await self._connection.wait_readable()
            self._only_reads = False
        await self._line.enter()
        try:
            if self._inbox.has_request or self._receive():
                try:
                    self._take_turn()
                finally:
                    self._dispatcher.end_turn()
            self._line.end_turn(self._now(), self._handled, has_more=self._inbox.has_request)
        finally:
            self._line.leave()

    def _has_room(self) -> bool:
        """Whether the outbox has room for the responses to more requests."""
        outbox = self._outbox
        return outbox.requests < UNANSWERED_MAX and outbox.held_bytes < self._responses.allowance

    def _on_readable(self) -> bool:
        """Handles what has arrived.

        Returns whether the connection only has to wait for the client to send more. Otherwise `_serve` takes over.
        """
        inbox, memory, throttle = self._inbox, self._memory, self._throttle
        is_limited = throttle.quotas.enabled
        if is_limited and throttle.is_muted:
            return False
        turns = 0
        has_arrived = self._receive()
        began = self._now()
        while has_arrived:
            self._take_turn()
            if self._awaited is not None or self._closing is not None or self._finishing or not self._has_room():
                return False
            if is_limited and throttle.is_muted:
                return False
            if (memory.reserved_bytes or not inbox.is_empty) and (
                inbox.has_request or not memory.has_reserved(self, inbox.incomplete_bytes)
            ):
                return False
            turns += 1
            if inbox.held_bytes >= ROOM_BYTES_MAX:
                break  # other clients are served before the next piece of a large request
            has_arrived = turns < TURNS_IN_A_ROW_MAX and self._may_have_more() and self._receive_more()
            if has_arrived:
                self._dispatcher.end_turn()
        is_busy = self._line.note_work(began, self._now())
        return not (is_busy or self._at_end)

    def _receive(self, bytes_max: int | None = None) -> bool:
        """Receives what the socket has; returns whether there was something."""
        room = self._inbox.room()
        if bytes_max is None and self._responses.is_scarce and self._inbox.is_empty:
            bytes_max = SCARCE_BYTES_MAX
        count = self._connection.receive_into(room if bytes_max is None else room[:bytes_max])
        if count:
            self._inbox.received(count)
            self._received += count
            return True
        self._at_end = count == 0
        return False

    def _may_have_more(self) -> bool:
        """Whether the client is likely to have sent more while its requests were handled.

        A busy client often has, and an extra receive costs far less than another wake-up. A client that waits for each
        response never has, nor has one that waits for as many responses as it ever did.
        """
        if self._nothing_more or (self._handled <= 1 and self._empty_receives >= EMPTY_RECEIVES_MAX):
            return False
        unanswered = self._outbox.requests
        if unanswered > self._unanswered_max:
            self._unanswered_max = unanswered
            return True
        return unanswered < self._unanswered_max or unanswered == 0

    def _receive_more(self) -> bool:
        """Receives once more; returns whether more has arrived, and remembers it for `_may_have_more`."""
        has_arrived = self._receive()
        self._nothing_more = not has_arrived
        self._empty_receives = 0 if has_arrived or self._handled > 1 else self._empty_receives + 1
        return has_arrived

    def _gather(self) -> bool:
        """Continues a small turn with requests that have arrived since it began; returns whether there are any."""
        if self._received > GATHERED_BYTES_MAX or not self._may_have_more() or self._inbox.incomplete_bytes:
            return False
        if self._outbox.has_ready:
            self._flush()
        self._inbox.end_turn()
        return self._receive_more()

    def _take_turn(self) -> None:
        """Handles the complete requests that have arrived, up to a limit or to the first one with rare work.

        A large turn calls `end_turn` itself. After a small one the caller does, so that several small turns share it.
        """
        inbox, outbox = self._inbox, self._outbox
        self.last_active = self._now()
        self._in_turn = True
        self._handled = 0
        self._nothing_more = False
        handle = self._handle
        if self._gate is not None and not self._gate.login.is_open(self.last_active):
            handle = self._handle_before_login
            self._shortcuts.clear()
        throttle = self._throttle
        is_limited = throttle.quotas.enabled
        try_shortcut = self._try_limited_shortcut if is_limited and self._counts_shortcuts() else self._try_shortcut
        if self._guarding is not None and self._guarding.version != self._permissions:
            self._permissions = self._guarding.version
            self._shortcuts.clear()
        ends, responses = self._line.turn_ends, self._responses
        try:
            while self._handled < REQUESTS_PER_TURN and outbox.held_bytes < responses.allowance:
                if ends is not None and self._handled and self._now() >= ends:
                    break
                frame = inbox.next_request()
                if frame is None:
                    if self._gather():
                        continue
                    break
                if self._uncounted and self._handled <= EARLY_RESPONSES and outbox.has_ready:
                    self._flush()
                self._handled += 1
                if self._shortcuts and try_shortcut(frame):
                    continue
                self._awaited = handle(frame)
                if is_limited:
                    try_shortcut = self._try_limited_shortcut if self._counts_shortcuts() else self._try_shortcut
                if self._awaited is not None or self._closing is not None or self._finishing or throttle.is_muted:
                    break
        finally:
            inbox.end_turn()
            if outbox.has_ready:
                self._flush()  # before others are woken, because this client is already waiting
            if self._received > GATHERED_BYTES_MAX:
                self._dispatcher.end_turn()
            self._in_turn = False
            if outbox.requests and (outbox.has_ready or outbox.blocking_response is not None):
                self._flush()  # the requests that end_turn woke may have been answered
            self._metrics.received_bytes += self._received
            self._received = 0
            self._count_responses()
            if outbox.held_bytes + inbox.backlog_bytes != self._counted_bytes:
                self._count_held()

    def _count_responses(self) -> None:
        """Counts the responses that were just sent, in one step for all that have the same arrival time."""
        if not self._uncounted:
            return
        now = self._now()
        for (api_key, api_version, arrived), count in self._uncounted.items():
            self._metrics.on_responses(api_key, api_version, self._client.software_name, count, now - arrived)
        self._uncounted.clear()

    def _counts_shortcuts(self) -> bool:
        """Returns whether shortcuts must count what they handle. Forgets them if it is not known whose they are.

        While any client has a quota, all requests that shortcuts know have the client id that the throttle knows.
        """
        throttle = self._throttle
        if not throttle.is_known:
            self._shortcuts.clear()
        return throttle.limits_produce

    def _try_limited_shortcut(self, frame: memoryview) -> bool:
        """Does what `_try_shortcut` does for a client with a quota, unless that must be told to wait."""
        counted = self._throttle.count(self._inbox, len(frame))
        if counted is None or not self._try_shortcut(frame, counted):
            return False
        counted.record()
        return True

    def _try_shortcut(self, frame: memoryview, following: ArrivedRequests | None = None) -> bool:
        """Lets the API's shortcut handle the request; returns whether there is one and it could.

        Only Produce has shortcuts. `following` are the requests behind it, if not all that have arrived.
        """
        api_key, api_version, correlation_id = read_request_kind(frame)
        shortcut = self._shortcuts.get((api_key, api_version))
        if shortcut is None:
            return False
        response = shortcut(frame, correlation_id, self._expect, self._inbox if following is None else following)
        if response is None:
            return False
        if isinstance(response, RequestContext):
            self._handled += response.request_count - 1
            return True
        encoded, count = (response, 1) if isinstance(response, bytes) else response
        self._handled += count - 1
        self._outbox.put(encoded, count)
        kind = api_key, api_version, self.last_active
        self._uncounted[kind] = self._uncounted.get(kind, 0) + count
        return True

    def _expect(
        self,
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        encode: ResponseEncoder,
        request_count: int = 1,
    ) -> RequestContext:
        """Reserves the place in line of a response (see `ExpectResponse`)."""
        context = RequestContext(
            api_key,
            api_version,
            correlation_id,
            client_id,
            self._listener,
            self._client,
            self.last_active,
            self._on_response,
            encode,
            self._send_ready,
            self._on_failed,
            request_count,
        )
        self._outbox.expect(context, is_urgent=api_key == _URGENT)
        return context

    def _handle(self, frame: memoryview) -> tuple[RequestContext, Awaitable[object]] | None:
        """Decodes a request and calls its handler; returns the handler's coroutine if the work is rare."""
        api_key, api_version, correlation_id, client_id, position = read_request_header(frame, 0, self._apis)
        route = self._routes.get((api_key, api_version)) or self._find_route(api_key, api_version)
        decode, handle, encode, new_shortcut = route
        is_limited = self._throttle.quotas.enabled
        if is_limited and not self._throttle.is_from(client_id):
            self._shortcuts.clear()
        if new_shortcut is not None and (api_key, api_version) not in self._shortcuts:
            self._shortcuts[api_key, api_version] = new_shortcut(self._may_produce)
        if is_limited:
            measured = self._throttle.measure(self._apis[api_key], api_version, client_id, len(frame), encode)
            if measured is not None:
                request, _ = self._decode_whole(decode, frame, position, api_key)
                context = self._expect(api_key, api_version, correlation_id, client_id, measured.encode_throttled)
                work = self._throttle.handle(context, measured, handle, request)
                return None if work is None else (context, work)
        context = self._expect(api_key, api_version, correlation_id, client_id, encode)
        try:
            request, _ = decode(frame, position, ELEMENTS_AT_ONCE)
        except TooManyElementsError:
            self._reads_large = True
            api, body = self._apis[api_key], self._inbox.keep(frame)[position:]
            steps = step_decoder(api.request, api_version)(body, 0, self._elements_max(api_key))
            return context, self._large_requests.answer(steps, partial(handle, context), self._dispatcher.end_turn)
        reply = handle(context, request)
        if reply is None:
            return None
        if isinstance(reply, CoroutineType):
            return context, reply
        context.respond(reply)
        return None

    def _handle_before_login(self, frame: memoryview) -> tuple[RequestContext, Awaitable[object]] | None:
        """Handles a request of a client that has not logged in, or must do so again. Other requests end the client."""
        assert self._gate is not None, "the listener uses SASL"
        login = self._gate.login
        if login.is_open(self.last_active):  # since an earlier request of this turn
            return self._handle(frame)
        if login.takes_raw_token:
            context = self._expect(ApiKey.SASL_AUTHENTICATE, 0, 0, None, encode_raw_token)
            return context, login.authenticate_raw(context, bytes(frame))
        refusal = login.check(read_request_kind(frame)[0], self.last_active)
        if refusal is not None:
            self.close(refusal)
            return None
        awaited = self._handle(frame)
        self._gate.lift_if_logged_in()
        return awaited

    def _decode_whole(self, decode: Decoder, frame: memoryview, position: int, api_key: int) -> tuple[Any, int]:
        """Decodes a request of a client with quotas, which limit how often it can send a large one."""
        try:
            return decode(frame, position, ELEMENTS_AT_ONCE)
        except TooManyElementsError:
            return decode(frame, position, self._elements_max(api_key))

    def _elements_max(self, api_key: int) -> int:
        return elements_max(api_key, self._dispatcher.partition_count())

    def _find_route(self, api_key: IntEnum, api_version: int) -> ResolvedRoute:
        route = self._dispatcher.route(api_key, api_version)
        if route is not None:
            encode = response_encoder(self._apis[api_key], api_version)
            handle = route.handle if self._guarding is None else self._guarding.guarded(api_key, route.handle)
            answered = ResolvedRoute(route.decode, handle, encode, route.new_shortcut)
            self._routes[api_key, api_version] = answered
            return answered
        if api_key == ApiKey.API_VERSIONS:
            # We cannot read a newer version, but every client can read a response in version 0.
            return ResolvedRoute(_read_nothing, self._refuse_version, response_encoder(self._apis[api_key], 0), None)
        raise RemoteProtocolError(f"this server does not support {api_key.name} version {api_version}")

    def _refuse_version(self, context: RequestContext, request: None) -> Reply:
        return api_versions.refuse_version(self._apis)

    def _on_response(self, context: RequestContext) -> None:
        """Takes note that the response of `context` is ready."""
        assert context.parts is not None
        self._outbox.on_response_ready(context.parts)
        kind = context.api_key, context.api_version, context.arrived
        self._uncounted[kind] = self._uncounted.get(kind, 0) + context.request_count
        if context.close_after is not None:
            self._send_ready()
            self._logger.info("connection_closed", reason=context.close_after, software=self._client.software_name)
            self.finish()

    def _send_ready(self) -> None:
        """Sends the responses whose turn it is; within a turn this happens at its end."""
        if not self._in_turn:
            self._flush()
            self._count_responses()
            if self._outbox.held_bytes + self._inbox.backlog_bytes != self._counted_bytes:
                self._count_held()

    def _count_held(self) -> None:
        """Tells the server how much is held for the client, which may close this connection or others."""
        if self._nursery is not None and self._closing is None:
            self._counted_bytes = self._outbox.held_bytes + self._inbox.backlog_bytes
            self._responses.hold(self, self._counted_bytes, self._now())

    def _on_failed(self, error: Exception) -> None:
        """Ends the connection with `error`, as if the request's handler had raised it."""
        if self._nursery is not None:
            self._nursery.start_soon(_raise, error)

    def _flush(self) -> None:
        """Sends the responses whose turn it is; starts a task for what the client does not take at once."""
        something_to_send = self._outbox.collect()
        if not self._in_turn and self._outbox.blocking_response is not None:
            something_to_send = self._hurry_blocking() or something_to_send
        if self._room_made is not None:
            self._room_made.set()
        if not something_to_send or self._draining or self._nursery is None:
            return
        try:
            done = self._send()
        except OSError as error:
            self._logger.debug("connection_broke", reason=str(error))
            self._nursery.cancel_scope.cancel()
            return
        if not done:
            self._draining = True
            self._nursery.start_soon(self._drain)

    def _hurry_blocking(self) -> bool:
        """Makes long polls that hold up an urgent response respond with what they have.

        Returns whether there is more to send.
        """
        outbox = self._outbox
        has_hurried = False
        while (context := outbox.blocking_response) is not None:
            assert isinstance(context, RequestContext)
            if context.hurry is None:
                break
            context.hurry()
            has_hurried = outbox.collect() or has_hurried
        return has_hurried

    async def _drain(self) -> None:
        """Sends the remaining responses as the client makes room for them."""
        while True:
            await self._connection.wait_writable()
            self.last_active = trio.current_time()
            self._outbox.collect()
            done = self._send()
            self._count_held()
            if done:
                self._draining = False
                if self._finishing:
                    self._connection.end_sending()
                return

    def _send(self) -> bool:
        """Sends as much as the socket takes; returns whether nothing is left to send."""
        before = self._outbox.sent_bytes
        try:
            done = self._outbox.send(self._connection)
        except UnreadableError as error:
            self._dispatcher.on_unreadable(error)
            raise
        self._metrics.sent_bytes += self._outbox.sent_bytes - before
        if self._room_made is not None:
            self._room_made.set()
        return done


async def _raise(error: Exception) -> None:
    raise error


def _read_nothing(view: memoryview, position: int, elements_max: int = 0, /) -> tuple[None, int]:
    """Decodes a body of unknown layout as nothing."""
    return None, position
