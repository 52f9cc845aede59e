"""Finds out whether a disconnected process has ended, to end its lease early.

When a process ends, its sockets close, and the kernel of its machine refuses connections to it. The kernel of a frozen
process still accepts connections, a process that is cut off does not respond, and a process that has only lost its
connection accepts another one. Each of these may still serve clients, and keeps its lease.
"""

from collections.abc import Callable, Iterable

import trio

from tailrace.runtime.network import Address, Connection, Network, receive_some

PAUSE_SECONDS = 0.02
"""The pause between two attempts, since a process that ends closes its sockets one after the other."""


async def wait_until_all_refuse(network: Network, addresses: Iterable[Address], is_wanted: Callable[[], bool]) -> bool:
    """Waits until all addresses refuse connections, and returns True: no client can reach the process any more.

    Returns False if an address does not respond, or as soon as `is_wanted` returns False.
    """
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
    """Waits until an accepted connection ends, which happens at the latest when the process ends."""
    try:
        await receive_some(connection, memoryview(bytearray(1)))
    except OSError:
        pass
    finally:
        connection.close()
