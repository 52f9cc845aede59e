"""Calls to etcd over its JSON gateway: any of several endpoints, connections that are used again, deadlines.

A call is sent once only: whether a write that was not answered has been done, nobody but its caller can find out.
"""

import json
import math
from collections.abc import Sequence
from typing import Any

import trio

from tailrace.controller.key_value.interface import StoreUnavailable
from tailrace.runtime.network import Address, Network

from .etcd_messages import Json
from .http_connection import HttpConnection, HttpError, connect

CONNECT_SECONDS_MAX = 2.0
CALL_SECONDS_MAX = 5.0
RESPONSE_BYTES_MAX = 256 * 1024 * 1024  # above a page of the largest values
IDLE_CONNECTIONS_MAX = 4
OK = 200
_GIVEN_UP = "has not answered another call"

# The codes of gRPC that mean something else than "try again".
NOT_FOUND = 5
OUT_OF_RANGE = 11
_UNKNOWN = 2
_PARTS = {"header", "result", "error"}  # of which every answer has one

# A server that has lost its cluster's leader ends the stream instead of keeping silent.
_STREAM_HEADERS = (("grpc-metadata-hasleader", "true"),)


class EtcdError(StoreUnavailable):
    """etcd has answered, with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"etcd says: {message}")
        self.code = code


class EtcdGateway:
    def __init__(
        self, network: Network, endpoints: Sequence[Address], call_seconds_max: float = CALL_SECONDS_MAX
    ) -> None:
        self._network = network
        self._endpoints = endpoints
        self._call_seconds_max = call_seconds_max
        self._turn = 0
        """Counts on whenever the endpoint whose turn it is disappoints."""
        self._open: dict[HttpConnection, int] = {}
        """With the turn in which each was made."""
        self._idle: list[HttpConnection] = []
        self._is_closed = False

    async def call(self, path: str, request: Json, seconds_max: float = math.inf) -> Any:
        """What etcd answers; EtcdError when that is an error, StoreUnavailable when it does not."""
        seconds_max = min(seconds_max, self._call_seconds_max)
        connection: HttpConnection | None = None
        turn = self._turn
        try:
            with trio.fail_after(seconds_max):
                connection = await self._acquire()
                turn = self._open[connection]
                status = await connection.post(path, json.dumps(request).encode())
                body = await _body(connection)
        except trio.TooSlowError:
            raise self._failed_over(turn, f"has not answered in {seconds_max:g} s") from None
        except HttpError as error:
            raise self._failed_over(turn, str(error)) from error
        except trio.ClosedResourceError:
            raise self._failed_over(turn, _GIVEN_UP) from None
        else:
            self._release(connection, turn)
            connection = None
        finally:
            if connection is not None:
                self._discard(connection)
        answer = self._parsed(turn, body)
        if status != OK:
            raise self._error(turn, answer)
        return answer

    async def open_stream(self, path: str, request: Json) -> "EtcdStream":
        """A call with many answers, on a connection of its own."""
        connection: HttpConnection | None = None
        turn = self._turn
        try:
            with trio.fail_after(self._call_seconds_max):
                connection = await self._connect()
                turn = self._open[connection]
                status = await connection.post(path, json.dumps(request).encode(), _STREAM_HEADERS)
                if status != OK:
                    raise self._error(turn, self._parsed(turn, await _body(connection)))
                stream, connection = EtcdStream(self, connection, turn), None
                return stream
        except trio.TooSlowError:
            raise self._failed_over(turn, f"has not answered in {self._call_seconds_max:g} s") from None
        except HttpError as error:
            raise self._failed_over(turn, str(error)) from error
        except trio.ClosedResourceError:
            raise self._failed_over(turn, _GIVEN_UP) from None
        finally:
            if connection is not None:
                self._discard(connection)

    async def next_answer(self, connection: HttpConnection, turn: int, arrived: bytearray) -> Any:
        """The next of a stream's answers, each of which is one line; what `arrived` beyond it stays for the next."""
        searched = 0
        try:
            while (end := arrived.find(b"\n", searched)) < 0:
                searched = len(arrived)
                part = await connection.read()
                if not part or searched > RESPONSE_BYTES_MAX:
                    raise self._failed_over(turn, "has ended a stream")
                arrived += part
        except HttpError as error:
            raise self._failed_over(turn, str(error)) from error
        except trio.ClosedResourceError:
            raise self._failed_over(turn, _GIVEN_UP) from None
        line = bytes(arrived[:end])
        del arrived[: end + 1]
        answer = self._parsed(turn, line)
        if "result" not in answer:
            raise self._error(turn, answer.get("error", {}))
        return answer["result"]

    def close_stream(self, connection: HttpConnection) -> None:
        self._discard(connection)

    def close(self) -> None:
        """Calls and streams that wait raise StoreUnavailable."""
        self._is_closed = True
        for connection in self._open:
            connection.close()
        self._open.clear()
        self._idle.clear()

    def check_open(self) -> None:
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
        """To the endpoint whose turn it is, or the next one that can be reached."""
        self.check_open()
        reasons: list[str] = []
        for _ in self._endpoints:
            turn = self._turn
            try:
                with trio.fail_after(CONNECT_SECONDS_MAX):
                    connection = await connect(self._network, self._endpoint_of(turn))
            except trio.TooSlowError:
                reasons.append(f"cannot connect to {self._endpoint_of(turn)} in {CONNECT_SECONDS_MAX:g} s")
            except OSError as error:
                reasons.append(error.strerror or str(error))
            else:
                self._open[connection] = turn
                if self._is_closed:  # meanwhile
                    self._discard(connection)
                self.check_open()
                return connection
            self._end_turn(turn)
        raise StoreUnavailable(f"etcd cannot be reached: {'; '.join(reasons)}")

    def _release(self, connection: HttpConnection, turn: int) -> None:
        """One that was being made when its endpoint's turn ended is not used again."""
        is_wanted = self._endpoint_of(turn) == self._endpoint_of(self._turn) and not self._is_closed
        if is_wanted and len(self._idle) < IDLE_CONNECTIONS_MAX and connection.is_reusable():
            self._idle.append(connection)
        else:
            self._discard(connection)

    def _discard(self, connection: HttpConnection) -> None:
        connection.close()
        self._open.pop(connection, None)

    def _failed_over(self, turn: int, what: str) -> StoreUnavailable:
        """The next call goes to the next endpoint, however many are disappointed by the same one."""
        if self._is_closed:
            return StoreUnavailable("the key-value store has been closed")
        self._end_turn(turn)
        return StoreUnavailable(f"etcd at {self._endpoint_of(turn)}: {what}")

    def _end_turn(self, turn: int) -> None:
        """What else waits there need not wait until its own time is over: it is tried again elsewhere."""
        if turn != self._turn:
            return
        self._turn += 1
        endpoint = self._endpoint_of(turn)
        for connection in [each for each, made_in in self._open.items() if self._endpoint_of(made_in) == endpoint]:
            self._discard(connection)
        self._idle.clear()

    def _error(self, turn: int, answer: Any) -> StoreUnavailable:
        """Both shapes: of a call, and inside a stream."""
        code = answer.get("code", answer.get("grpc_code", _UNKNOWN))
        message = answer.get("message") or answer.get("error") or "no reason given"
        if code not in (NOT_FOUND, OUT_OF_RANGE):
            self._failed_over(turn, message)  # it may have lost its cluster
        return EtcdError(code, message)

    def _parsed(self, turn: int, body: bytes) -> Any:
        try:
            answer = json.loads(body)
        except ValueError:
            answer = None
        if not (isinstance(answer, dict) and _PARTS & answer.keys()):
            raise self._failed_over(turn, f"answers as no etcd does: {body[:100]!r}")
        return answer

    def _endpoint_of(self, turn: int) -> Address:
        return self._endpoints[turn % len(self._endpoints)]


class EtcdStream:
    def __init__(self, gateway: EtcdGateway, connection: HttpConnection, turn: int) -> None:
        self._gateway = gateway
        self._connection = connection
        self._turn = turn
        self._arrived = bytearray()

    async def next(self) -> Any:
        """Whoever gives up waiting may ask again."""
        return await self._gateway.next_answer(self._connection, self._turn, self._arrived)

    def close(self) -> None:
        self._gateway.close_stream(self._connection)


async def _body(connection: HttpConnection) -> bytes:
    body = bytearray()
    while part := await connection.read():
        body += part
        if len(body) > RESPONSE_BYTES_MAX:
            raise StoreUnavailable(f"etcd answers with more than {RESPONSE_BYTES_MAX} bytes")
    return bytes(body)
