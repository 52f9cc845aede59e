"""Finds out whether a process whose connection has ended is gone, so that its lease need not be waited for.

Who dies takes its sockets along, and its machine's kernel refuses whoever looks for it. Who is frozen is still listened
for by its kernel, who is cut off does not answer, and who has merely lost the connection accepts another one: of these,
each may still serve clients, and keeps its lease.
"""

from collections.abc import Callable, Iterable

import trio

from tailrace.runtime.network import Address, Connection, Network, receive_some

PAUSE_SECONDS = 0.02
"""A process that ends closes one socket after the other."""


async def wait_until_nobody_listens(
    network: Network, addresses: Iterable[Address], is_wanted: Callable[[], bool]
) -> bool:
    """Whether every one of the addresses refuses: then no client reaches that process, and none will. Goes on asking
    as long as the answer is wanted; False then, and when somebody does not answer."""
    for address in addresses:
        while True:
            if not is_wanted():
                return False
            try:
                connection = await network.connect(address)
            except ConnectionRefusedError:
                break
            except OSError:
                return False
            await _until_ended(connection)
            await trio.sleep(PAUSE_SECONDS)
    return is_wanted()


async def _until_ended(connection: Connection) -> None:
    """It was accepted, if only by the kernel: when that process dies, this hears of it."""
    try:
        await receive_some(connection, memoryview(bytearray(1)))
    except OSError:
        pass
    finally:
        connection.close()
