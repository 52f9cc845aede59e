"""The errors of checks are those of the resources."""

from tailrace.protocol.error_codes import ErrorCode
from tailrace.security.acls.acl_codes import OPERATIONS, Operation, ResourceType
from tailrace.server.authorization.authorization_row import ERRORS, Check


def test_every_type_of_resource_has_an_error() -> None:
    assert set(ERRORS) == set(OPERATIONS)
    assert Check(Operation.READ, ResourceType.GROUP).error is ErrorCode.GROUP_AUTHORIZATION_FAILED
