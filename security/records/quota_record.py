"""The stored quotas of one entity."""

from collections.abc import Mapping

from msgspec import Struct

USER = "user"
CLIENT_ID = "client-id"
IP = "ip"

QuotaEntity = tuple[tuple[str, str | None], ...]
"""The parts of a quota's entity: types with names, or with None for the default of the type."""


class QuotaRecord(Struct, frozen=True):
    """The limits of an entity, for example of one user with one client id.

    The entity has its parts in the order of `ordered_entity`.
    """

    entity: QuotaEntity
    values: Mapping[str, float]
    """The limits by Kafka's names, for example `producer_byte_rate`."""


def ordered_entity(parts: Mapping[str, str | None]) -> QuotaEntity:
    """Returns the entity with these parts, always in the same order: user, client id, address."""
    return tuple((kind, parts[kind]) for kind in (USER, CLIENT_ID, IP) if kind in parts)
