"""Hosts in access rules: an IP address, a range of addresses such as `10.1.0.0/16`, or `*` for all hosts.

An IPv4 address that came over an IPv6 socket is the same host as the plain IPv4 address.
"""

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

from .acl_codes import WILDCARD

_CACHED_MAX = 10_000


class HostError(Exception):
    """A text is no host of a rule. The message is one sentence."""


def check_host(pattern: str) -> None:
    """Raises HostError unless `pattern` is a host of a rule.

    As in Kafka, a text that is no address is accepted and matches nothing, for example a host name. A range has to be
    right.
    """
    if not pattern:
        raise HostError("the host of a rule is empty; use * for all hosts")
    if "/" in pattern:
        try:
            ip_network(pattern)
        except ValueError as error:
            raise HostError(f"{pattern!r:.80} is not a range of addresses: {error}") from None


@lru_cache(_CACHED_MAX)
def host_matches(pattern: str, host: str) -> bool:
    """Whether a client's address is one of the hosts of a rule."""
    if pattern in (WILDCARD, host):
        return True
    address = _address(host)
    if address is None:
        return False
    if "/" not in pattern:
        return _address(pattern) == address
    try:
        network = ip_network(pattern, strict=False)
    except ValueError:
        return False
    if isinstance(network, IPv6Network) != isinstance(address, IPv6Address):
        return False
    return address in network


@lru_cache(_CACHED_MAX)
def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address
