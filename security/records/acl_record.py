"""A stored access rule. Its numbers are the codes of Apache Kafka's protocol."""

from msgspec import Struct


class AclRecord(Struct, frozen=True):
    """A rule that allows or denies an operation on resources to a principal from a host."""

    resource_type: int
    pattern_type: int
    resource_name: str
    principal: str
    """The principal as text, for example `User:alice`, or `User:*` for all."""
    host: str
    """An IP address, a range of addresses, or `*` for all."""
    operation: int
    permission: int
