"""Opens a listener where its settings say, or next to there when nobody insists on the port."""

from tailrace.runtime.network import Address, CannotListenError, Listener, Network
from tailrace.runtime.settings import ListenerSettings


async def listen(network: Network, settings: ListenerSettings) -> Listener:
    try:
        return await network.listen(settings.address)
    except CannotListenError:
        if not settings.may_move:
            raise
        return await network.listen(Address(settings.address.host, 0))
