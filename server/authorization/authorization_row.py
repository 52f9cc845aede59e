"""The parts of the table of permissions: a row per API, with the checks that its guard makes."""

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from tailrace.protocol.error_codes import ErrorCode
from tailrace.security.acls.acl_codes import Operation, ResourceType

ERRORS: Mapping[int, ErrorCode] = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ResourceType.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
"""The error for each type of resource that a client may not use."""


class Check(NamedTuple):
    """One check: an operation on a resource that the request names."""

    operation: Operation
    resource: ResourceType
    field: str = ""
    """The field of the request that names the only resource; empty if the guard finds the resources itself."""
    with_cluster: Operation | None = None
    """The operation on the cluster that suffices as well."""
    with_some: tuple[Operation, ResourceType] | None = None
    """The operation that suffices as well if it is allowed for some resource of the type."""
    hides: bool = False
    """Whether the response leaves out what is denied, instead of an error."""
    code: ErrorCode | None = None
    """The error code for what is denied; None for that of the type of resource."""
    when: str = ""
    """In which requests the check is made; empty for all."""

    @property
    def error(self) -> ErrorCode:
        """The error code for what is denied."""
        return self.code or ERRORS[self.resource]


class Row(NamedTuple):
    """The permissions that an API needs."""

    api: IntEnum
    checks: tuple[Check, ...]
    guard: str
    """The module and function of the guard, as `group_guards:each_group`; empty if the API needs no permission."""
    note: str = ""
    """Who may use an API without checks, or what is special."""
