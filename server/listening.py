"""Opens a listener where its settings say, or next to there when nobody insists on the port; and accepts on it."""

import trio
from structlog.typing import FilteringBoundLogger

from tailrace.runtime.network import Address, CannotListenError, Connection, Listener, Network
from tailrace.runtime.settings import ListenerSettings

ACCEPT_RETRY_SECONDS = 0.1


async def listen(network: Network, settings: ListenerSettings) -> Listener:
    try:
        return await network.listen(settings.address)
    except CannotListenError:
        if not settings.may_move:
            raise
        return await network.listen(Address(settings.address.host, 0))


async def accept(listener: Listener, name: str, logger: FilteringBoundLogger) -> Connection:
    """The next connection. A failure is logged under the listener's name, once, and it is tried again and again."""
    said: str | None = None
    while True:
        try:
            return await listener.accept()
        except OSError as error:
            # Out of file descriptors, most likely: those who are connected go on, and room may come.
            if said != str(error):
                said = str(error)
                logger.error("accept_failed", listener=name, reason=said)
            await trio.sleep(ACCEPT_RETRY_SECONDS)
