"""Tests which clients come from outside the networks of a container, from the tables of Linux."""

import pytest
from simulation.files import SimulatedFiles

from tailrace.runtime.files import RealFiles
from tailrace.server.local_networks import IPV4_ROUTES, LocalNetworks, local_networks, read_local_networks

# A container on Docker's default network 172.17.0.0/16, whose gateway is 172.17.0.1.
IPV4 = """\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
"""
ZEROS = "0" * 32
IPV6 = f"""\
fd000000000000000000000000000000 40 {ZEROS} 00 {ZEROS} 00000100 00000001 00000000 00000001     eth0
{ZEROS} 00 {ZEROS} 00 fd000000000000000000000000000001 00000400 00000003 00000000 00000003     eth0
00000000000000000000000000000001 80 {ZEROS} 00 {ZEROS} 00000000 00000002 00000000 80200001       lo
ff000000000000000000000000000000 08 {ZEROS} 00 {ZEROS} 00000100 00000003 00000000 00000001     eth0
{ZEROS} 00 {ZEROS} 00 {ZEROS} ffffffff 00000001 00000000 00200200       lo
"""
CONTAINER = local_networks(IPV4, IPV6)


@pytest.mark.parametrize("host", ["172.17.0.1", "192.0.2.7", "10.0.0.1", "fd00::1", "2001:db8::7"])
def test_the_gateway_and_everything_behind_it_are_outside(host: str) -> None:
    assert CONTAINER.is_outside(host)


@pytest.mark.parametrize("host", ["172.17.0.2", "172.17.9.9", "127.0.0.1", "fd00::77", "::1", "fd00::7%eth0", "a name"])
def test_this_container_and_others_on_its_networks_are_inside(host: str) -> None:
    assert not CONTAINER.is_outside(host)


def test_nothing_is_outside_if_no_network_is_known() -> None:
    assert not LocalNetworks().is_outside("192.0.2.7")
    assert not local_networks(IPV4, "").is_outside("2001:db8::7")


def test_the_tables_of_the_kernel_are_read() -> None:
    files = SimulatedFiles()
    assert read_local_networks(files) == LocalNetworks()
    files.make_directories("/proc/net")
    files.open(IPV4_ROUTES, create=True).append(IPV4.encode())
    assert read_local_networks(files) == local_networks(IPV4, "")


def test_the_tables_of_this_machine_can_be_read() -> None:
    assert not read_local_networks(RealFiles(read_only=True)).is_outside("127.0.0.1")
