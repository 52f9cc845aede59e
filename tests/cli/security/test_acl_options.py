"""The options of `tailrace acl` and what they refuse."""

import argparse

import pytest

from tailrace.cli.main import parse
from tailrace.cli.options.sc_options import UsageError
from tailrace.cli.security.acl_options import operation_of, principal_of, rules
from tailrace.security.acls.acl_codes import Operation
from tailrace.security.acls.acl_filters import text_of_rule


def _parsed(*words: str) -> argparse.Namespace:
    return parse(["acl", "create", *words])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("alice", "read", "--topic", "a"), ["allow User:alice to read topic a"]),
        (("User:alice", "all", "--topic", "*"), ["allow User:alice to do everything with all topics"]),
        (
            ("*", "write", "--topic", "a-*", "--deny", "--host", "10.0.0.0/8"),
            ["deny User:* to write topics that begin with a- from 10.0.0.0/8"],
        ),
        (
            ("a", "read", "write", "--topic", "t", "--group", "g"),
            ["allow User:a to read topic t", "allow User:a to read group g", "allow User:a to write topic t"],
        ),
        (("a", "idempotent-write", "--cluster"), ["allow User:a to write idempotently to the cluster"]),
        (("a", "write", "--transactional-id", "x"), ["allow User:a to write transactional id x"]),
        (("a", "create-tokens", "--user", "b"), ["allow User:a to create tokens for user User:b"]),
    ],
)
def test_arguments_become_rules(words: tuple[str, ...], expected: list[str]) -> None:
    assert [text_of_rule(each) for each in rules(_parsed(*words))] == expected


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("a", "read"), "say what the rule is about"),
        (("a", "fly", "--topic", "t"), "not an operation"),
        (("a", "any", "--topic", "t"), "not an operation"),
        (("a", "write", "--group", "g"), "Write is not an operation on a group"),
        (("a", "read", "--topic", ""), "the name is empty"),
        (("a", "read", "--topic", "t", "--host", "10.0.0.1/8"), "not a range of addresses"),
        ((":a", "read", "--topic", "t"), "write it as User:NAME"),
    ],
)
def test_wrong_arguments_are_explained(words: tuple[str, ...], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        rules(_parsed(*words))


def test_names_have_short_forms() -> None:
    assert str(principal_of("alice")) == "User:alice"
    assert operation_of("describe-configs") is Operation.DESCRIBE_CONFIGS
