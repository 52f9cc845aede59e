"""The codes of access rules and their names."""

import pytest

from tailrace.security.acls.acl_codes import OPERATIONS, CodeError, Operation, ResourceType, code_of, name_of


@pytest.mark.parametrize("text", ["DescribeConfigs", "describe-configs", "DESCRIBE_CONFIGS", "describeconfigs"])
def test_a_name_is_read_in_any_spelling(text: str) -> None:
    assert code_of(Operation, text) is Operation.DESCRIBE_CONFIGS


def test_names_are_those_of_kafka() -> None:
    assert name_of(ResourceType.TRANSACTIONAL_ID) == "TransactionalId"
    assert name_of(Operation.IDEMPOTENT_WRITE) == "IdempotentWrite"


def test_an_unknown_name_is_refused_with_the_names_that_exist() -> None:
    with pytest.raises(CodeError, match="Any, Topic, Group"):
        code_of(ResourceType, "queue")
    with pytest.raises(CodeError):
        code_of(ResourceType, "unknown")


def test_every_type_of_resource_has_operations() -> None:
    assert set(OPERATIONS) == {each for each in ResourceType if each > ResourceType.ANY}
