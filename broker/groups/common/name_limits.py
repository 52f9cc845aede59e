"""How long the names may be that clients give: of groups, members, instances, patterns, protocols.

Newer requests have room for names of any length, the keys of our records have not: a name that fits into no record has
to be refused before anything is decided about it.
"""

from collections.abc import Iterable

from tailrace.protocol.error_codes import ErrorCode, KafkaError

NAME_BYTES_MAX = 32_000
"""So that a member id that begins with a name is no longer than the 32 767 bytes that a record can hold."""


def check_names(names: Iterable[str | None]) -> None:
    """Raises KafkaError."""
    if any(name and len(name.encode()) > NAME_BYTES_MAX for name in names):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"names of more than {NAME_BYTES_MAX} bytes cannot be stored")
