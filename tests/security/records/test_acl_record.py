"""Stored access rules."""

from msgspec.structs import replace
from security_samples import READ_ORDERS

from tailrace.security.records.acl_record import AclRecord


def test_a_rule_is_equal_to_a_rule_with_equal_fields_only() -> None:
    assert AclRecord(2, 3, "orders", "User:alice", "*", 3, 3) == READ_ORDERS
    assert replace(READ_ORDERS, host="10.0.0.1") != READ_ORDERS
