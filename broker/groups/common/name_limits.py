"""The largest length of the names that clients give to groups, members and others.

Newer requests allow names of any length, but the keys of our records do not. A name that does not fit into a record is
refused before anything is decided about it.
"""

from collections.abc import Iterable

from tailrace.protocol.error_codes import ErrorCode, KafkaError

NAME_BYTES_MAX = 32_000
"""The largest name. A member id, which begins with a name, then fits into the 32 767 bytes of a record field."""


def check_names(names: Iterable[str | None]) -> None:
    """Raises KafkaError if one of the names is too long."""
    if any(name and len(name.encode()) > NAME_BYTES_MAX for name in names):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"a name has more than {NAME_BYTES_MAX} bytes")
