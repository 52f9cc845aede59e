import pytest

from tailrace.runtime.network import Address, CannotListenError, TcpNetwork
from tailrace.runtime.settings import ListenerSettings
from tailrace.server.listening import listen


async def test_a_port_that_is_taken_is_an_error_unless_another_will_do() -> None:
    network = TcpNetwork()
    first = await listen(network, ListenerSettings("PUBLIC", Address("127.0.0.1", 0)))
    try:
        with pytest.raises(CannotListenError, match=r"^cannot listen on 127\.0\.0\.1:"):
            await listen(network, ListenerSettings("PUBLIC", first.address))
        second = await listen(network, ListenerSettings("PUBLIC", first.address, may_move=True))
        assert second.address.host == first.address.host
        assert second.address.port not in (0, first.address.port)
        second.close()
    finally:
        first.close()


async def test_a_free_port_is_taken_as_asked() -> None:
    network = TcpNetwork()
    probe = await network.listen(Address("127.0.0.1", 0))
    free = probe.address
    probe.close()
    listener = await listen(network, ListenerSettings("PUBLIC", free, may_move=True))
    assert listener.address == free
    listener.close()
