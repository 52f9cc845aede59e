"""The four seams together, as a server takes them: real in production, simulated in tests."""

from msgspec import Struct

from .chance import Chance, RandomChance
from .files import Files, RealFiles
from .network import Network, TcpNetwork
from .wall_clock import SystemClock, WallClock


class Seams(Struct, frozen=True):
    """One implementation of each seam."""

    network: Network
    files: Files
    wall_clock: WallClock
    chance: Chance


def real_seams(*, send_buffer_bytes: int, waits_awake: bool = True) -> Seams:
    """Returns the implementations for production."""
    return Seams(TcpNetwork(send_buffer_bytes, waits_awake=waits_awake), RealFiles(), SystemClock(), RandomChance())
