"""One HTTP/1.1 connection: h11 implements the protocol, the network seam moves the bytes."""

import h11

from tailrace.runtime.network import Address, ByteStream, Network, receive_some, send_all

RECEIVE_BYTES = 64 * 1024

HttpError = (OSError, h11.ProtocolError)
"""The errors of a call whose connection broke, or whose peer does not speak HTTP."""


class HttpConnection:
    """A connection that carries one request at a time. Close it after an error or a cancellation."""

    def __init__(self, connection: ByteStream, host: str) -> None:
        self._connection = connection
        self._host = host
        self._protocol = h11.Connection(h11.CLIENT)
        self._buffer = memoryview(bytearray(RECEIVE_BYTES))

    async def post(self, path: str, body: bytes, headers: tuple[tuple[str, str], ...] = ()) -> int:
        """Sends a POST request and returns the status of the response; `read` returns the body."""
        return await self.request("POST", path, body, headers)

    async def request(self, method: str, path: str, body: bytes, headers: tuple[tuple[str, str], ...] = ()) -> int:
        """Sends a request and returns the status of the response; `read` returns the body."""
        if self._protocol.our_state is not h11.IDLE:
            self._protocol.start_next_cycle()
        own = (("host", self._host), ("content-type", "application/json"), ("content-length", str(len(body))))
        request = h11.Request(method=method, target=path, headers=[*own, *headers])
        events: tuple[h11.Event, ...] = (request, h11.Data(data=body), h11.EndOfMessage())
        await send_all(self._connection, b"".join(self._protocol.send(event) or b"" for event in events))
        while not isinstance(event := await self._next_event(), h11.Response):
            pass  # Skip interim responses such as "100 Continue".
        return event.status_code

    async def read(self) -> bytes:
        """Returns the next part of the response's body, or an empty one at its end."""
        while True:
            match await self._next_event():
                case h11.Data(data=data) if data:
                    return bytes(data)
                case h11.EndOfMessage():
                    return b""

    async def read_all(self, bytes_max: int) -> bytes | None:
        """Returns the whole body of the response; None if it is larger than `bytes_max`."""
        body = bytearray()
        while part := await self.read():
            body += part
            if len(body) > bytes_max:
                return None
        return bytes(body)

    def is_reusable(self) -> bool:
        """Tells whether another request may follow: the last one is complete, and the server has not closed since."""
        if self._protocol.our_state is not h11.DONE or self._protocol.their_state is not h11.DONE:
            return False
        try:
            return self._connection.receive_into(self._buffer) is None
        except OSError:
            return False

    def close(self) -> None:
        self._connection.close()

    async def _next_event(self) -> h11.Event:
        at_end = False
        while True:
            try:
                event = self._protocol.next_event()
            except h11.RemoteProtocolError as error:
                if at_end:
                    raise ConnectionResetError("the server has closed the connection") from error
                raise
            if isinstance(event, h11.ConnectionClosed):
                raise ConnectionResetError("the server has closed the connection")
            if isinstance(event, h11.Event):
                return event
            count = await receive_some(self._connection, self._buffer)
            at_end = count == 0
            self._protocol.receive_data(bytes(self._buffer[:count]))


async def connect(network: Network, address: Address) -> HttpConnection:
    return HttpConnection(await network.connect(address), str(address))
