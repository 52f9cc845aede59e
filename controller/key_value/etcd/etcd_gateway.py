"""Calls etcd over its JSON gateway, with failover, reused connections, and deadlines.

A call is sent only once, unless etcd has refused its token. If a write gets no response, only its caller can find out
whether it was carried out.
"""

import json
import math
from collections.abc import Sequence
from typing import Any

import trio

from tailrace.controller.key_value.http_connection import HttpConnection, HttpError, connect
from tailrace.controller.key_value.interface import StoreRefused, StoreUnavailable
from tailrace.runtime.network import Address, Network

from .etcd_access import reason_of
from .etcd_login import EtcdLogin, headers_of
from .etcd_messages import Json

CONNECT_SECONDS_MAX = 2.0
CALL_SECONDS_MAX = 5.0
LOGIN_SECONDS_MAX = CONNECT_SECONDS_MAX + 1
"""How long one login may take. All calls wait for it, also those that keep the SC the leader, so that it is shorter."""
_CALL_PART = 0.25
"""The part of its time that a call keeps for itself while it waits for a login."""
RESPONSE_BYTES_MAX = 256 * 1024 * 1024  # More than a page of the largest values.
IDLE_CONNECTIONS_MAX = 4
OK = 200
_CLOSED_BY_FAILOVER = "has not responded to another call"

# The gRPC codes that do not mean "try again".
NOT_FOUND = 5
OUT_OF_RANGE = 11
_UNKNOWN = 2
_NAMED_CERTIFICATE = b"CommonName of client"
"""How etcd begins to say that with authentication, it takes no client certificate with a common name."""
_AUTHENTICATE = "/v3/auth/authenticate"
_PARTS = {"header", "result", "error"}  # Every response has at least one of these.

# With this header, a server that has lost its cluster's leader ends the stream instead of staying silent.
_STREAM_HEADERS = (("grpc-metadata-hasleader", "true"),)


