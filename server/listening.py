"""Opens listeners as their settings say, and accepts connections on them."""

import trio

from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.network import Address, CannotListenError, Connection, Listener, Network
from tailrace.runtime.settings import ListenerSettings

ACCEPT_RETRY_SECONDS = 0.1


async def listen(network: Network, settings: ListenerSettings) -> Listener:
    """Listens on the address of the settings, or on any free port if that one is in use and the settings allow it."""
    try:
        return await network.listen(settings.address)
    except CannotListenError as error:
        if not settings.may_move:
            raise CannotListenError(str(error), error.port_in_use, settings.flag) from error
        return await network.listen(Address(settings.address.host, 0))


async def accept(listener: Listener, name: str, logger: FilteringBoundLogger) -> Connection:
    """Returns the next connection. Retries after an error, and logs the same error only once."""
    logged: str | None = None
    while True:
        try:
            return await listener.accept()
        except OSError as error:
            # Most likely the process has too many open files. It goes on, and connections that close make room.
            if logged != str(error):
                logged = str(error)
                logger.error("accept_failed", listener=name, reason=logged)
            await trio.sleep(ACCEPT_RETRY_SECONDS)
