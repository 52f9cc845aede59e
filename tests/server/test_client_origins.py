"""Tests that clients through a published port are told apart, and that a new network is noticed."""

import trio
from simulation.files import SimulatedFiles

from tailrace.server.client_origins import READ_AGAIN_SECONDS, ClientOrigins
from tailrace.server.local_networks import IPV4_ROUTES

HEADER = b"Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n"
FIRST_NETWORK = b"eth0 00004D0A 00000000 0001 0 0 0 00FFFFFF 0 0 0\n"  # 10.77.0.0/24
SECOND_NETWORK = b"eth1 00004E0A 00000000 0001 0 0 0 00FFFFFF 0 0 0\n"  # 10.78.0.0/24


async def test_a_network_to_which_the_container_is_attached_later_is_noticed(autojump_clock: object) -> None:
    files = SimulatedFiles()
    files.make_directories("/proc/net")
    table = files.open(IPV4_ROUTES, create=True)
    table.append(HEADER + FIRST_NETWORK)
    origins = ClientOrigins(files)
    hosts = ("127.0.0.1", "::1", "10.77.0.5", "10.78.0.5", "192.0.2.1")
    assert [host for host in hosts if origins.is_from_outside(host)] == ["10.78.0.5", "192.0.2.1"]
    table.append(SECOND_NETWORK)
    await trio.sleep(READ_AGAIN_SECONDS)
    assert [host for host in hosts if origins.is_from_outside(host)] == ["192.0.2.1"]
