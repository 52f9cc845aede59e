"""Holds the private port (9006), where other SPUs will connect to replicate; until then it answers nobody.

The port is taken from the start because it is part of the SPU's address: another program on it would only show when
replication begins. Whoever connects is told nothing, as nothing of ours is spoken yet; the log says who came, and with
what, so that a Kafka client which was pointed at the wrong port is found by its log line.
"""

from struct import Struct, error

import trio
from structlog.typing import FilteringBoundLogger

from tailrace.protocol.apis import ApiKey
from tailrace.runtime.network import Connection, Listener
from tailrace.server.listening import accept

FIRST_BYTES_SECONDS_MAX = 5
FIRST_BYTES_MAX = 1024
CONNECTIONS_AT_ONCE = 64

_SIZE_API_AND_VERSION = Struct(">ihh")


class PrivateServer:
    def __init__(self, logger: FilteringBoundLogger) -> None:
        self._logger = logger
        self._connected = trio.CapacityLimiter(CONNECTIONS_AT_ONCE)

    async def serve(self, listener: Listener) -> None:
        """Until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                connection = await accept(listener, "PRIVATE", self._logger)
                nursery.start_soon(self._refuse, connection)

    async def _refuse(self, connection: Connection) -> None:
        try:
            async with self._connected:
                with trio.move_on_after(FIRST_BYTES_SECONDS_MAX):
                    received = await _first_bytes(connection)
                    if received:
                        self._logger.warning(
                            "private_request_refused", peer=str(connection.remote), reason=_what_it_was(received)
                        )
        except OSError as reason:
            self._logger.debug("connection_broke", peer=str(connection.remote), reason=str(reason))
        finally:
            connection.close()


async def _first_bytes(connection: Connection) -> bytes:
    """What came first; nothing if the peer left without a word."""
    buffer = bytearray(FIRST_BYTES_MAX)
    while (count := connection.receive_into(memoryview(buffer))) is None:
        await connection.wait_readable()
    return bytes(buffer[:count])


def _what_it_was(received: bytes) -> str:
    try:
        _, api_key, version = _SIZE_API_AND_VERSION.unpack_from(received)
        return f"this port is for SPUs; {ApiKey(api_key).name} version {version} belongs on a public one"
    except (error, ValueError):
        return "this port is for SPUs, and nothing that they say is understood yet"
