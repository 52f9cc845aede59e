"""Finds quotas by the filters of DescribeClientQuotas."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tailrace.security.records.quota_record import IP, QuotaRecord

from .quota_rules import TYPES, QuotaError

EXACT = 0
DEFAULT = 1
ANY = 2


class UnknownTypeError(QuotaError):
    """A filter names a type of entity that does not exist."""


class EntityFilter(NamedTuple):
    """What one part of an entity must be: a type, and a name, the default, or any of both."""

    type: str
    match: int
    name: str | None = None


def check_filters(filters: Sequence[EntityFilter]) -> None:
    """Checks the filters of a request. Raises QuotaError."""
    seen: set[str] = set()
    for each in filters:
        if not each.type:
            raise QuotaError("a filter has no type")
        if each.type in seen:
            raise QuotaError(f"two filters have the type {each.type!r:.100}")
        seen.add(each.type)
        if each.type not in TYPES:
            raise UnknownTypeError(f"{each.type!r:.100} cannot have quotas; the types are {', '.join(TYPES)}")
        if each.match not in (EXACT, DEFAULT, ANY):
            raise QuotaError(f"there is no kind of match {each.match}")
        if (each.name is None) == (each.match == EXACT):
            raise QuotaError("a filter needs a name if it matches exactly, and must have none otherwise")
    if IP in seen and len(seen) > 1:
        raise QuotaError("a filter for addresses cannot be combined with filters for users or client ids")


def matching(
    records: Iterable[QuotaRecord], filters: Sequence[EntityFilter], *, is_strict: bool
) -> Iterator[QuotaRecord]:
    """Yields the records whose entities match all filters; if `is_strict`, the entities have no other parts."""
    for record in records:
        parts = dict(record.entity)
        if is_strict and len(parts) != len(filters):
            continue
        if all(
            each.type in parts
            and (each.match == ANY or parts[each.type] == (each.name if each.match == EXACT else None))
            for each in filters
        ):
            yield record
