"""The networks to which this machine or container is attached, and whether an address lies outside them.

A port of a container can be published on the host. A client that connects there arrives from the gateway of the
container's network, or with an address outside that network. Clients in other containers have addresses inside it.
"""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from msgspec import Struct

from tailrace.runtime.files import Files

IPV4_ROUTES = "/proc/net/route"
IPV6_ROUTES = "/proc/net/ipv6_route"

_Network = IPv4Network | IPv6Network
_Route = tuple[_Network, IPv4Address | IPv6Address]
"""A destination and its gateway; an address of zeros stands for a network that is reached without a gateway."""


class LocalNetworks(Struct, frozen=True):
    """What the table of routes says."""

    networks: tuple[_Network, ...] = ()
    """The networks that are reached without a gateway."""
    gateways: frozenset[IPv4Address | IPv6Address] = frozenset()

    def is_outside(self, host: str) -> bool:
        """Returns whether a client with this address comes through a gateway; False if nothing is known."""
        try:
            address = ip_address(host.partition("%")[0])
        except ValueError:
            return False
        if address.is_loopback:
            return False
        known = [network for network in self.networks if network.version == address.version]
        return address in self.gateways or (bool(known) and not any(address in network for network in known))


def read_local_networks(files: Files) -> LocalNetworks:
    """Reads the networks from the kernel of Linux; on other systems none are known."""
    return local_networks(_text(files, IPV4_ROUTES), _text(files, IPV6_ROUTES))


def local_networks(ipv4_routes: str, ipv6_routes: str) -> LocalNetworks:
    """Makes the networks of the texts of the kernel's tables."""
    routes = [*_ipv4(ipv4_routes), *_ipv6(ipv6_routes)]
    return LocalNetworks(
        tuple(network for network, gateway in routes if not int(gateway) and network.prefixlen),
        frozenset(gateway for _, gateway in routes if int(gateway)),
    )


def _text(files: Files, path: str) -> str:
    try:
        return files.read(path).decode("ascii")
    except OSError:
        return ""


def _ipv4(text: str) -> Iterator[_Route]:
    for line in text.splitlines()[1:]:
        fields = line.split()
        destination, gateway, mask = (bytes.fromhex(fields[column])[::-1] for column in (1, 2, 7))
        prefix = int.from_bytes(mask, "big").bit_count()
        yield IPv4Network((destination, prefix)), IPv4Address(gateway)


def _ipv6(text: str) -> Iterator[_Route]:
    for line in text.splitlines():
        fields = line.split()
        network = IPv6Network((bytes.fromhex(fields[0]), int(fields[1], 16)))
        if fields[-1] != "lo" and not network.is_multicast:
            yield network, IPv6Address(bytes.fromhex(fields[4]))
