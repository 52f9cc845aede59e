"""The four seams together, as a server takes them: real ones in production, simulated ones in a seed."""

from msgspec import Struct

from .chance import Chance, RandomChance
from .files import Files, RealFiles
from .network import Network, TcpNetwork
from .wall_clock import SystemClock, WallClock


class Seams(Struct, frozen=True):
    network: Network
    files: Files
    wall_clock: WallClock
    chance: Chance


def real_seams(*, send_buffer_bytes: int, waits_awake: bool = True) -> Seams:
    return Seams(TcpNetwork(send_buffer_bytes, waits_awake=waits_awake), RealFiles(), SystemClock(), RandomChance())
