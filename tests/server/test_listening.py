import pytest
import structlog
import trio
import trio.testing
from simulation.network import MemoryNetwork

from tailrace.runtime.network import Address, CannotListenError, Connection, Listener, TcpNetwork
from tailrace.runtime.settings import ListenerSettings
from tailrace.server.listening import ACCEPT_RETRY_SECONDS, accept, listen


async def test_a_port_in_use_is_an_error_unless_the_listener_may_move() -> None:
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


async def test_a_failure_to_accept_is_logged_once_and_retried(autojump_clock: trio.testing.MockClock) -> None:
    network = MemoryNetwork()
    listener = await network.listen(Address("spu-1", 9005))
    listener_that_fails = _FailsAtFirst(listener, times=3)
    with structlog.testing.capture_logs() as logged:
        client = await network.connect(listener.address)
        accepted = await accept(listener_that_fails, "PUBLIC", structlog.get_logger())
    assert accepted.local == client.remote
    (entry,) = logged
    assert (entry["event"], entry["listener"], entry["reason"]) == ("accept_failed", "PUBLIC", "too many open files")
    assert trio.current_time() == pytest.approx(3 * ACCEPT_RETRY_SECONDS)


class _FailsAtFirst:
    def __init__(self, listener: Listener, times: int) -> None:
        self._listener = listener
        self._times = times

    @property
    def address(self) -> Address:
        return self._listener.address

    async def accept(self) -> Connection:
        if self._times > 0:
            self._times -= 1
            raise OSError("too many open files")
        return await self._listener.accept()

    def close(self) -> None:
        self._listener.close()
