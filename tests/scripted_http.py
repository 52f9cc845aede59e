"""A scripted HTTP server in memory."""

import json
from collections.abc import Awaitable, Callable

import trio
from msgspec import Struct
from simulation.network import MemoryNetwork

from tailrace.runtime.network import Address, Connection

STREAM_HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


class Exchange(Struct):
    """A request, and the connection for its response."""

    path: str
    body: bytes
    connection: Connection
    method: str = "POST"
    headers: dict[str, str] = {}

    @property
    def json(self) -> object:
        return json.loads(self.body)

    async def send(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self.connection.send([rest]) :]
            if rest:
                await self.connection.wait_writable()


Script = Callable[[Exchange], Awaitable[None]]


async def serve(
    network: MemoryNetwork,
    address: Address,
    script: Script,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serves until it is cancelled. When a script returns, the connection stays open for the next request."""
    listener = await network.listen(address)
    try:
        async with trio.open_nursery() as nursery:
            task_status.started()
            while True:
                nursery.start_soon(_serve_connection, await listener.accept(), script)
    finally:
        listener.close()


def answer(body: object, status: int = 200, headers: str = "") -> bytes:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"HTTP/1.1 {status} Whatever\r\n{headers}content-length: {len(content)}\r\n\r\n".encode() + content


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def _serve_connection(connection: Connection, script: Script) -> None:
    arrived, buffer = bytearray(), memoryview(bytearray(64 * 1024))
    try:
        while True:
            while (exchange := _request(arrived, connection)) is None:
                count = connection.receive_into(buffer)
                if count is None:
                    await connection.wait_readable()
                elif count == 0:
                    return
                else:
                    arrived += buffer[:count]
            await script(exchange)
    except (OSError, trio.ClosedResourceError):
        pass  # the client has gone, or the script has closed
    finally:
        connection.close()


def _request(arrived: bytearray, connection: Connection) -> Exchange | None:
    """Takes the first complete request out of the received bytes."""
    head, end, rest = bytes(arrived).partition(b"\r\n\r\n")
    first, *headers = head.decode().split("\r\n")
    sizes = [int(value) for name, _, value in (line.partition(":") for line in headers) if name == "content-length"]
    size = sizes[0] if sizes else 0
    if not end or len(rest) < size:
        return None
    del arrived[: len(head) + len(end) + size]
    method, path, _ = first.split(" ")
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in headers)}
    return Exchange(path, rest[:size], connection, method, fields)
