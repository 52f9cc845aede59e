from tailrace.runtime.chance import RandomChance
from tailrace.runtime.files import RealFiles
from tailrace.runtime.network import TcpNetwork
from tailrace.runtime.seams import real_seams
from tailrace.runtime.wall_clock import SystemClock


def test_production_has_the_real_ones() -> None:
    seams = real_seams(send_buffer_bytes=128 * 1024)
    assert isinstance(seams.network, TcpNetwork)
    assert isinstance(seams.files, RealFiles)
    assert isinstance(seams.wall_clock, SystemClock)
    assert isinstance(seams.chance, RandomChance)
