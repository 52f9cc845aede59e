"""Filters of access rules, the check of a rule, and rules in words."""

import pytest
from msgspec.structs import replace

from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.security.acls.acl_codes import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType
from tailrace.security.acls.acl_filters import AclFilter, check_rule, selected, text_of_rule
from tailrace.security.records.acl_record import AclRecord

TOPIC = AclRecord(
    ResourceType.TOPIC, PatternType.LITERAL, "orders", "User:alice", "*", Operation.READ, Permission.ALLOW
)
PREFIX = replace(TOPIC, pattern_type=PatternType.PREFIXED, resource_name="ord", principal="User:bob")
ALL = replace(TOPIC, resource_name="*", operation=Operation.ALL, permission=Permission.DENY)
GROUP = replace(TOPIC, resource_type=ResourceType.GROUP, host="10.0.0.0/8")
RULES = (TOPIC, PREFIX, ALL, GROUP)


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (AclFilter(), RULES),
        (AclFilter(resource_type=ResourceType.GROUP), (GROUP,)),
        (AclFilter(resource_name="orders"), (TOPIC, GROUP)),
        (
            AclFilter(resource_type=ResourceType.TOPIC, resource_name="orders", pattern_type=PatternType.MATCH),
            RULES[:3],
        ),
        (AclFilter(resource_name="orders", pattern_type=PatternType.LITERAL), (TOPIC, GROUP)),
        (AclFilter(pattern_type=PatternType.PREFIXED), (PREFIX,)),
        (AclFilter(resource_name="ord", pattern_type=PatternType.PREFIXED), (PREFIX,)),
        (AclFilter(resource_name="*"), (ALL,)),
        (AclFilter(principal="User:bob"), (PREFIX,)),
        (AclFilter(host="10.0.0.0/8"), (GROUP,)),
        (AclFilter(operation=Operation.ALL), (ALL,)),
        (AclFilter(permission=Permission.DENY), (ALL,)),
        (AclFilter(principal="User:nobody"), ()),
    ],
)
def test_a_filter_selects_rules(chosen: AclFilter, expected: tuple[AclRecord, ...]) -> None:
    assert tuple(selected(RULES, chosen)) == expected


def test_unknown_codes_in_filters_are_refused() -> None:
    AclFilter().check()
    for wrong in (AclFilter(operation=99), AclFilter(resource_type=0), AclFilter(permission=7)):
        with pytest.raises(KafkaError) as refused:
            wrong.check()
        assert refused.value.code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    "wrong",
    [
        replace(TOPIC, resource_type=ResourceType.ANY),
        replace(TOPIC, resource_type=40),
        replace(TOPIC, pattern_type=PatternType.MATCH),
        replace(TOPIC, operation=Operation.ANY),
        replace(TOPIC, permission=Permission.ANY),
        replace(TOPIC, resource_name=""),
        replace(TOPIC, resource_type=ResourceType.CLUSTER),
        replace(TOPIC, principal="alice"),
        replace(TOPIC, host=""),
        replace(TOPIC, host="10.0.0.1/8"),
    ],
)
def test_a_rule_that_means_nothing_is_refused(wrong: AclRecord) -> None:
    with pytest.raises(KafkaError) as refused:
        check_rule(wrong)
    assert refused.value.code == ErrorCode.INVALID_REQUEST


def test_rules_that_mean_something_are_accepted() -> None:
    for rule in (*RULES, replace(TOPIC, resource_type=ResourceType.CLUSTER, resource_name=CLUSTER_NAME)):
        check_rule(rule)


def test_a_rule_is_said_in_words() -> None:
    assert text_of_rule(TOPIC) == "allow User:alice to read topic orders"
    assert text_of_rule(PREFIX) == "allow User:bob to read topics that begin with ord"
    assert text_of_rule(ALL) == "deny User:alice to do everything with all topics"
    assert text_of_rule(GROUP) == "allow User:alice to read group orders from 10.0.0.0/8"