class EtcdError(StoreUnavailable):
    """etcd has responded with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"etcd says: {message}")
        self.code = code
        self.message = message


class EtcdRefusedError(EtcdError, StoreRefused):
    """etcd does not let the SC in."""

    def __init__(self, code: int, message: str, endpoint: Address, reason: str) -> None:
        super().__init__(code, message)
        self.args = (f"etcd at {endpoint} {reason}",)


class EtcdGateway:
    def __init__(
        self,
        network: Network,
        endpoints: Sequence[Address],
        call_seconds_max: float = CALL_SECONDS_MAX,
        login: EtcdLogin | None = None,
    ) -> None:
        self._network = network
        self._login = login or EtcdLogin()
        self._logging_in = trio.Lock()
        self._endpoints = endpoints
        self._call_seconds_max = call_seconds_max
        self._rotation = 0
        """The number of failovers so far, which selects the endpoint to use."""
        self._open: dict[HttpConnection, int] = {}
        """The open connections, each with the rotation in which it was made."""
        self._idle: list[HttpConnection] = []
        self._is_closed = False

    async def call(self, path: str, request: Json, seconds_max: float = math.inf) -> Any:
        """Calls etcd and returns its response. Raises EtcdError for an error, StoreUnavailable for no response."""
        seconds_max = min(seconds_max, self._call_seconds_max)
        deadline = trio.current_time() + seconds_max
        token = await self._token(deadline, seconds_max)
        try:
            return await self._call(path, request, deadline, seconds_max, token)
        except EtcdError as error:
            if not self._login.can_renew(error.code, error.message):
                raise
        self._login.forget(token)
        token = await self._token(deadline, seconds_max)
        return await self._call(path, request, deadline, seconds_max, token)

    def forget_token(self, token: str) -> None:
        """Logs in again before the next call."""
        self._login.forget(token)

    async def _token(self, deadline: float, seconds_max: float) -> str:
        """Returns the token for a call, and logs in before if there is none. Calls that need one wait for one login.

        The wait ends early enough that the endpoint has time to respond. It is no reason to fail over, because the
        call has asked no endpoint.
        """
        if not self._login.is_needed:
            return self._login.token
        try:
            with trio.fail_at(deadline - _CALL_PART * seconds_max):
                await self._logging_in.acquire()
        except trio.TooSlowError:
            raise StoreUnavailable("another call has not finished the login to etcd in time") from None
        try:
            if self._login.is_needed:
                seconds = min(LOGIN_SECONDS_MAX, deadline - trio.current_time())
                request, until = self._login.request(), trio.current_time() + seconds
                response = await self._call(_AUTHENTICATE, request, until, seconds, "")
                self._login.take(str(response.get("token", "")))
            return self._login.token
        finally:
            self._logging_in.release()

    async def _call(self, path: str, request: Json, deadline: float, seconds_max: float, token: str) -> Any:
        connection: HttpConnection | None = None
        rotation = self._rotation
        try:
            with trio.fail_at(deadline):
                connection = await self._acquire()
                rotation = self._open[connection]
                status = await connection.post(path, json.dumps(request).encode(), headers_of(token))
                body = await _body(connection)
        except trio.TooSlowError:
            raise self._fail_over(rotation, f"has not responded in {seconds_max:g} s") from None
        except HttpError as error:
            raise self._fail_over(rotation, reason_of(error)) from error
        except trio.ClosedResourceError:
            raise self._fail_over(rotation, _CLOSED_BY_FAILOVER) from None
        else:
            self._release(connection, rotation)
            connection = None
        finally:
            if connection is not None:
                self._discard(connection)
        response = self._parse(rotation, body)
        if status != OK:
            raise self._error_of(rotation, response)
        return response

    async def open_stream(self, path: str, request: Json) -> "EtcdStream":
        """Makes a call that has many responses, on a connection of its own."""
        token = await self._token(trio.current_time() + self._call_seconds_max, self._call_seconds_max)
        connection: HttpConnection | None = None
        rotation = self._rotation
        headers = _STREAM_HEADERS + headers_of(token)
        try:
            with trio.fail_after(self._call_seconds_max):
                connection = await self._connect()
                rotation = self._open[connection]
                status = await connection.post(path, json.dumps(request).encode(), headers)
                if status != OK:
                    self._login.forget(token)
                    raise self._error_of(rotation, self._parse(rotation, await _body(connection)))
                stream, connection = EtcdStream(self, connection, rotation, token), None
                return stream
        except trio.TooSlowError:
            raise self._fail_over(rotation, f"has not responded in {self._call_seconds_max:g} s") from None
        except HttpError as error:
            raise self._fail_over(rotation, reason_of(error)) from error
        except trio.ClosedResourceError:
            raise self._fail_over(rotation, _CLOSED_BY_FAILOVER) from None
        finally:
            if connection is not None:
                self._discard(connection)

    async def next_response(self, connection: HttpConnection, rotation: int, received: bytearray) -> Any:
        """Returns the next response of a stream, which is one line. Further bytes stay in `received`."""
        searched = 0
        try:
            while (end := received.find(b"\n", searched)) < 0:
                searched = len(received)
                part = await connection.read()
                if not part or searched > RESPONSE_BYTES_MAX:
                    raise self._fail_over(rotation, "has ended a stream")
                received += part
        except HttpError as error:
            raise self._fail_over(rotation, reason_of(error)) from error
        except trio.ClosedResourceError:
            raise self._fail_over(rotation, _CLOSED_BY_FAILOVER) from None
        line = bytes(received[:end])
        del received[: end + 1]
        response = self._parse(rotation, line)
        if "result" not in response:
            raise self._error_of(rotation, response.get("error", {}))
        return response["result"]

    def close_stream(self, connection: HttpConnection) -> None:
        self._discard(connection)

    def close(self) -> None:
        """Closes all connections; waiting calls and streams raise StoreUnavailable."""
        self._is_closed = True
        for connection in self._open:
            connection.close()
        self._open.clear()
        self._idle.clear()

    def check_open(self) -> None:
        """Raises StoreUnavailable if the gateway was closed."""
        if self._is_closed:
            raise StoreUnavailable("the key-value store has been closed")

    async def _acquire(self) -> HttpConnection:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_reusable():
                return connection
            self._discard(connection)
        return await self._connect()

    async def _connect(self) -> HttpConnection:
        """Connects to the current endpoint, or to the next one that can be reached."""
        self.check_open()
        reasons: list[str] = []
        for _ in self._endpoints:
            rotation = self._rotation
            try:
                with trio.fail_after(CONNECT_SECONDS_MAX):
                    connection = await connect(self._network, self._endpoint_of(rotation))
            except trio.TooSlowError:
                reasons.append(f"cannot connect to {self._endpoint_of(rotation)} in {CONNECT_SECONDS_MAX:g} s")
            except OSError as error:
                reasons.append(error.strerror or str(error))
            else:
                self._open[connection] = rotation
                if self._is_closed:  # It was closed while this waited.
                    self._discard(connection)
                self.check_open()
                return connection
            self._rotate(rotation)
        raise StoreUnavailable(f"etcd cannot be reached: {'; '.join(reasons)}")

    def _release(self, connection: HttpConnection, rotation: int) -> None:
        """Keeps a connection for the next call, unless its endpoint has failed in the meantime."""
        is_wanted = self._endpoint_of(rotation) == self._endpoint_of(self._rotation) and not self._is_closed
        if is_wanted and len(self._idle) < IDLE_CONNECTIONS_MAX and connection.is_reusable():
            self._idle.append(connection)
        else:
            self._discard(connection)

    def _discard(self, connection: HttpConnection) -> None:
        connection.close()
        self._open.pop(connection, None)

    def _fail_over(self, rotation: int, what: str) -> StoreUnavailable:
        """Makes the next call go to the next endpoint, once even if many calls fail, and returns the error to raise."""
        if self._is_closed:
            return StoreUnavailable("the key-value store has been closed")
        self._rotate(rotation)
        return StoreUnavailable(f"etcd at {self._endpoint_of(rotation)}: {what}")

    def _rotate(self, rotation: int) -> None:
        """Selects the next endpoint and closes all connections to this one.

        Other calls that wait there need not wait for their own deadlines: their callers try again elsewhere.
        """
        if rotation != self._rotation:
            return
        self._rotation += 1
        endpoint = self._endpoint_of(rotation)
        for connection in [each for each, made_in in self._open.items() if self._endpoint_of(made_in) == endpoint]:
            self._discard(connection)
        self._idle.clear()

    def _error_of(self, rotation: int, response: Any) -> StoreUnavailable:
        """Returns the error that a response states, in the form of a single call or of a stream."""
        code = response.get("code", response.get("grpc_code", _UNKNOWN))
        message = response.get("message") or response.get("error") or "no reason given"
        refusal = self._login.refusal(code, message)
        if refusal is not None:
            return EtcdRefusedError(code, message, self._endpoint_of(rotation), refusal)
        if code not in (NOT_FOUND, OUT_OF_RANGE) and not self._login.can_renew(code, message):
            self._fail_over(rotation, message)  # The endpoint may have lost its cluster.
        return EtcdError(code, message)

    def _parse(self, rotation: int, body: bytes) -> Any:
        try:
            response = json.loads(body)
        except ValueError:
            response = None
        if not (isinstance(response, dict) and _PARTS & response.keys()):
            if body.startswith(_NAMED_CERTIFICATE):
                raise self._fail_over(
                    rotation,
                    "has authentication, and then takes only client certificates without a common name: make another "
                    "one for ssl.keystore.location",
                )
            raise self._fail_over(rotation, f"responds as no etcd does: {body[:100]!r}")
        return response

    def _endpoint_of(self, rotation: int) -> Address:
        return self._endpoints[rotation % len(self._endpoints)]


class EtcdStream:
    def __init__(self, gateway: EtcdGateway, connection: HttpConnection, rotation: int, token: str) -> None:
        self._gateway = gateway
        self._token = token
        self._connection = connection
        self._rotation = rotation
        self._received = bytearray()

    async def next(self) -> Any:
        """Returns the next response. After a cancelled wait it may be called again."""
        return await self._gateway.next_response(self._connection, self._rotation, self._received)

    def forget_token(self) -> None:
        """Makes the next stream log in again, because etcd may have ended this one for its token."""
        self._gateway.forget_token(self._token)

    def close(self) -> None:
        self._gateway.close_stream(self._connection)


async def _body(connection: HttpConnection) -> bytes:
    body = await connection.read_all(RESPONSE_BYTES_MAX)
    if body is None:
        raise StoreUnavailable(f"etcd responds with more than {RESPONSE_BYTES_MAX} bytes")
    return body
