"""The quotas that exist, and which entities and values they may have.

A user, a client id, or both together may have limits on traffic, time and changes. An address may have a limit on new
connections. An entity without a name is the default of its type.
"""

import math
from collections.abc import Mapping, Sequence
from ipaddress import IPv6Address, ip_address

from tailrace.security.records.quota_record import CLIENT_ID, IP, USER, QuotaEntity, ordered_entity

PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"
CLIENT_QUOTAS: Mapping[str, int | None] = {
    PRODUCER_BYTE_RATE: 2**63 - 1,
    CONSUMER_BYTE_RATE: 2**63 - 1,
    REQUEST_PERCENTAGE: None,
    CONTROLLER_MUTATION_RATE: None,
}
"""The quotas of users and client ids. The largest value of those that are whole numbers; None for the others."""
IP_QUOTAS: Mapping[str, int | None] = {CONNECTION_CREATION_RATE: 2**31 - 1}
"""The quotas of addresses, as `CLIENT_QUOTAS`."""
TYPES = (USER, CLIENT_ID, IP)
NAME_CHARACTERS_MAX = 1000
"""The longest name of a user or client id that may have a quota."""
_FRACTION_MAX = 1e-6


class QuotaError(Exception):
    """A quota or a filter is not allowed. The message is one sentence."""


def checked_entity(parts: Sequence[tuple[str, str | None]]) -> QuotaEntity:
    """Returns the entity in its usual order. Raises QuotaError."""
    named: dict[str, str | None] = {}
    for kind, name in parts:
        if kind not in TYPES:
            raise QuotaError(f"{kind!r:.100} cannot have quotas; the types are {', '.join(TYPES)}")
        if kind in named:
            raise QuotaError(f"the entity has two parts of the type {kind}")
        if name == "":
            raise QuotaError(f"the name of the {kind} is empty; leave it out to mean the default")
        if name is not None and len(name) > NAME_CHARACTERS_MAX:
            raise QuotaError(f"the name of the {kind} is longer than {NAME_CHARACTERS_MAX} characters")
        named[kind] = name
    if not named:
        raise QuotaError("the entity is empty; name a user, a client id or an address")
    if IP in named:
        if len(named) > 1:
            raise QuotaError("an address cannot be combined with a user or client id")
        address = named[IP]
        if address is not None and canonical_address(address) is None:
            raise QuotaError(f"{address!r:.100} is not an IP address")
    return ordered_entity(named)


def check_value(entity: QuotaEntity, name: str, value: float) -> None:
    """Checks one limit of an entity. Raises QuotaError."""
    allowed = IP_QUOTAS if entity[0][0] == IP else CLIENT_QUOTAS
    if name not in allowed:
        raise QuotaError(f"{name!r:.100} is not a quota of this entity; it may have {', '.join(allowed)}")
    if not (value > 0 and math.isfinite(value)):
        raise QuotaError(f"{name} must be a number greater than 0")
    largest = allowed[name]
    if largest is not None:
        if value > largest:
            raise QuotaError(f"{name} must be at most {largest}")
        if value % 1 > _FRACTION_MAX:
            raise QuotaError(f"{name} must be a whole number")


def canonical_address(text: str) -> str | None:
    """Returns the usual spelling of an address, so that addresses can be compared; None if it is none."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)


def changed_values(
    entity: QuotaEntity, current: Mapping[str, float], changes: Sequence[tuple[str, float | None]]
) -> dict[str, float]:
    """Returns the limits of an entity after changes; None removes a limit. Raises QuotaError."""
    values = dict(current)
    seen: set[str] = set()
    for name, value in changes:
        if name in seen:
            raise QuotaError(f"the request changes {name!r:.100} twice")
        seen.add(name)
        if value is None:
            values.pop(name, None)
        else:
            check_value(entity, name, value)
            values[name] = value
    return values
